"""What was tried and found, in SQLite, append-only and keyed by content."""

from kernelwright.archive.archive import Archive, Miss, Run

__all__ = ["Archive", "Miss", "Run"]
