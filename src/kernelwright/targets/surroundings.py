"""What a whole process shares, and a candidate could change for everybody in it: settings of torch, of Python and of
the processor, random states, the functions behind well-known names.

    before = Surroundings.now()
    module = load_candidate(...)
    before.changes()    # what is otherwise now
    before.restore()    # puts back what can be put back

Read with functions looked up before any candidate was: one that replaces a getter is found to have replaced it.
"""

import gc
import logging
import math
import os
import pickle
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any, Self

from kernelwright.targets.names import Names


@dataclass(frozen=True)
class Change:
    """One thing that is otherwise than before."""

    what: str
    """A sentence: "torch.get_num_threads() was 1 and is 64"."""
    matters: bool
    """False where only the reader of a log, or a program started later, would notice."""


@dataclass(frozen=True)
class _Setting:
    name: str
    read: Callable[[], Any]
    write: Callable[[Any], Any] | None = None
    """None: what was changed cannot be put back from here."""
    matters: bool = True
    shown: bool = True
    """Whether its values mean something to a reader."""


@dataclass(frozen=True)
class Surroundings:
    """All of it at one moment. See the top of this file."""

    values: tuple[tuple[_Setting, Any], ...]
    names: Names

    @classmethod
    def now(cls, known: Names | None = None) -> Self:
        """As things stand. `known`: names as they were looked up earlier, which saves time."""
        names = Names.now(known)
        return cls(tuple((setting, _read(setting)) for setting in _settings()), names)

    def changes(self, *, names: bool = True) -> tuple[Change, ...]:
        """What is otherwise now; nothing is put back. Without `names` only settings are looked at, which takes a
        twentieth of the time."""
        found = [
            Change(_sentence(setting, before, now), setting.matters)
            for setting, before in self.values
            if (now := _read(setting)) != before
        ]
        replaced = self.names.changes() if names else ()
        return (*found, *(Change(sentence, True) for sentence in replaced))

    def restore(self) -> None:
        """Puts back what can be put back."""
        self.names.restore()
        for setting, before in self.values:
            if setting.write and _read(setting) != before:
                setting.write(before)


@contextmanager
def kept() -> Iterator[None]:
    """What is changed inside is put back at the end."""
    before = Surroundings.now()
    try:
        yield
    finally:
        before.restore()


def _read(setting: _Setting) -> Any:
    try:
        return setting.read()
    except RuntimeError as error:  # torch refuses to say, once old and new ways of setting a precision were mixed
        return f"{type(error).__name__}: {error}".partition("\n")[0]


def _sentence(setting: _Setting, before: Any, now: Any) -> str:
    if not setting.shown:
        return f"{setting.name} changed"
    if isinstance(before, dict) and isinstance(now, dict):
        names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        return f"{setting.name} changed: {_short(', '.join(names))}"
    return f"{setting.name} was {_short(before)} and is {_short(now)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@cache
