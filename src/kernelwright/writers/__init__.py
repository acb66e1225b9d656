"""Who proposes candidates. One file a writer."""

from kernelwright.writers.writer import Bench, Writer

__all__ = ["Bench", "Writer"]
