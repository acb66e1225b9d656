"""The user's archive."""

from pathlib import Path

from kernelwright.archive.archive import Archive
from kernelwright.home import home


def open_archive(path: Path | None = None) -> Archive:
    """The archive at `path`; None for the user's own in home()."""
    return Archive(home() / "archive.sqlite" if path is None else path)
