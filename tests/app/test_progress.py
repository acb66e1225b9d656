import time

import pytest
from rich.console import Console

from kernelwright.app.progress import Progress
from kernelwright.records import (
    Candidate,
    Comparison,
    Entry,
    Environment,
    Event,
    EventKind,
    Facts,
    SourceFile,
    Stage,
    Status,
    Timing,
    Verdict,
)

HERE = Environment(Facts("cpu", "a processor", "x86_64"), system="", python="", torch="", threads=1)
BASE = Candidate("eager", "torch@cpu", (SourceFile("model.py", ""),), baseline=True)
FAST = Candidate("template", "cpp@cpu", (SourceFile("model.py", "x"),), label="vec=8")


def told() -> list[tuple[Event, Entry | None]]:
    beside = (Comparison("eager", BASE.digest, Timing((100.0,), ""), 2.0, 1.9, 2.1),)
    verdict = Verdict(
        FAST.digest, "p", "cpp@cpu", Status.PASSED, Stage.TIME, HERE, timing=Timing((50.0,), ""), comparisons=beside
    )
    return [
        (Event(EventKind.STARTED, 0.0, message="net on cpu", left_s=60), None),
        (Event(EventKind.SKIPPED, 0.1, "inductor", message="needs g++", left_s=59), None),
        (Event(EventKind.WRITING, 0.1, "template", left_s=59), None),
        (Event(EventKind.SUBMITTED, 0.2, "template", FAST.digest, FAST.title, left_s=59), None),
        (
            Event(EventKind.JUDGED, 1.0, "template", FAST.digest, "template vec=8: PASSED, 50.0 us", left_s=58),
            Entry(FAST, verdict),
        ),
    ]


def test_outside_a_terminal_it_is_plain_lines() -> None:
    console = Console(record=True, width=100, force_terminal=False)
    with Progress(console, "net") as progress:
        for event, entry in told():
            progress(event, entry)
    lines = console.export_text().splitlines()
    assert len(lines) == 4
    assert "needs g++" in lines[1] and "PASSED, 50.0 us" in lines[3]
    assert progress.best and progress.best.candidate == FAST


def test_in_a_terminal_it_shows_writers_verdicts_best_and_time_left() -> None:
    console = Console(record=True, width=120, force_terminal=True)
    progress = Progress(console, "net on cpu")
    for event, entry in told():
        progress._hear(event, entry)
    console.print(progress._draw())
    text = console.export_text()
    assert "0:57 left" in text or "0:58 left" in text
    assert "best so far 2.00x (template vec=8)" in text
    assert "skipped: needs g++" in text and "2.00x over eager" in text


def test_at_80_columns_names_are_whole_and_told_once() -> None:
    console = Console(record=True, width=80, force_terminal=True)
    progress = Progress(console, "net on cpu")
    for event, entry in told():
        progress._hear(event, entry)
    progress._hear(Event(EventKind.SKIPPED, 1.0, "replay", message="it was given no candidates " * 5), None)
    console.print(progress._draw())
    lines = console.export_text().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert any(line.startswith("template  vec=8: PASSED, 50.0 us") for line in lines)
    assert any(line.startswith("inductor  skipped: needs g++") for line in lines)
    assert any(line.startswith("replay    skipped: it was given") and line.rstrip().endswith("…") for line in lines)


def test_past_the_budget_it_says_so_and_by_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(record=True, width=120, force_terminal=True)
    progress = Progress(console, "net on cpu")
    for event, entry in told():
        progress._hear(event, entry)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 58 + 63.5)
    progress._hear(Event(EventKind.NOTE, 121.0, "template", FAST.digest, "confirming it", left_s=0), None)
    console.print(progress._draw())
    assert "1:03 past the budget, finishing" in console.export_text()
