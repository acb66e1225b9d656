"""C++ kernels on the CPU."""

from kernelwright.records import Facts
from kernelwright.targets.devices import cpu
from kernelwright.toolchain import clang


class CppCpuTarget:
    """Candidates whose kernels are C++, compiled by the broker and run on torch's threads."""

    name = "cpp@cpu"
    language = "cpp"
    device = "cpu"
    native = True

    def missing(self) -> str | None:
        return clang.missing()

    def facts(self) -> Facts:
        return cpu.facts()
