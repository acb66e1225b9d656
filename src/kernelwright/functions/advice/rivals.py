"""Everybody who can compute a function on this machine, as something to call and compare; and who cannot, and why."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelwright.errors import KernelwrightError
from kernelwright.functions.advice.subject import Subject
from kernelwright.functions.advice.whole_arrays import WholeArrays
from kernelwright.functions.constants import constant
from kernelwright.functions.decorators import njit
from kernelwright.functions.options import MISSING_TARGETS


@dataclass(frozen=True)
class Rival:
    """One implementation at one size. `call` is None where it cannot run, for `reason`."""

    name: str
    call: Callable[[], Any] | None
    result: Callable[[], np.ndarray] | None = None
    """What it computed, after a call."""
    reason: str = ""


def rivals(
    subject: Subject, form: WholeArrays | None, arguments: Sequence[Any], target: int, constants: Sequence[int]
) -> Iterator[Rival]:
    """The others first, then ours. `target` is the argument that is compared, `constants` those that never change."""
    for make in (_numpy, _numba, _jax, _torch):
        yield from make(subject, form, arguments, target)
    yield from _ours(subject, arguments, target, constants)


def _copies(arguments: Sequence[Any]) -> list[Any]:
    return [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]


def _in_place(name: str, function: Callable[..., Any], arguments: Sequence[Any], target: int) -> Rival:
    """A function that writes its result into an argument."""
    own = _copies(arguments)
    return Rival(name, lambda: function(*own), lambda: own[target])


def _missing(name: str, reason: str) -> Rival:
    return Rival(name, None, reason=reason)


_NO_FORM = "it is generated for functions that fill one array and add to it in one loop; define {} in the file"


def _numpy(subject: Subject, form: WholeArrays | None, arguments: Sequence[Any], target: int) -> Iterator[Rival]:
    if "numpy" in subject.given:
        yield _in_place("NumPy, yours", subject.given["numpy"], arguments, target)
    if form is None:
        if "numpy" not in subject.given:
            yield _missing("NumPy", _NO_FORM.format(f"numpy_{subject.name}"))
        return
    own = _copies(arguments)
    res = own[target]

    def add_at() -> None:
        place, value = form.rows(own, np.arange)
        res[...] = form.fill
        np.add.at(res, place, value)

    def bincount() -> None:
        place, value = form.rows(own, np.arange)
        res[...] = np.bincount(place, np.broadcast_to(value, np.shape(place)), minlength=len(res))[: len(res)]
        if form.fill:
            res[...] += form.fill

    yield Rival("NumPy add.at", add_at, lambda: res)
    yield Rival("NumPy bincount", bincount, lambda: res)


def _numba(subject: Subject, form: WholeArrays | None, arguments: Sequence[Any], target: int) -> Iterator[Rival]:
    try:
        import numba  # pyright: ignore[reportMissingImports]
    except ImportError:
        yield _missing("Numba", "Numba is not installed: pip install 'kernelwright[numba]'")
        return
    yield _in_place("Numba", numba.njit(subject.function), arguments, target)
    if form is not None:
        reason = "threads would add to one place at once: Numba has no plan for a scatter loop"
        yield _missing("Numba parallel", reason)
    else:
        yield _in_place("Numba parallel", numba.njit(parallel=True)(subject.function), arguments, target)


def _jax(subject: Subject, form: WholeArrays | None, arguments: Sequence[Any], target: int) -> Iterator[Rival]:
    try:
        import jax  # pyright: ignore[reportMissingImports]
    except ImportError:
        yield _missing("JAX", "JAX is not installed: pip install 'kernelwright[jax]'")
        return
    jax.config.update("jax_enable_x64", True)
    numpy = jax.numpy
    if "jax" in subject.given:
        function = jax.jit(subject.given["jax"])
    elif form is not None:

        def added(*own: Any) -> Any:
            place, value = form.rows(own, numpy.arange)
            return numpy.full_like(own[target], form.fill).at[place].add(value)

        function = jax.jit(added)
    else:
        yield _missing("JAX", _NO_FORM.format(f"jax_{subject.name}"))
        return
    own = [numpy.asarray(value) if isinstance(value, np.ndarray) else value for value in arguments]
    made: list[Any] = [None]

    def call() -> None:
        made[0] = function(*own).block_until_ready()

    yield Rival(f"JAX {jax.default_backend()}", call, lambda: np.asarray(made[0]))


def _torch(subject: Subject, form: WholeArrays | None, arguments: Sequence[Any], target: int) -> Iterator[Rival]:
    import torch

    devices = {"cpu": None, "cuda": _no_device("cuda"), "mps": _no_device("metal")}
    for device, reason in devices.items():
        name = f"torch {device}"
        if reason is None and form is None and "torch" not in subject.given:
            reason = _NO_FORM.format(f"torch_{subject.name}")
        if reason is None and device == "mps" and any(getattr(v, "dtype", None) == np.float64 for v in arguments):
            reason = "Metal has no float64"
        if reason is not None:
            yield _missing(name, reason)
            continue
        own = [torch.tensor(v, device=device) if isinstance(v, np.ndarray) else v for v in arguments]
        yield Rival(name, _torch_call(subject, form, own, target, device), lambda own=own: own[target].cpu().numpy())


def _torch_call(
    subject: Subject, form: WholeArrays | None, own: list[Any], target: int, device: str
) -> Callable[[], None]:
    import torch

    wait = {"cuda": torch.cuda.synchronize, "mps": torch.mps.synchronize}.get(device, lambda: None)

    def call() -> None:
        with torch.inference_mode():
            if "torch" in subject.given:
                subject.given["torch"](*own)
            else:
                assert form is not None
                place, value = form.rows(own, lambda count: torch.arange(count, device=device))
                value = torch.as_tensor(value, device=device).expand(place.shape)
                own[target].fill_(form.fill).scatter_add_(0, place.long(), value.to(own[target].dtype))
        wait()

    return call


def _ours(subject: Subject, arguments: Sequence[Any], target: int, constants: Sequence[int]) -> Iterator[Rival]:
    function = subject.function
    yield _in_place("ours", njit(function), arguments, target)
    yield _in_place("ours, unchecked", njit(boundscheck=False)(function), arguments, target)
    yield _in_place("ours, threads", njit(parallel=True)(function), arguments, target)
    if constants:
        fixed = [constant(value) if index in constants else value for index, value in enumerate(arguments)]
        for plan in ("segmented", "factored", "folded"):
            own = [v.copy() if isinstance(v, np.ndarray) and i not in constants else v for i, v in enumerate(fixed)]
            compiled = njit(plan=plan)(function)
            try:
                compiled(*own)
            except KernelwrightError as error:
                yield _missing(f"ours, {plan}", str(error).partition(": ")[2] or str(error))
                continue
            yield Rival(f"ours, {plan}", lambda run=compiled, own=own: run(*own), lambda own=own: own[target])
    yield from _ours_on_devices(subject, arguments, target)
    for device, reason in MISSING_TARGETS.items():
        yield _missing(f"ours, {device}", reason)


def _ours_on_devices(subject: Subject, arguments: Sequence[Any], target: int) -> Iterator[Rival]:
    """With the arrays on the device already, as torch's are."""
    import torch

    for device, kind in (("cuda", "cuda"), ("metal", "mps")):
        name, reason = f"ours, {device}", _no_device(device)
        if reason is None and device == "metal" and any(getattr(v, "dtype", None) == np.float64 for v in arguments):
            reason = "Metal has no float64"
        if reason is not None:
            yield _missing(name, reason)
            continue
        own = [torch.tensor(v, device=kind) if isinstance(v, np.ndarray) else v for v in arguments]
        run = njit(target=device)(subject.function)
        yield Rival(name, lambda run=run, own=own: run(*own), lambda own=own: own[target].cpu().numpy())


def _no_device(device: str) -> str | None:
    import torch

    if device == "metal":
        return None if torch.backends.mps.is_available() else "there is no Metal device"
    return None if torch.cuda.is_available() else "there is no CUDA device"
