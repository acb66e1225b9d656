"""PyTorch operators on the CPU."""

from importlib.util import find_spec

from kernelwright.records import Facts
from kernelwright.targets.devices import cpu


class TorchCpuTarget:
    """Candidates that call torch's own operators, eagerly or compiled ahead of time."""

    name = "torch@cpu"
    language = "torch"
    device = "cpu"
    native = True

    def missing(self) -> str | None:
        return None if find_spec("torch") else "PyTorch is not installed: pip install torch"

    def facts(self) -> Facts:
        return cpu.facts()
