"""The instruction sets this processor has, by their own names, never "native"."""

import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

# /proc/cpuinfo or sysctl on the left, clang's name on the right. What is not listed is not used: AMX needs a
# permission from the kernel, SVE code would need vectors of a length that only the machine knows.
_X86 = {
    "pni": "sse3",
    "sse3": "sse3",
    "ssse3": "ssse3",
    "sse4_1": "sse4.1",
    "sse4.1": "sse4.1",
    "sse4_2": "sse4.2",
    "sse4.2": "sse4.2",
    "popcnt": "popcnt",
    "abm": "lzcnt",
    "lzcnt": "lzcnt",
    "movbe": "movbe",
    "avx": "avx",
    "avx1.0": "avx",
    "f16c": "f16c",
    "fma": "fma",
    "bmi1": "bmi",
    "bmi2": "bmi2",
    "avx2": "avx2",
    "avx512f": "avx512f",
    "avx512cd": "avx512cd",
    "avx512bw": "avx512bw",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_vnni": "avx512vnni",
    "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "avx_vnni": "avxvnni",
}
_ARM64 = {
    "atomics": "lse",
    "feat_lse": "lse",
    "asimdrdm": "rdm",
    "feat_rdm": "rdm",
    "asimdhp": "fp16",
    "feat_fp16": "fp16",
    "asimddp": "dotprod",
    "feat_dotprod": "dotprod",
    "asimdfhm": "fp16fml",
    "feat_fhm": "fp16fml",
    "i8mm": "i8mm",
    "feat_i8mm": "i8mm",
    "bf16": "bf16",
    "feat_bf16": "bf16",
}


def arch() -> str:
    """ "x86_64" or "arm64", else what the system calls it."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "aarch64": "arm64"}.get(machine, machine)


@cache
def features() -> tuple[str, ...]:
    """This processor's instruction sets as clang names them, sorted. Must be asked before a sandbox closes."""
    return resolve(arch(), _words())


def resolve(arch: str, words: frozenset[str]) -> tuple[str, ...]:
    """Clang's names for the features that the system calls `words`."""
    table = {"x86_64": _X86, "arm64": _ARM64}.get(arch, {})
    return tuple(sorted({table[word] for word in words if word in table}))


def flags(arch: str, features: tuple[str, ...]) -> tuple[str, ...]:
    """Compiler flags that allow exactly `features`."""
    if arch == "x86_64":
        return tuple(f"-m{feature}" for feature in features)
    if arch == "arm64":
        return ("-march=" + "+".join(("armv8-a", *features)),)
    return ()


def cpuinfo_words(text: str) -> frozenset[str]:
    """The feature words of a /proc/cpuinfo, x86 or Arm."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def sysctl_words(text: str) -> frozenset[str]:
    """The feature words in what `sysctl machdep.cpu hw.optional` prints on macOS."""
    words: set[str] = set()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.endswith(("cpu.features", "leaf7_features", "extfeatures")):
            words |= set(value.lower().split())
        elif key.startswith("hw.optional.arm.FEAT_") and value.strip() == "1":
            words.add(key.removeprefix("hw.optional.arm.").lower())
    return frozenset(words)


def _words() -> frozenset[str]:
    if sys.platform == "darwin":
        done = subprocess.run(["/usr/sbin/sysctl", "machdep.cpu", "hw.optional"], capture_output=True, text=True)
        return sysctl_words(done.stdout)
    try:
        return cpuinfo_words(Path("/proc/cpuinfo").read_text())
    except OSError:
        return frozenset()
