"""What was tried and found, in SQLite, append-only and keyed by content."""

from kernelwright.archive.archive import Archive, Miss, Run
from kernelwright.archive.opening import open_archive

__all__ = ["Archive", "Miss", "Run", "open_archive"]
