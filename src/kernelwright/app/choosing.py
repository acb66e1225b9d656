"""Writers as the command line names them: those that need more than a name are made here.

"swarm" (with --models), "agent", "human:FOLDER", "replay:RUN" or "replay:FOLDER"; any other is found by its name.
"""

import base64
import math
import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelwright.archive import Archive, open_archive
from kernelwright.context import LANGUAGES, languages_of
from kernelwright.errors import MissingError, UsageError
from kernelwright.records import Beside, Call, Picture, Problem, Reference
from kernelwright.search import choose_device, choose_writers, everybody
from kernelwright.writers import Writer
from kernelwright.writers.agent import AgentWriter
from kernelwright.writers.human import HumanWriter
from kernelwright.writers.models import named_models
from kernelwright.writers.purse import Limits
from kernelwright.writers.replay import ReplayWriter
from kernelwright.writers.swarm import Custom, SwarmWriter


@dataclass(frozen=True)
class Swarm:
    """What the options say of language models."""

    models: str | None = None
    """None: "auto" where the swarm is asked for by name, and no swarm else."""
    strategy: str = "best-of-swarm"
    turns: int = 5
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    resume: str | None = None
    """An earlier run that this one goes on with."""


def device_for(target: str, names: Sequence[str] | None, swarm: Swarm) -> str:
    """The device called `target`, or for "auto" the best that one of the writers of these names proposes for.

    Models write for any. Raises UsageError and MissingError.
    """
    plain = None if names is None else [name.partition(":")[0] for name in names]
    return choose_device(target, writers=() if swarm.models is not None else choose_writers(plain))


def choose(
    names: Sequence[str] | None,
    swarm: Swarm,
    device: str,
    archive: Path | None,
    baselines: Sequence[str] | None = None,
) -> tuple[Writer, ...]:
    """The writers of these names; None for all that can run here, with a swarm where models are named.

    `baselines`: the stock tools beside them, and no others; None leaves those among the names. Raises UsageError and
    MissingError.
    """
    from kernelwright.search.select import STRATEGIES

    if swarm.strategy not in STRATEGIES:
        raise UsageError(f"--strategy is one of {', '.join(STRATEGIES)}, and {swarm.strategy!r} is none of them")
    wanted = everybody() if names is None else list(names)
    if swarm.models is not None and "swarm" not in wanted:
        wanted.append("swarm")
    with open_archive(archive) as store:
        made: list[str | Writer] = [
            _made(name, swarm, device, archive, store, named=names is not None or swarm.models is not None)
            for name in wanted
        ]
        if swarm.resume:
            # What was judged comes back with its verdicts, so that the best of both runs wins.
            made.append(_replay(swarm.resume, store, device))
    chosen = choose_writers(made)
    if baselines is None:
        return chosen
    return choose_writers([writer for writer in chosen if not writer.baseline] + _stock(baselines, device))


def _stock(names: Sequence[str], device: str) -> list[Writer]:
    """The baselines of these names. Raises UsageError, and MissingError rather than leave one out unasked."""
    found = choose_writers(names)
    for writer in found:
        if not writer.baseline:
            raise UsageError(f"--baselines takes stock tools, and {writer.name} is none: name it in --writers")
        why = writer.missing(device)
        if why:
            raise MissingError(why)
    return list(found)


def _made(name: str, swarm: Swarm, device: str, archive: Path | None, store: Archive, named: bool) -> str | Writer:
    kind, _, rest = name.partition(":")
    if kind == "swarm" and named:
        before: tuple[Call, ...] = ()
        if swarm.resume:
            before = tuple(call for _, call in store.calls(store.find_run(swarm.resume)))
        limits = Limits(swarm.max_cost_usd, swarm.max_tokens)
        models = named_models(swarm.models or "auto")
        return SwarmWriter(models, Custom(swarm.strategy, swarm.turns, limits=limits), before)
    if kind == "agent" and named and name == "agent":
        return AgentWriter(math.inf, archive=archive)
    if kind == "human" and rest:
        return HumanWriter(Path(rest))
    if kind == "replay" and rest:
        return _replay(rest, store, device)
    return name


def _replay(what: str, store: Archive, device: str) -> Writer:
    """All candidates of a run but its baselines, which are always timed anew; or those of a folder."""
    if Path(what).is_dir():
        return ReplayWriter.of_folder(what, device)
    entries = store.outcome(store.find_run(what)).entries
    return ReplayWriter([entry.candidate for entry in entries if not entry.candidate.baseline])


def beside(
    references: Sequence[str], profiles: Sequence[Path], pictures: Sequence[Path], without: Sequence[str] = ()
) -> Beside:
    """What the user gives writers beside the problem; references are "cuda=kernel.cu". Raises UsageError."""
    shown = []
    for written in references:
        language, equals, path = written.partition("=")
        if not equals:
            raise UsageError(f'--reference {written!r} is not understood; write LANGUAGE=FILE, as "cuda=kernel.cu"')
        languages_of(language)
        shown.append(Reference(language, Path(path).name, _text(Path(path))))
    seen = []
    for place in pictures:
        media_type = mimetypes.guess_type(place.name)[0] or ""
        if not media_type.startswith("image/"):
            raise UsageError(f"{place} is no image by its name; give a .png or .jpg")
        try:
            seen.append(Picture(place.name, media_type, base64.b64encode(place.read_bytes()).decode()))
        except OSError as error:
            raise UsageError(f"cannot read {place}: {error.strerror}") from error
    return Beside(tuple(shown), tuple((place.name, _text(place)) for place in profiles), tuple(seen), tuple(without))


def with_best(given: Beside, problem: Problem, device: str, store: Archive) -> Beside:
    """With the archive's best for this problem on other devices among the references."""
    found = []
    for other in sorted({target for target in LANGUAGES if target != device}):
        best = store.best(problem.digest, other)
        if best:
            text = "\n\n".join(file.text for file in best.candidate.sources if file.path != "reference.py")
            found.append(Reference(best.candidate.target.partition("@")[0], f"{best.candidate.title} on {other}", text))
    return replace(given, references=(*given.references, *found))


def _text(place: Path) -> str:
    try:
        return place.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot read {place}: {error.strerror}") from error
