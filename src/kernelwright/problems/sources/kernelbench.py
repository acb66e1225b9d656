"""A problem of KernelBench: "kernelbench:level2/40@DIR", DIR being a checkout of any of its versions."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from kernelwright.errors import ProblemError
from kernelwright.problems.sources.source import Reference, read_text

_REF = re.compile(r"kernelbench:level(?P<level>\d+)/(?P<number>\d+)(?:@(?P<folder>.+))?")
_PLACES = ("KernelBench", ".", "src/kernelbench", "src/KernelBench")
"""Where a checkout, or a folder inside it, keeps level1, level2, ..."""


class KernelBenchSource:
    """Reads `kernelbench:level2/40@DIR`. Its files define `Model`, `get_inputs` and `get_init_inputs`."""

    name = "kernelbench"
    form = "kernelbench:level2/40@DIR"

    def accepts(self, ref: str) -> bool:
        return ref.startswith("kernelbench:")

    def read(self, ref: str) -> Reference:
        parts = _REF.fullmatch(ref)
        if parts is None:
            raise ProblemError(f"{ref!r} is not understood; write {self.form}")
        if parts["folder"] is None:
            raise ProblemError(f"{ref!r} names no checkout of KernelBench; write {ref}@DIR")
        level, number = int(parts["level"]), int(parts["number"])
        files = _files(Path(parts["folder"]).expanduser(), level)
        if number not in files:
            raise ProblemError(f"level {level} of {parts['folder']} has no problem {number}; it has {_spans(files)}")
        file = files[number]
        origin = f"kernelbench:level{level}/{number}"
        return Reference(f"level{level}/{file.stem}", read_text(file), "Model", origin, str(file))


def kernelbench_problems(
    folder: str | Path, levels: Sequence[int], numbers: Collection[int] | None = None
) -> tuple[str, ...]:
    """The references of a checkout's problems in `levels`, by level and number; of `numbers` where given."""
    return tuple(
        f"kernelbench:level{level}/{number}@{folder}"
        for level in levels
        for number in sorted(_files(Path(folder).expanduser(), level))
        if numbers is None or number in numbers
    )


def _files(folder: Path, level: int) -> dict[int, Path]:
    """The files of a level by their numbers. Raises ProblemError where the folder has no such level."""
    for place in _PLACES:
        home = folder / place / f"level{level}"
        if home.is_dir():
            numbered = (re.match(r"(\d+)_", file.name) for file in home.glob("*.py"))
            files = {int(match[1]): home / match.string for match in numbered if match}
            if files:
                return files
    raise ProblemError(f"{folder} has no level{level} with problems; a checkout of KernelBench is expected there")


def _spans(numbers: Collection[int]) -> str:
    """ "1-20, 23" for the numbers 1 to 20 and 23."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
