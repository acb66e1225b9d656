"""A Mac's GPU, or this machine's processor in its place."""

import subprocess
import sys
from importlib.util import find_spec

from kernelwright.metal import native
from kernelwright.records import Facts
from kernelwright.targets.devices import cpu, limits
from kernelwright.toolchain.features import arch


def missing() -> str | None:
    """Why no candidate for Metal can be run or hosted here; None if it can."""
    if not find_spec("torch"):
        return "PyTorch is not installed: pip install torch"
    if sys.platform == "darwin" and not native.available():
        return "torch finds no Metal on this Mac (torch.backends.mps.is_available()): it takes macOS 14 or newer"
    return None


def facts() -> Facts:
    """On a Mac its chip, else the host. A host's speeds are not told: they are not Metal's."""
    if native.available():
        return describe_mac(subprocess.run(_ASK, capture_output=True, text=True).stdout)
    host = cpu.describe()
    return Facts(
        device="metal",
        name=f"hosted by {host.name}",
        arch=host.arch,
        features=host.features,
        threads=host.threads,
        memory_bytes=host.memory_bytes,
    )


_ASK = ("/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string", "hw.memsize")


def describe_mac(sysctl: str) -> Facts:
    """The facts in what `sysctl -n machdep.cpu.brand_string hw.memsize` prints. No speed was measured."""
    name, _, memory = sysctl.strip().partition("\n")
    return Facts(
        device="metal",
        name=name.strip() or "Apple GPU",
        arch=arch(),
        threads=limits.cores(),
        memory_bytes=int(memory) if memory.strip().isdigit() else 0,
    )
