"""Who proposes candidates. One file a writer."""

from kernelwright.writers.writer import Bench, Standing, Turn, Writer

__all__ = ["Bench", "Standing", "Turn", "Writer"]
