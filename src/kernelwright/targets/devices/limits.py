"""How much of the machine this process may use: cores and memory, as affinity and control groups leave it."""

import math
import os
from pathlib import Path


def cores(root: Path = Path("/")) -> int:
    """Cores this process may run on at once."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(root)
    return max(1, min(allowed, math.ceil(quota))) if quota else max(1, allowed)


def memory_bytes(root: Path = Path("/")) -> int:
    """Memory this process may use; 0 if it cannot be told. Linux."""
    known = [size for size in (_installed(root), _memory_limit(root)) if size]
    return min(known, default=0)


def _quota(root: Path) -> float:
    """Cores granted by the control group, 0 for no limit. Version 2 first, then 1."""
    words = _text(root / "sys/fs/cgroup/cpu.max").split()
    if len(words) == 2 and words[0] != "max":
        return int(words[0]) / int(words[1])
    quota = _text(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us").strip()
    period = _text(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us").strip()
    if quota and period and int(quota) > 0:
        return int(quota) / int(period)
    return 0.0


def _installed(root: Path) -> int:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def _memory_limit(root: Path) -> int:
    for name in ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = _text(root / name).strip()
        if text.isdigit():
            return int(text)
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
