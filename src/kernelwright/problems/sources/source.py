"""What a source gives: the user's text, and which of its classes is meant."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kernelwright.errors import ProblemError


@dataclass(frozen=True)
class Reference:
    """A file's text as its author left it."""

    name: str
    """For tables: "VisionAttention", "level2/40_Matmul_Scaling_ResidualAdd"."""
    text: str
    entry: str
    """The class that is meant."""
    origin: str
    """The reference as the user gave it."""
    path: str
    import_paths: tuple[str, ...] = ()


class ProblemSource(Protocol):
    """Reads one kind of reference. One file of this room, found by its `name`."""

    name: str
    form: str
    """How such a reference is written, for messages: "path/to/file.py:Class"."""

    def accepts(self, ref: str) -> bool:
        """Whether `ref` is of this kind, judged by its form alone."""
        ...

    def read(self, ref: str) -> Reference:
        """The text. Raises ProblemError where it is not there."""
        ...


def read_text(path: Path) -> str:
    """The file's text. Raises ProblemError with one sentence."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        near = sorted(item.name for item in path.parent.glob("*.py"))[:8] if path.parent.is_dir() else []
        hint = f"; {path.parent} holds {', '.join(near)}" if near else ""
        raise ProblemError(f"there is no file {path}{hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(f"{path} cannot be read: {error}") from error
