"""CUDA C++ kernels on an NVIDIA GPU."""

from kernelwright.records import Facts
from kernelwright.targets.devices import cuda
from kernelwright.toolchain import nvrtc


class CudaCudaTarget:
    """Candidates whose kernels are CUDA C++, compiled by the broker."""

    name = "cuda@cuda"
    language = "cuda"
    device = "cuda"
    native = True

    def missing(self) -> str | None:
        return cuda.missing() or nvrtc.missing()

    def facts(self) -> Facts:
        return cuda.facts()
