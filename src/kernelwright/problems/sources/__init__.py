"""Where problems come from. One file a kind of reference."""

from kernelwright.problems.sources.source import ProblemSource, Reference

__all__ = ["ProblemSource", "Reference"]
