"""torch.mps and its kin as a Mac has them, for as long as a candidate's code runs on a machine without Metal."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kernelwright.errors import MissingError
from kernelwright.targets.kernels import compiled


@contextlib.contextmanager
def shimmed() -> Iterator[None]:
    """Inside, torch.mps, torch.backends.mps and torch.accelerator answer as on a Mac, and no CUDA is seen."""
    before = [(holder, name, getattr(holder, name, _ABSENT)) for holder, name, _ in _shims()]
    for holder, name, value in _shims():
        setattr(holder, name, value)
    try:
        yield
    finally:
        for holder, name, value in before:
            if value is _ABSENT:
                delattr(holder, name)
            else:
                setattr(holder, name, value)


def compile_shader(source: str) -> Any:
    """torch.mps.compile_shader, hosted: torch's own headers (c10/metal) can be included, as there."""
    return compiled(source, "metal", {}, sys._getframe(1).f_globals)


class Event:
    """torch.mps.Event. All work is over when it is recorded, as nothing here is put off."""

    def __init__(self, enable_timing: bool = False) -> None:
        self._at_s = 0.0

    def record(self) -> None:
        """Takes the time."""
        self._at_s = time.perf_counter()

    def wait(self) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """Whether it is over: always."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds on this machine, which say nothing of a Mac."""
        return (end_event._at_s - self._at_s) * 1000


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _answer(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


def _missing(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise MissingError(f"{name} needs a Mac; where Metal is hosted it has no counterpart")

    return refuse


def _set_state(new_state: torch.Tensor, device: Any = "mps") -> None:
    torch.set_rng_state(new_state)


def _shims() -> list[tuple[Any, str, Any]]:
    from torch.mps import event, profiler

    mps, backend, accelerator = torch.mps, torch.backends.mps, torch.accelerator
    found: list[tuple[Any, str, Any]] = [
        (mps, "compile_shader", compile_shader),
        (mps, "Event", Event),
        (event, "Event", Event),
        (mps, "set_rng_state", _set_state),
        (mps, "get_rng_state", lambda device="mps": torch.get_rng_state()),
        (mps, "manual_seed", lambda seed: torch.default_generator.manual_seed(int(seed))),
        (mps, "seed", lambda: torch.default_generator.seed()),
        (accelerator, "current_accelerator", lambda check_available=False: torch.device("mps")),
    ]
    found += [(mps, name, _nothing) for name in ("synchronize", "empty_cache", "set_per_process_memory_fraction")]
    found += [(mps, name, _answer(0)) for name in ("current_allocated_memory", "driver_allocated_memory")]
    found += [(mps, name, _missing(f"torch.mps.{name}")) for name in ("load_metallib", "recommended_max_memory")]
    found += [(mps, "device_count", _answer(1)), (mps, "is_available", _answer(True))]
    found += [
        (profiler, name, _missing(f"torch.mps.profiler.{name}"))
        for name in ("start", "stop", "profile", "metal_capture")
    ]
    yes = ("is_available", "is_built", "is_macos_or_newer", "is_macos13_or_newer")
    found += [(backend, name, _answer(True)) for name in yes]
    found += [(backend, name, _missing(f"torch.backends.mps.{name}")) for name in ("get_name", "get_core_count")]
    found += [(accelerator, "is_available", _answer(True)), (accelerator, "device_count", _answer(1))]
    found += [(accelerator, "synchronize", _nothing), (torch.cuda, "is_available", _answer(False))]
    return [item for item in found if hasattr(item[0], item[1])]


_ABSENT = object()
