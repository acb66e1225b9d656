"""A class in a Python file: "examples/vision_attention.py:VisionAttention"."""

from pathlib import Path

from kernelwright.errors import ProblemError
from kernelwright.problems.sources.source import Reference, read_text


class FileSource:
    """Reads `path/to/file.py:Class`; without a class the file's `Model` is meant."""

    name = "file"
    form = "path/to/file.py:Class"

    def accepts(self, ref: str) -> bool:
        path, _, entry = ref.rpartition(":")
        return ref.endswith(".py") or (path.endswith(".py") and (entry.isidentifier() or not entry))

    def read(self, ref: str) -> Reference:
        path, entry = (ref, "") if ref.endswith(".py") else ref.rsplit(":", 1)
        if path != ref and not entry:
            raise ProblemError(f"{ref!r} names no class after the colon; write {path}:Class")
        entry = entry or "Model"
        file = Path(path).expanduser()
        folder = str(file.resolve().parent)
        return Reference(file.stem if entry == "Model" else entry, read_text(file), entry, ref, str(file), (folder,))
