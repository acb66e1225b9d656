"""Metal kernels: on a Mac's GPU, elsewhere hosted by the CPU."""

from kernelwright.metal import native
from kernelwright.records import Facts
from kernelwright.targets.devices import metal
from kernelwright.toolchain import clang


class MetalTarget:
    """Candidates whose kernels are Metal: run by a Mac's GPU, elsewhere hosted by the CPU, without a time."""

    name = "metal@metal"
    language = "metal"
    device = "metal"

    @property
    def native(self) -> bool:
        return native.available()

    def missing(self) -> str | None:
        return metal.missing() or (None if self.native else clang.missing())

    def facts(self) -> Facts:
        return metal.facts()
