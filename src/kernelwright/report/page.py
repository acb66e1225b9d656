"""The page of a run: one HTML file that needs nothing beside it, neither network nor server."""

import base64
import hashlib
import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from kernelwright.records import Candidate, Comparison, Entry, Facts, Finding, Outcome, Status, Weight
from kernelwright.report import wording
from kernelwright.report.scale import Scale, ratio_scale, time_scale
from kernelwright.report.source import Line, as_code, difference, highlight, shorten, visible

_SIGN = {"eager": "○", "compile": "●"}


@dataclass(frozen=True)
class Mark:
    """A speedup with its interval, placed on the plot in per cent."""

    kind: str
    """"eager" or "compile"."""
    at: float
    low: float
    high: float


@dataclass(frozen=True)
class PlotRow:
    """A candidate of the speedup plot."""

    label: str
    value: str
    kind: str
    """"best", "base" or "other"."""
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Strip:
    """Samples of one timing, placed in per cent."""

    label: str
    dots: tuple[float, ...]
    median: float
    value: str
    best: bool = False


@dataclass(frozen=True)
class Listing:
    """A source file as it is shown."""

    path: str
    html: Markup
    left_out: int
    """Lines that were cut."""
    repeats: str = ""
    """What the text is the same as, where it is not shown again."""


@dataclass(frozen=True)
class Card:
    """A candidate as the page shows it."""

    entry: Entry
    best: bool
    standing: str
    tone: str
    """"good", "plain" or "bad"."""
    labels: tuple[str, ...]
    eager: Comparison | None
    compile: Comparison | None
    failed: tuple[Finding, ...]
    informed: tuple[Finding, ...]
    passed: tuple[Finding, ...]
    listings: tuple[Listing, ...]
    parents: tuple[str, ...]
    diff: tuple[Line, ...]
    strip: Strip | None
    strips: tuple[Strip, ...]
    scale: Scale | None

    @property
    def anchor(self) -> str:
        return f"c-{self.entry.candidate.digest[:12]}"


def write_html(outcome: Outcome, path: Path) -> Path:
    """Writes the page of the run to `path` and returns it. The file appears whole or not at all."""
    cards = _cards(outcome)
    return write_page(
        path,
        "run.html.j2",
        outcome=outcome,
        problem=outcome.problem,
        reference=_listing("reference.py", _reference(outcome)),
        cards=cards,
        plot=_plot(cards),
        best=next((card for card in cards if card.best), None),
        environment=next((entry.verdict.environment for entry in wording.ranked(outcome)), None),
        judge=next((entry.verdict.judge for entry in outcome.entries), ""),
        pays_back=wording.pays_back_after(outcome),
        unmeasured=tuple((writer, why) for writer, why in outcome.skipped if writer.split()[0] in wording.BASELINES),
        shapes=_shapes(outcome),
        machine=machine,
    )


def write_page(path: Path, template: str, **values: Any) -> Path:
    """Renders a template of this room to `path`."""
    text = _templates().get_template(template).render(**values)
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft.write_bytes(text.encode("utf-8", "backslashreplace"))
    draft.replace(path)
    return path