def _settings() -> tuple[_Setting, ...]:
    import numpy
    import torch

    core = torch._C
    found = [
        _Setting("torch.get_num_threads()", torch.get_num_threads, torch.set_num_threads),
        _Setting("torch.get_num_interop_threads()", torch.get_num_interop_threads),
        _Setting("torch.get_default_dtype()", torch.get_default_dtype, torch.set_default_dtype),
        _Setting(
            "the default device",
            lambda: str(torch.get_default_device()),
            # None: none was set, which is not the same as a mode that says "cpu".
            lambda was: torch.set_default_device(None if was == "cpu" else was),
        ),
        _Setting("torch.is_grad_enabled()", torch.is_grad_enabled, torch._C._set_grad_enabled),
        _Setting("torch.is_inference_mode_enabled()", torch.is_inference_mode_enabled),
        _Setting("autocast", _autocast, _set_autocast),
        _Setting(
            "gradients by several threads",
            core._is_multithreading_enabled,
            torch.autograd.set_multithreading_enabled,
        ),
        _Setting("anomaly detection", torch.is_anomaly_enabled, torch.set_anomaly_enabled),
        _Setting(
            "deterministic algorithms",
            lambda: (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
            ),
            lambda was: torch.use_deterministic_algorithms(was[0], warn_only=was[1]),
        ),
        _Setting(
            "torch.utils.deterministic.fill_uninitialized_memory",
            core._get_deterministic_fill_uninitialized_memory,
            core._set_deterministic_fill_uninitialized_memory,
        ),
        _Setting(
            "torch.get_float32_matmul_precision()",
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
        ),
        _Setting(
            "torch.backends.mha fast path",
            torch.backends.mha.get_fastpath_enabled,
            torch.backends.mha.set_fastpath_enabled,
        ),
        _Setting(
            "torch.backends.opt_einsum",
            lambda: (_opt_einsum().enabled, _opt_einsum().strategy),
            lambda was: (setattr(_opt_einsum(), "enabled", was[0]), setattr(_opt_einsum(), "strategy", was[1])),
        ),
        _Setting("the current CUDA stream", _stream),
        _Setting("modes that catch every torch function", _function_modes, _pop_function_modes),
        _Setting("modes that catch every operator", _dispatch_modes, _pop_dispatch_modes),
        _Setting("hooks on all modules", _global_hooks, _set_global_hooks),
        _Setting("torch's own operators were given other kernels", _overridden, shown=False),
        _Setting(
            "torch's random state", lambda: torch.get_rng_state().numpy().tobytes(), _set_torch_state, shown=False
        ),
        _Setting("Python's random state", random.getstate, random.setstate, shown=False),
        _Setting("NumPy's random state", _numpy_state, _set_numpy_state, shown=False),
        _Setting("numpy.geterr()", numpy.geterr, lambda was: numpy.seterr(**was)),
        _Setting("what Ctrl-C does", lambda: signal.getsignal(signal.SIGINT), _set_interrupt),
        _Setting("what is logged at all", lambda: logging.root.manager.disable, logging.disable, matters=False),
        _Setting(
            "small numbers (subnormal ones are kept: 1)", _subnormal, lambda was: torch.set_flush_denormal(not was)
        ),
        _Setting("the processor's rounding mode", _rounding, shown=False),
        _Setting("sys.getswitchinterval()", sys.getswitchinterval, sys.setswitchinterval),
        _Setting("sys.getrecursionlimit()", sys.getrecursionlimit, sys.setrecursionlimit, matters=False),
        _Setting("sys.gettrace()", sys.gettrace, sys.settrace),
        _Setting("sys.getprofile()", sys.getprofile, sys.setprofile),
        _Setting("gc.isenabled()", gc.isenabled, lambda was: gc.enable() if was else gc.disable()),
        _Setting("gc.get_threshold()", gc.get_threshold, lambda was: gc.set_threshold(*was)),
        _Setting("the working directory", os.getcwd, os.chdir),
        _Setting("the process's priority", lambda: os.getpriority(os.PRIO_PROCESS, 0)),
        _Setting("what is written to sys.stdout", lambda: id(sys.stdout), matters=False, shown=False),
        _Setting("sys.path", lambda: list(sys.path), lambda was: sys.path.__setitem__(slice(None), was), matters=False),
        _Setting(
            "the warning filters",
            lambda: list(warnings.filters),
            lambda was: warnings.filters.__setitem__(slice(None), was),  # type: ignore[attr-defined]
            matters=False,
            shown=False,
        ),
        _Setting("variables that steer libraries", lambda: _environment(True), partial(_set_environment, True)),
        _Setting(
            "other variables of the environment",
            lambda: _environment(False),
            partial(_set_environment, False),
            matters=False,
        ),
    ]
    if hasattr(os, "sched_getaffinity"):
        found.append(
            _Setting(
                "the processors it may use",
                lambda: os.sched_getaffinity(0),
                lambda was: os.sched_setaffinity(0, was),
            )
        )
    if hasattr(core, "_get_fp32_precision_getter"):
        for backend, operator in (("cuda", "matmul"), ("cuda", "conv"), ("cuda", "rnn"), *_MKLDNN):
            found.append(_precision(backend, operator))
    for kind in ("flash", "math", "mem_efficient", "cudnn"):
        found.append(
            _Setting(
                f"torch.backends.cuda.{kind}_sdp_enabled()",
                getattr(core, f"_get_{kind}_sdp_enabled"),
                getattr(core, f"_set_sdp_use_{kind}"),
            )
        )
    for name in _FLAGS:
        found.append(
            _Setting(f"torch's flag {name}", getattr(core, f"_get_{name}"), getattr(core, f"_set_{name}", None))
        )
    return tuple(found)


_AUTOCAST = ("cpu", "cuda")
_MKLDNN = (("mkldnn", "matmul"), ("mkldnn", "conv"), ("mkldnn", "rnn"))
_FLAGS = (
    "mkldnn_enabled",
    "mkldnn_deterministic",
    "nnpack_enabled",
    "cudnn_enabled",
    "cudnn_benchmark",
    "cudnn_deterministic",
    "cublas_allow_fp16_reduced_precision_reduction",
    "cublas_allow_bf16_reduced_precision_reduction",
    "qengine",
)
_STEERING = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "ONEDNN_", "DNNL_", "ATEN_", "MALLOC_", "LD_")


