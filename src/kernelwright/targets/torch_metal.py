"""PyTorch operators on Metal."""

from kernelwright.metal import native
from kernelwright.records import Facts
from kernelwright.targets.devices import metal


class TorchMetalTarget:
    """Candidates that call torch's own operators on "mps": on a Mac, elsewhere hosted by the CPU, without a time."""

    name = "torch@metal"
    language = "torch"
    device = "metal"

    @property
    def native(self) -> bool:
        return native.available()

    def missing(self) -> str | None:
        return metal.missing()

    def facts(self) -> Facts:
        return metal.facts()
