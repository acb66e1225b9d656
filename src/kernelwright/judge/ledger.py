"""What ran, by name, as the child tells it: torch's operators and our own kernels. It informs and decides nothing."""

import math
import sys
import time
from collections.abc import Callable
from typing import Any

ENTRIES = 12
_NAME_CHARACTERS = 100
_OWN = frozenset({"Activity Buffer Request", "PythonDispatchMode"})
"""What profiling costs, and hosting Metal, which is no work of the candidate's."""
_KERNEL = "SlowCall"
"""The class every kernel of a library is bound to; see targets/entry/library.py."""


def record(run: Callable[[], None]) -> list[tuple[str, float]]:
    """Runs in the child: (name, microseconds) of what `run` spends its time in, longest first. An operator's time is
    without that of those it calls. Where a GPU works, its kernels alone are told."""
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    kernels: dict[str, float] = {}
    began = 0

    def watch(_: Any, event: str, what: Any) -> None:
        # Kernels are called past torch's dispatcher, so no profiler of torch's sees them.
        nonlocal began
        if event.startswith("c_") and type(getattr(what, "__self__", None)).__name__ == _KERNEL:
            if event == "c_call":
                began = time.perf_counter_ns()
            else:
                kernels[what.__name__] = kernels.get(what.__name__, 0.0) + (time.perf_counter_ns() - began) / 1000

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_initialized() else [])]
    with profile(activities=activities) as seen, torch.no_grad():
        sys.setprofile(watch)
        try:
            run()
        finally:
            sys.setprofile(None)
    ran = [event for event in seen.key_averages() if event.key not in _OWN]
    found = [(event.key, event.self_device_time_total) for event in ran if event.device_type is DeviceType.CUDA]
    found = found or [*kernels.items(), *((event.key, event.self_cpu_time_total) for event in ran)]
    return sorted(found, key=lambda item: -item[1])[:100]


def shares(told: Any) -> tuple[tuple[str, float], ...]:
    """The child's declaration as (name, share of the time), longest first; empty where it is malformed."""
    try:
        found = [(str(name)[:_NAME_CHARACTERS], float(us)) for name, us in told]
    except (TypeError, ValueError):
        return ()
    found = sorted((item for item in found if math.isfinite(item[1]) and item[1] > 0), key=lambda item: -item[1])
    total = sum(us for _, us in found)
    return tuple((name, us / total) for name, us in found[:ENTRIES])
