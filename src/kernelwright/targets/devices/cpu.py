"""The processor: what the system says of it, and a short measurement remembered on disk."""

import json
import os
import platform
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from kernelwright.home import home
from kernelwright.records import Facts, decode, digest, encode
from kernelwright.targets.devices import limits
from kernelwright.targets.locking import alone
from kernelwright.toolchain.features import arch, features


@cache
def facts() -> Facts:
    """This machine's processor, measured (in about a second) the first time ever it is asked for.

    A measurement taken while other work ran is used, and made once more when the machine is found quiet.
    """
    described = describe()
    path = home() / "devices" / f"cpu-{digest('cpu', described)[:16]}.json"
    with alone(path.with_suffix(".lock")):
        quiet = os.getloadavg()[0] < 0.5 * described.threads
        remembered = _recall(path)
        if remembered and not (remembered.disturbed and quiet):
            return remembered
        from kernelwright.targets.devices.measure import measured

        result = replace(measured(described), disturbed=not quiet)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(encode(result), indent=1))
        partial.replace(path)
        return result


def describe() -> Facts:
    """What can be told without measuring."""
    if sys.platform == "darwin":
        done = subprocess.run(["/usr/sbin/sysctl", "hw", "machdep.cpu"], capture_output=True, text=True)
        return describe_darwin(done.stdout, limits.cores())
    return describe_linux(Path("/"))


def describe_linux(root: Path) -> Facts:
    """The facts that /proc and /sys under `root` hold."""
    return Facts(
        device="cpu",
        name=_model_name(root),
        arch=arch(),
        features=features(),
        threads=limits.cores(root),
        memory_bytes=limits.memory_bytes(root),
        cache_bytes=_caches(root),
    )


def describe_darwin(sysctl: str, cores: int) -> Facts:
    """The facts in what `sysctl hw machdep.cpu` prints. Caches are those of the fast cores."""
    values = {}
    for line in sysctl.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            values[key.strip()] = value.strip()

    def number(*names: str) -> int:
        found = [values[name] for name in names if values.get(name, "").isdigit()]
        return int(found[0]) if found else 0

    caches = (
        number("hw.perflevel0.l1dcachesize", "hw.l1dcachesize"),
        number("hw.perflevel0.l2cachesize", "hw.l2cachesize"),
        number("hw.perflevel0.l3cachesize", "hw.l3cachesize"),
    )
    return Facts(
        device="cpu",
        name=values.get("machdep.cpu.brand_string", "") or platform.processor() or arch(),
        arch=arch(),
        features=features(),
        threads=cores,
        memory_bytes=number("hw.memsize"),
        cache_bytes=tuple(size for size in caches if size),
    )


def _model_name(root: Path) -> str:
    for name in ("proc/cpuinfo", "proc/device-tree/model"):
        try:
            text = (root / name).read_text()
        except OSError:
            continue
        if name.endswith("model"):
            return text.strip("\0\n ")
        for line in text.splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model"):
                return value.strip()
    return platform.processor() or arch()


def _caches(root: Path) -> tuple[int, ...]:
    sizes: dict[int, int] = {}
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    for index in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level, size = ((index / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue
        if kind in ("Data", "Unified") and size:
            sizes[int(level)] = int(size[:-1]) * units[size[-1]] if size[-1] in units else int(size)
    return tuple(size for _, size in sorted(sizes.items()))


def _recall(path: Path) -> Facts | None:
    """The remembered facts."""
    try:
        return decode(Facts, json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (TypeError, ValueError, KeyError):  # of an older version, or cut off
        return None
