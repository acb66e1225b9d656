"""Hands in candidates that exist already: from a folder, or as records. The null member among the writers."""

from collections.abc import Sequence
from pathlib import Path

from kernelwright.errors import UsageError
from kernelwright.records import Brief, Candidate, SourceFile
from kernelwright.writers.languages import language_of
from kernelwright.writers.writer import Bench

_KERNELS = {".cpp": "cpp", ".metal": "metal", ".cu": "cuda"}
"""Language of a candidate that brings a kernel file with this ending; without one it is "torch"."""


class ReplayWriter:
    """Submits what it was made with, in order. Made by name alone it has nothing to submit."""

    name = "replay"
    baseline = False

    def __init__(self, candidates: Sequence[Candidate] = ()) -> None:
        self._candidates = tuple(candidates)
        self.attempts = max(1, len(self._candidates))

    @classmethod
    def of_folder(cls, folder: str | Path, device: str = "cpu") -> "ReplayWriter":
        """The candidates of a folder: each `.py` file in it, and each folder in it that holds a `model.py`.

        Raises UsageError where there is none.
        """
        place = Path(folder).expanduser()
        found = [
            candidate_of(path, device)
            for path in sorted(place.iterdir() if place.is_dir() else [])
            if path.suffix == ".py" or (path / "model.py").is_file()
        ]
        if not found:
            raise UsageError(f"{place} holds no candidate: neither a .py file nor a folder with a model.py")
        return cls(found)

    def missing(self, target: str) -> str | None:
        if any(candidate.target.endswith(f"@{target}") for candidate in self._candidates):
            return None
        return f"it was given no candidates for {target}; it replays those of a folder, or of an archive"

    async def write(self, brief: Brief, bench: Bench) -> None:
        fitting = [candidate for candidate in self._candidates if candidate.target.endswith(f"@{brief.target}")]
        for candidate in fitting[: brief.attempts]:
            await bench.submit(candidate)


def candidate_of(path: str | Path, device: str = "cpu", writer: str = "replay") -> Candidate:
    """The candidate that a `.py` file is, or a folder with a `model.py` and what lies beside it.

    Its language is that of its kernel files, "torch" without any. Raises UsageError for what cannot be read, and for
    a text without a class ModelNew.
    """
    place = Path(path).expanduser()
    model = place / "model.py" if place.is_dir() else place
    beside = sorted(file for file in place.iterdir() if file.is_file() and file != model) if place.is_dir() else []
    try:
        sources = [SourceFile("model.py", model.read_text(encoding="utf-8"))]
        sources += [
            SourceFile(file.name, file.read_text(encoding="utf-8"))
            for file in beside
            if file.suffix in (".py", ".h", ".hpp", *_KERNELS)
        ]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"candidate {place} cannot be read: {error}") from error
    if "ModelNew" not in sources[0].text:
        raise UsageError(f"candidate {model} defines no class ModelNew")
    languages = [_KERNELS[file.suffix] for file in beside if file.suffix in _KERNELS]
    language = languages[0] if languages else language_of(sources[0].text)
    return Candidate(writer, f"{language}@{device}", tuple(sources), label=place.stem)
