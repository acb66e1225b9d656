"""A language on a device, and the broker that compiles.

lib = kernelwright.targets.compile(text, language="cpp")
module = kernelwright.targets.load_candidate(candidate, init_args)
"""

from kernelwright.targets.broker import LocalBroker, use_broker
from kernelwright.targets.kernels import compile, source
from kernelwright.targets.program import devices_of, environment, is_native, load_candidate, prepare
from kernelwright.targets.target import Broker, Language, Target

__all__ = [
    "Broker",
    "Language",
    "LocalBroker",
    "Target",
    "compile",
    "devices_of",
    "environment",
    "is_native",
    "load_candidate",
    "prepare",
    "source",
    "use_broker",
]
