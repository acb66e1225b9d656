"""A person with an editor: the brief is written to a folder, and what is dropped there is judged."""

import asyncio
import time
from pathlib import Path

from kernelwright.errors import KernelwrightError, UsageError
from kernelwright.records import Brief, Candidate, Verdict, Weight
from kernelwright.writers.reply import assembled
from kernelwright.writers.writer import Bench

LOOK_S = 0.5
SETTLED_S = 0.7
"""A file that changed later than this ago may still be written."""
_READ = (".py", ".cpp", ".metal", ".cu", ".hip", ".h", ".hpp")


class HumanWriter:
    """Judges what a person drops into a folder, as it appears, and writes each verdict beside it.

    A candidate is a `.py` file with ModelNew, or a folder with a `model.py`; one that is changed is judged again.
    """

    name = "human"
    baseline = False
    attempts = 10_000

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def missing(self, target: str) -> str | None:
        if self._folder is not None:
            return None
        return "it waits for a person's files, so it runs where a folder is named: --writers human:FOLDER"

    async def write(self, brief: Brief, bench: Bench) -> None:
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "BRIEF.md").write_text(brief.text() + "\n", encoding="utf-8")
        (self._folder / "reference.py").write_text(brief.problem.source, encoding="utf-8")
        bench.tell(f"the brief is {self._folder / 'BRIEF.md'}; candidates dropped beside it are judged")
        judged: dict[str, float] = {}
        under_way: set[asyncio.Task[None]] = set()
        try:
            while True:  # until the search's time is up
                for place in candidates(self._folder):
                    changed = _changed(place)
                    if judged.get(place.name) != changed and time.time() - changed > SETTLED_S:
                        judged[place.name] = changed
                        under_way.add(asyncio.create_task(_judge(place, brief, bench)))
                under_way = {task for task in under_way if not task.done()}
                await asyncio.sleep(LOOK_S)
        finally:
            for task in under_way:
                task.cancel()


def candidates(folder: Path) -> list[Path]:
    """What lies in the folder and looks like a candidate."""
    return [
        place
        for place in sorted(folder.iterdir())
        if (place.is_dir() and (place / "model.py").is_file())
        or (place.suffix == ".py" and place.name != "reference.py")
    ]


def read(place: Path, brief: Brief) -> Candidate:
    """The candidate. Raises UsageError."""
    try:
        if place.is_dir():
            held = {
                file.name: file.read_text(encoding="utf-8") for file in sorted(place.iterdir()) if file.suffix in _READ
            }
        else:
            held = {"model.py": place.read_text(encoding="utf-8")}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{place} cannot be read: {error}") from error
    if "ModelNew" not in held["model.py"]:
        raise UsageError(f"{place} defines no class ModelNew")
    return assembled(held, brief, HumanWriter.name, place.stem)


def _changed(place: Path) -> float:
    """When the candidate was changed last, in seconds since the epoch."""
    files = [*place.iterdir()] if place.is_dir() else [place]
    return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)


async def _judge(place: Path, brief: Brief, bench: Bench) -> None:
    try:
        told = verdict_text(await bench.submit(read(place, brief)))
    except KernelwrightError as error:
        told = f"not judged: {error}"
    bench.tell(f"{place.name}: {told.splitlines()[0]}")
    place.parent.joinpath(f"{place.name}.verdict.txt").write_text(told + "\n", encoding="utf-8")


def verdict_text(verdict: Verdict) -> str:
    """A verdict for the person who wrote the candidate."""
    lines = [f"{verdict.status.value} at {verdict.stage.value}"]
    if verdict.timing:
        lines[0] += f", {verdict.timing.median_us:,.1f} us"
    lines += [
        f"{item.speedup:.2f}x over {item.baseline} ({item.low:.2f} to {item.high:.2f})" for item in verdict.comparisons
    ]
    words = {Weight.GATE: "FAILED", Weight.BAR: "cannot win", Weight.INFORM: "note"}
    lines += [f"{words[item.weight]} {item.check}: {item.message}" for item in verdict.findings if not item.ok]
    return "\n".join([*lines, *([verdict.log] if verdict.log else [])])
