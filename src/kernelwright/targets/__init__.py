"""A language on a device, and the broker that compiles."""

from kernelwright.targets.broker import LocalBroker, use_broker
from kernelwright.targets.kernels import compile, source
from kernelwright.targets.target import Broker, Language, Target

__all__ = [
    "Broker",
    "Language",
    "LocalBroker",
    "Target",
    "compile",
    "source",
    "use_broker",
]
