"""Triton kernels on an NVIDIA GPU."""

from importlib.util import find_spec

from kernelwright.records import Facts
from kernelwright.targets.devices import cuda


class TritonCudaTarget:
    """Candidates whose kernels are Triton's, those that torch.compile writes included. Triton compiles as it runs and
    starts a C compiler and NVIDIA's assembler for it, so these candidates alone may start programs."""

    name = "triton@cuda"
    language = "triton"
    device = "cuda"
    native = True

    def missing(self) -> str | None:
        return cuda.missing() or (None if find_spec("triton") else "Triton is not installed: pip install triton")

    def facts(self) -> Facts:
        return cuda.facts()
