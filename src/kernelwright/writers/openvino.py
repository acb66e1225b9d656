"""What OpenVINO makes of the user's code: a baseline for those who ask for it."""

from kernelwright.records import Brief
from kernelwright.writers.onnxruntime import candidate, missing
from kernelwright.writers.writer import Bench


class OpenVinoWriter:
    """Proposes the reference exported to ONNX and run by OpenVINO, where it is asked for by name."""

    name = "openvino"
    baseline = True
    repeats = True
    named_only = True

    def missing(self, target: str) -> str | None:
        return missing(target, "OpenVINO", self.name, "openvino")

    async def write(self, brief: Brief, bench: Bench) -> None:
        await bench.submit(candidate(brief, self.name, "OpenVINO"))
