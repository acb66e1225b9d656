"""Which plan serves a function on a device for arrays that cannot change: as choosing.py does for the CPU."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelwright import loops
from kernelwright.errors import UsageError
from kernelwright.functions.devices import Device
from kernelwright.functions.kernels import Kernels
from kernelwright.functions.options import Options
from kernelwright.functions.plans.choosing import Choice, agrees, recall, remember
from kernelwright.functions.plans.device_schemes import DeviceScheme, device_schemes
from kernelwright.functions.plans.rows import Scatter, find_scatter
from kernelwright.loops import ArrayType
from kernelwright.records import digest

_TURNS = 5
_CALLS = 4
"""In a turn, so that what the device takes shows beside what it takes to wait for it."""


@dataclass(frozen=True)
class DevicePlan:
    """A plan that can be called for arrays that cannot change."""

    name: str
    kernels: Kernels
    tables: tuple[Any, ...]
    """On the device."""
    scratch: tuple[np.ndarray, ...]
    guards: Mapping[tuple[int, int], int]

    def admits(self, values: Sequence[Any]) -> bool:
        """Whether arrays are large enough for every index."""
        return all(values[argument].shape[axis] > limit for (argument, axis), limit in self.guards.items())

    def run(self, arrays: Sequence[Any], scalars: Sequence[Any]) -> tuple[Any, ...]:
        """One call."""
        # Memory of the call's own: another thread may be in the same plan.
        own = [self.kernels.device.zeros(item.shape, item.dtype.name) for item in self.scratch]
        return self.kernels([*arrays, *self.tables, *own], scalars)


def choose(
    plain: Kernels,
    constants: Mapping[int, np.ndarray],
    arrays: Sequence[Any],
    scalars: Sequence[Any],
    options: Options,
    *,
    plain_too: bool,
) -> tuple[DevicePlan | None, Choice] | None:
    """The plan for these constants and what was measured, or None in its place where the plain program is the fastest.

    `plain_too`: whether the plain program may serve. None where plans cannot be compared on these arguments: an index
    is out of bounds. Raises UsageError where a plan was asked for that does not fit the function.
    """
    program, device = plain.program, plain.device
    scatter = find_scatter(program, constants)
    if scatter is None:
        return None, Choice("plain", {})
    offered = device_schemes(program, scatter)
    if options.plan not in (None, "plain", *(scheme.name for scheme in offered)):
        names = ", ".join(["plain", *(scheme.name for scheme in offered)])
        raise UsageError(f"{program.name}: there is no plan {options.plan!r} for these arrays; there are {names}")
    key = _key(plain, scatter, offered, options)
    wanted = options.plan or recall(key)
    if wanted == "plain" and plain_too:
        return None, Choice("plain", {})
    plans = [
        _compiled(device, scheme, scatter, options) for scheme in offered if wanted in (None, "plain", scheme.name)
    ]
    numbers = [i for i, argument in enumerate(program.arguments) if isinstance(argument.type, ArrayType)]
    shapes = {number: array for number, array in zip(numbers, arrays, strict=True)}
    if not all(shapes[i].shape[axis] > limit for (i, axis), limit in scatter.guards.items()):
        return None
    reference = _results(plain, plain, arrays, scalars)
    right = [
        plan
        for plan in plans
        if agrees(_results(plan.run, plain, arrays, scalars), reference, scatter, device.rounding)
    ]
    if not right:
        return None, Choice("plain", {})
    if len(right) == 1 and wanted == right[0].name:
        return right[0], Choice(right[0].name, {})
    runs = {plan.name: plan.run for plan in right} | ({"plain": plain} if plain_too else {})
    shortest = _shortest_us(runs, plain, arrays, scalars)
    name = min(shortest, key=lambda name: shortest[name])
    remember(key, name)
    return next((plan for plan in right if plan.name == name), None), Choice(name, shortest)


def _compiled(device: Device, scheme: DeviceScheme, scatter: Scatter, options: Options) -> DevicePlan:
    kernels = Kernels(device, scheme.program, options.boundscheck)
    tables = tuple(device.move(table) for table in scheme.tables)
    return DevicePlan(scheme.name, kernels, tables, scheme.scratch, dict(scatter.guards))


def _copied(plain: Kernels, arrays: Sequence[Any]) -> list[Any]:
    """The arrays, with copies of those that the program writes."""
    given = [argument for argument in plain.program.arguments if isinstance(argument.type, ArrayType)]
    copy = lambda array: array.clone() if hasattr(array, "clone") else array.copy()
    return [copy(array) if argument.written else array for argument, array in zip(given, arrays, strict=True)]


def _results(run: Any, plain: Kernels, arrays: Sequence[Any], scalars: Sequence[Any]) -> list[np.ndarray]:
    """What the program writes, of a call on copies."""
    given = [argument for argument in plain.program.arguments if isinstance(argument.type, ArrayType)]
    own = _copied(plain, arrays)
    run(own, scalars)
    buffers = plain.program.buffers
    return [
        plain.device.values(array, buffer.type)
        for argument, buffer, array in zip(given, buffers, own, strict=True)
        if argument.written
    ]


def _shortest_us(
    runs: Mapping[str, Any], plain: Kernels, arrays: Sequence[Any], scalars: Sequence[Any]
) -> dict[str, float]:
    """The shortest time of a call of each, taken by turns, until the device has ended."""
    own, device = _copied(plain, arrays), plain.device
    shortest = dict.fromkeys(runs, math.inf)
    for _ in range(_TURNS):
        for name, run in runs.items():
            device.wait()
            start = time.perf_counter()
            for _ in range(_CALLS):
                run(own, scalars)
            device.wait()
            shortest[name] = min(shortest[name], (time.perf_counter() - start) / _CALLS * 1e6)
    return shortest


def _key(plain: Kernels, scatter: Scatter, offered: Sequence[DeviceScheme], options: Options) -> str:
    """What a choice depends on: the programs' text, which holds the numbers of rows, and the device."""
    shapes = tuple((scheme.name, tuple(str((t.dtype, t.shape)) for t in scheme.tables)) for scheme in offered)
    text = loops.print_program_cpp(plain.program, boundscheck=options.boundscheck, parallel=False)
    return digest("device plan", plain.device.kind, text, scatter.count, shapes, options.deterministic)
