"""A problem of our own small suite: "suite:softmax", the file benchmarks/suite/softmax.py of the repository."""

from pathlib import Path

from kernelwright.errors import ProblemError, UnknownNameError
from kernelwright.problems.sources.source import Reference, read_text


class SuiteSource:
    """Reads `suite:NAME`, or `suite:NAME@DIR` where the repository is elsewhere."""

    name = "suite"
    form = "suite:softmax"

    def accepts(self, ref: str) -> bool:
        return ref.startswith("suite:")

    def read(self, ref: str) -> Reference:
        stem, _, folder = ref.removeprefix("suite:").partition("@")
        files = _files(folder or None)
        if stem not in files:
            raise UnknownNameError("problem of the suite", stem, files)
        return Reference(stem, read_text(files[stem]), "Model", f"suite:{stem}", str(files[stem]))


def suite_problems(folder: str | Path | None = None) -> tuple[str, ...]:
    """The references of the suite's problems by name; `folder`: benchmarks/suite of a repository elsewhere."""
    place = "" if folder is None else f"@{folder}"
    return tuple(f"suite:{stem}{place}" for stem in sorted(_files(folder)))


def _files(folder: str | Path | None) -> dict[str, Path]:
    """The suite's files by stem. Without a folder: beside an editable install, else below the working directory."""
    repository = Path(__file__).resolve().parents[4]
    places = [Path(folder).expanduser()] if folder else [root / "benchmarks" / "suite" for root in (repository, Path())]
    for place in places:
        files = {file.stem: file for file in place.glob("*.py") if not file.stem.startswith("_")}
        if files:
            return files
    raise ProblemError(
        f"no files of the suite at {places[-1]}; they come with the repository: write suite:NAME@REPO/benchmarks/suite"
    )
