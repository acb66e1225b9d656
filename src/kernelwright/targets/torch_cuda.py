"""PyTorch operators on an NVIDIA GPU."""

from kernelwright.records import Facts
from kernelwright.targets.devices import cuda


class TorchCudaTarget:
    """Candidates that call torch's own operators."""

    name = "torch@cuda"
    language = "torch"
    device = "cuda"
    native = True

    def missing(self) -> str | None:
        return cuda.missing()

    def facts(self) -> Facts:
        return cuda.facts()