def _precision(backend: str, operator: str) -> _Setting:
    import torch

    get, put = torch._C._get_fp32_precision_getter, torch._C._set_fp32_precision_setter
    return _Setting(
        f"torch.backends' fp32_precision of {backend} {operator}",
        lambda: get(backend, operator),
        lambda was: put(backend, operator, was),
    )


def _opt_einsum() -> Any:
    import torch

    return torch.backends.opt_einsum


def _autocast() -> tuple[Any, ...]:
    import torch

    kinds = [(torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _AUTOCAST]
    return (*kinds, torch.is_autocast_cache_enabled())


def _set_autocast(was: tuple[Any, ...]) -> None:
    import torch

    for kind, (enabled, dtype) in zip(_AUTOCAST, was, strict=False):
        torch.set_autocast_enabled(kind, enabled)
        torch.set_autocast_dtype(kind, dtype)
    torch.set_autocast_cache_enabled(was[-1])


def _set_torch_state(was: bytes) -> None:
    import torch

    torch.set_rng_state(torch.frombuffer(bytearray(was), dtype=torch.uint8))


def _numpy_state() -> bytes:
    import numpy

    return pickle.dumps(numpy.random.get_state(legacy=True))


def _set_numpy_state(was: bytes) -> None:
    import numpy

    numpy.random.set_state(pickle.loads(was))


def _set_interrupt(was: Any) -> None:
    with suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGINT, was)


def _function_modes() -> int:
    import torch

    return torch._C._len_torch_function_stack()


def _pop_function_modes(was: int) -> None:
    import torch

    while torch._C._len_torch_function_stack() > was:
        torch._C._pop_torch_function_stack()


def _dispatch_modes() -> int:
    import torch

    return torch._C._len_torch_dispatch_stack()


def _pop_dispatch_modes(was: int) -> None:
    import torch

    while torch._C._len_torch_dispatch_stack() > was:
        torch._C._pop_torch_dispatch_stack(None)


def _stream() -> tuple[int, ...]:
    """What the calling thread launches on; empty while CUDA is not in use."""
    import torch

    return torch._C._cuda_getCurrentStream(torch.cuda.current_device()) if torch.cuda.is_initialized() else ()


def _hook_tables() -> list[Any]:
    from torch.nn.modules import module

    return [table for name, table in vars(module).items() if name.startswith("_global_") and hasattr(table, "keys")]


def _global_hooks() -> int:
    return sum(map(len, _hook_tables()))


def _set_global_hooks(was: int) -> None:
    if not was:
        for table in _hook_tables():
            table.clear()


def _overridden() -> frozenset[str]:
    """Operators of torch's own, with the dispatch key, that Python code gave a kernel which computes on tensors; torch
    itself adds others, for shapes and for vmap, as it is used."""
    import torch

    known = torch.library._impls
    return _overridden_among(len(known), id(known))


@lru_cache(maxsize=2)
def _overridden_among(count: int, known: int) -> frozenset[str]:
    """Thousands of names, looked through only when there are more or fewer."""
    import torch

    return frozenset(
        name for name in torch.library._impls if name.startswith("aten/") and name.rpartition("/")[2] not in _OF_TORCH
    )


def _subnormal() -> int:
    """1 where the processor keeps numbers below the smallest normal one. Python's floats are its doubles."""
    return int(_TINY * _ONE != 0.0)


def _rounding() -> tuple[float, ...]:
    """What the last bits of some quotients are: each of the four rounding modes gives others."""
    return (_ONE / _THREE, -_ONE / _THREE, _TWO / _THREE, -_TWO / _THREE)


# Lists, so that no compiler folds the arithmetic.
_TINY, _ONE, _TWO, _THREE = [math.ldexp(1.0, -1060), 1.0, 2.0, 3.0]


def _environment(steering: bool) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_STEERING) == steering}


def _set_environment(steering: bool, was: dict[str, str]) -> None:
    for name in _environment(steering):
        if name not in was:
            del os.environ[name]
    os.environ.update(was)


# The dispatch keys for which torch itself registers kernels in Python, as its modules are imported.
_OF_TORCH = frozenset({"Meta", "FuncTorchBatched", "FuncTorchBatchedDecomposition", "FuncTorchVmapMode"})
