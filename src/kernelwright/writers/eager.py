"""The user's own code, as it is: the first baseline."""

from kernelwright.records import Brief, Candidate, SourceFile
from kernelwright.writers.writer import Bench

_MODEL = '''from reference import Model


class ModelNew(Model):
    """The reference, run operator by operator."""
'''


class EagerWriter:
    """Proposes the reference itself."""

    name = "eager"
    baseline = True
    repeats = True

    def missing(self, target: str) -> str | None:
        return None if target in ("cpu", "cuda") else f"PyTorch runs nothing on {target!r} here"

    async def write(self, brief: Brief, bench: Bench) -> None:
        sources = (SourceFile("model.py", _MODEL), SourceFile("reference.py", brief.problem.source))
        await bench.submit(Candidate(self.name, f"torch@{brief.target}", sources, baseline=True))