@cache
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("kernelwright.report", "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {
        "us": wording.microseconds,
        "times": wording.times,
        "interval": wording.interval,
        "size": wording.size,
        "duration": wording.duration,
        "count": wording.count,
        "code": as_code,
        "visible": visible,
        "day": lambda at: time.strftime("%d %B %Y, %H:%M UTC", time.gmtime(at)).lstrip("0"),
    }
    script = Markup(loader.get_source(made, "page.js")[0])  # ours, not a candidate's
    made.globals |= {
        "times_tick": lambda tick: f"{tick:g}×",
        "time_tick": wording.round_time,
        "style": Markup(loader.get_source(made, "page.css")[0]),
        "script": script,
        # Only this very script may run, whatever else found its way into the page.
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
    return made


def _reference(outcome: Outcome) -> str:
    return outcome.problem.readable or outcome.problem.source


def _cards(outcome: Outcome) -> tuple[Card, ...]:
    known = {entry.candidate.digest: entry.candidate for entry in outcome.entries}
    ranked = wording.ranked(outcome)
    samples = [at for entry in ranked if entry.verdict.timing for at in entry.verdict.timing.samples_us]
    shared = time_scale(samples) if samples else None
    return tuple(_card(outcome, entry, known, shared) for entry in ranked)


def _card(outcome: Outcome, entry: Entry, known: dict[str, Candidate], shared: Scale | None) -> Card:
    candidate, verdict = entry.candidate, entry.verdict
    best = outcome.best is not None and outcome.best.candidate.digest == candidate.digest
    parent = next((known[name] for name in candidate.parents if name in known), None)
    timed = [(candidate.title, verdict.timing)] if verdict.timing else []
    timed += [(item.baseline, item.timing) for item in verdict.comparisons]
    scale = time_scale(at for _, timing in timed for at in timing.samples_us) if timed else None
    strips = [] if scale is None else [_strip(title, timing, scale) for title, timing in timed]
    return Card(
        entry=entry,
        best=best,
        standing=wording.standing(verdict),
        tone="good" if verdict.confirmed else "plain" if verdict.status is Status.PASSED else "bad",
        labels=wording.labels(verdict),
        eager=wording.over_eager(entry),
        compile=wording.over_compile(entry),
        failed=(*verdict.failed(Weight.GATE), *verdict.failed(Weight.BAR)),
        informed=verdict.failed(Weight.INFORM),
        passed=tuple(finding for finding in verdict.findings if finding.ok),
        listings=tuple(
            _listing(file.path, file.text, "the reference" if file.text == _reference(outcome) else "")
            for file in candidate.sources
        ),
        parents=tuple(known[name].title if name in known else name[:12] for name in candidate.parents),
        diff=difference(parent, candidate) if parent else (),
        strip=_strip(candidate.title, verdict.timing, shared) if verdict.timing and shared else None,
        strips=tuple(strips),
        scale=scale,
    )


def _strip(label: str, timing: Any, scale: Scale) -> Strip:
    dots = tuple(scale.place(at) for at in timing.samples_us[:200])
    return Strip(label, dots, scale.place(timing.median_us), wording.microseconds(timing.median_us))


def _listing(path: str, text: str, repeats: str = "") -> Listing:
    shown, left_out = shorten(text)
    return Listing(path, Markup("") if repeats else highlight(path, shown), left_out, repeats)


def _plot(cards: tuple[Card, ...]) -> tuple[Scale, tuple[PlotRow, ...]] | None:
    compared = [
        (card, [(kind, item) for kind, item in (("eager", card.eager), ("compile", card.compile)) if item is not None])
        for card in cards
        if card.entry.verdict.status is Status.PASSED
    ]
    compared = [(card, items) for card, items in compared if items]
    if not compared:
        return None
    scale = ratio_scale(edge for _, items in compared for _, item in items for edge in (item.low, item.high))
    rows = tuple(
        PlotRow(
            card.entry.candidate.title,
            "  ".join(f"{_SIGN[kind]} {wording.times(item.speedup)}" for kind, item in items),
            "best" if card.best else "base" if card.entry.candidate.baseline else "other",
            tuple(Mark(kind, *map(scale.place, (item.speedup, item.low, item.high))) for kind, item in items),
        )
        for card, items in compared
    )
    return scale, rows


def _shapes(outcome: Outcome) -> tuple[str, ...]:
    def dimension(item: Any) -> str:
        return str(item) if isinstance(item, int) else f"{item.low}..{item.high}"

    return tuple(
        f"{tensor.name}: {tensor.dtype} [{', '.join(dimension(item) for item in tensor.shape)}]"
        for tensor in outcome.problem.signature.tensors
    )


def machine(facts: Facts) -> tuple[tuple[str, str], ...]:
    """The device's facts as rows of words; what is not known is left out."""
    rows = [("Device", f"{facts.name} ({facts.device}, {facts.arch})"), ("Threads", str(facts.threads))]
    if facts.memory_bytes:
        rows.append(("Memory", wording.size(facts.memory_bytes)))
    if facts.cache_bytes:
        rows.append(("Caches", ", ".join(wording.size(item) for item in facts.cache_bytes)))
    if facts.bandwidth_gbs:
        rows.append(("Memory bandwidth", f"{facts.bandwidth_gbs:.1f} GB/s, measured"))
    if facts.cache_bandwidth_gbs:
        rows.append(("Cache bandwidth", ", ".join(f"{item:.0f}" for item in facts.cache_bandwidth_gbs) + " GB/s"))
    rows += [(f"Peak {dtype}", f"{gflops:.0f} GFLOP/s") for dtype, gflops in facts.peak_gflops]
    if facts.features:
        rows.append(("Features", ", ".join(facts.features)))
    return tuple(rows)
