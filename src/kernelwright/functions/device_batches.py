"""A function over a batch on a device: a thread for each item.

Where the device's groups share memory that a launch chooses the size of, and an item's arrays are small, they lie there
while the thread works: in the device's memory neighbours would read elements that are an item apart.

Where all items add up by the same rows, which cannot change, those are sorted once: a sum then stays in a register.
"""

import math
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelwright import loops
from kernelwright.functions.constants import Constant as ConstantArray
from kernelwright.functions.constants import is_constant
from kernelwright.functions.devices import Device, bring_back, packed_strides
from kernelwright.functions.failures import failing
from kernelwright.functions.locks import compiling
from kernelwright.functions.plans.choosing import agrees
from kernelwright.functions.plans.device_schemes import segmented
from kernelwright.functions.plans.rows import find_scatter
from kernelwright.functions.signatures import Types
from kernelwright.loops import (
    STAGE,
    Argument,
    ArrayType,
    Buffer,
    Constant,
    DeviceProgram,
    Load,
    Program,
    ScalarType,
    Variable,
)
from kernelwright.loops.program import Assign

_ALONE = 64
"""Threads in a group of which each does an item in the device's memory."""
_GROUP = 128
"""Most threads that work on one item."""
_FEWEST_TURNS = 32
"""Of an item's longest loop, from which a group does an item; below, a thread does."""
_GROUPED_BYTES = 48 << 10
_STAGED_BYTES = 96 << 10
"""Of a group's memory, at most: two groups for a processor of 200 KB or more."""
_TURNS = 3
_MOST_SIZES = 256
"""Whose words are kept on the device."""


@dataclass(frozen=True)
class _Part:
    """An array of the batch, on the device."""

    array: Any
    inner: tuple[int, ...]
    """Its sizes within an item."""
    once: bool
    """Whether all items share it."""

    @property
    def each(self) -> int:
        """Elements from one item to the next."""
        return 0 if self.once else math.prod(self.inner)


class _BatchKernels:
    """One program over batches; `tables` are further arguments, which all items share."""

    def __init__(self, device: Device, program: Program, boundscheck: bool, tables: Sequence[np.ndarray] = ()) -> None:
        self.device, self.program = device, program
        self._whole, self._boundscheck = _of_arrays(program), boundscheck
        self._tables = [_Part(device.move(table), table.shape, True) for table in tables]
        self._compiled: dict[frozenset[str], tuple[DeviceProgram, Any]] = {}
        self._turns: dict[tuple[tuple[int, ...], ...], int] = {}
        self._words: dict[tuple[int, ...], Any] = {}
        # Where programs that cannot fail would say so, and those that return nothing would put it.
        self._unused = device.zeros(10, "int32"), device.zeros(1, "int64")
        self._fail = failing(program)
        self.kernels(frozenset())  # what is not supported is said before anything is moved

    def kernels(self, common: frozenset[str]) -> tuple[DeviceProgram, Any]:
        """Where all items share these arguments."""
        with compiling():
            if common not in self._compiled:
                made = self.device.compiled(self._whole, self._boundscheck, batched=True, common=common)
                self._compiled[common] = made
            return self._compiled[common]

    def __call__(self, parts: Sequence[_Part], count: int) -> Any:
        """Runs it on so many items; the numbers it returns, as words of 8 bytes on the device."""
        parts = [*parts, *self._tables]
        named = list(zip(self._whole.arguments, parts, strict=True))
        printed, library = self.kernels(frozenset(argument.name for argument, part in named if part.once))
        sizes = [word for part in parts for word in (*part.inner, *packed_strides(part.inner), part.each)]
        key, result = (*sizes, count), self.program.result
        if key not in self._words:
            if len(self._words) >= _MOST_SIZES:
                self._words.clear()
            self._words[key] = self.device.move(np.array(key, np.int64))
        error = self.device.zeros(10, "int32") if printed.fails else self._unused[0]
        answers = self.device.zeros(len(result) * count, "int64") if result else self._unused[1]
        name, options = self._launch(printed, parts, count, _overlap(named) if printed.twins else True)
        getattr(library, name)(*(part.array for part in parts), self._words[key], error, answers, **options)
        if printed.fails:
            told = np.ascontiguousarray(Device.host(error))
            if told[5]:
                self._fail(told.ctypes.data)
        return answers

    def _launch(
        self, printed: DeviceProgram, parts: Sequence[_Part], count: int, overlap: bool
    ) -> tuple[str, dict[str, Any]]:
        """The kernel for these arrays, and how it is launched."""
        (launch,) = printed.launches
        room = lambda items: sum(-(-part.each * items * part.array.dtype.itemsize // 16) * 16 for part in parts)
        if not overlap and launch.nests and room(1) <= _GROUPED_BYTES:
            key = tuple(part.inner for part in parts)
            if key not in self._turns:
                self._turns[key] = self._most_turns(launch, parts)
            if self._turns[key] >= _FEWEST_TURNS:
                group = min(_GROUP, 1 << (self._turns[key] - 1).bit_length())
                threads = {"threads": (count * group,), "group_size": (group,)}
                return launch.grouped, {**threads, "shared_bytes": room(1)}
        if not overlap and 0 < room(STAGE + 1) <= _STAGED_BYTES:
            options = {"threads": (count,), "group_size": (STAGE,)}
            return launch.staged, {**options, "shared_bytes": room(STAGE + 1)}
        return launch.kernel, {"threads": (count,), "group_size": (min(_ALONE, count),)}

    def _most_turns(self, launch: loops.Launch, parts: Sequence[_Part]) -> int:
        """Of the loops that a group works off for an item."""
        shown = [
            np.broadcast_to(np.zeros((), argument.type.dtype.value), part.inner)
            for argument, part in zip(self._whole.arguments, parts, strict=True)
            if isinstance(argument.type, ArrayType)
        ]
        return max(loops.turns(self._whole, replace(launch, loops=nest), *shown) for nest in launch.nests)


def _overlap(named: Sequence[tuple[Argument, _Part]]) -> bool:
    """Whether what is written may reach into what is read."""
    places = [(argument.written, part.array.untyped_storage().data_ptr()) for argument, part in named]
    return bool({place for written, place in places if written} & {place for written, place in places if not written})


class DeviceBatch:
    """One program for one tuple of types."""

    def __init__(
        self, function: Callable[..., Any], types: Types, results: Sequence[Any], device: Device, boundscheck: bool
    ) -> None:
        real = ScalarType.FLOAT32 if device.name == "metal" and not device.pairs else ScalarType.FLOAT64
        self.program = loops.parse(function, types, real=real)
        self.types, self.results = types, list(results) or [np.dtype(kind.value) for kind in self.program.result]
        self._kinds = [kind.dtype if isinstance(kind, ArrayType) else kind for kind in types]
        self.device = device
        self._plain = _BatchKernels(self.device, self.program, boundscheck)
        self._plans: dict[tuple[tuple[int, int], ...], tuple[_BatchKernels, Mapping[tuple[int, int], int]] | None] = {}

    def run(self, inputs: Sequence[Any], results: Sequence[Any], shape: tuple[int, ...]) -> None:
        """`inputs` may broadcast over `shape`, `results` have it in front; NumPy arrays, or tensors of the device."""
        count = math.prod(shape)
        if count == 0:
            return
        parts = []
        for index, kind in enumerate(self.types):
            core, dtype = (kind.ndim, kind.dtype) if isinstance(kind, ArrayType) else (0, kind)
            given = inputs[index] if index < len(inputs) else results[index - len(inputs)]
            inner = tuple(given.shape[given.ndim - core :]) if core else ()
            once = index < len(inputs) and given.ndim == len(inner)
            argument = self.program.arguments[index]
            place = f"{self.program.name}, argument {index + 1}, {argument.name!r}" if argument.read else None
            array = self.device.move(given if once else _whole(given, (*shape, *inner)), dtype.value, place)
            parts.append(_Part(array, inner or (1,), once))
        constants = {i: value for i, value in enumerate(inputs) if is_constant(value)}
        plan = self._plan(constants, parts, count) if constants and not self.program.result else None
        outputs = list(zip(parts[len(inputs) :], self._kinds[len(inputs) :], strict=True))
        before = [self.device.kept(part.array, kind) for part, kind in outputs]
        answers = (plan or self._plain)(parts, count)
        if not self.program.result:
            for target, (part, _), old in zip(results, outputs, before, strict=True):
                bring_back(part.array.reshape(target.shape), target, old if old is None else old.reshape(target.shape))
            return
        cells = Device.host(answers).reshape(count, -1)
        for place, (target, kind) in enumerate(zip(results, self.program.result, strict=True)):
            one = self.device.numbers(cells[:, place].copy(), kind).reshape(shape)
            bring_back(self.device.move(one) if self.device.holds(target) else one, target)

    def _plan(self, constants: Mapping[int, ConstantArray], parts: Sequence[_Part], count: int) -> _BatchKernels | None:
        """Kernels that do without these arrays, if they serve: made and measured where that was not done yet."""
        key = tuple((i, id(array)) for i, array in sorted(constants.items()))
        with compiling():
            if key not in self._plans:
                self._plans[key] = self._made(constants, parts, count)
                for array in constants.values():
                    weakref.finalize(array, self._plans.pop, key, None).atexit = False
        kernels, guards = self._plans.get(key) or (None, {})
        within = all(parts[argument].inner[axis] > limit for (argument, axis), limit in guards.items())
        return kernels if within else None

    def _made(
        self, constants: Mapping[int, ConstantArray], parts: Sequence[_Part], count: int
    ) -> tuple[_BatchKernels, Mapping[tuple[int, int], int]] | None:
        scatter = find_scatter(self.program, constants)
        if scatter is None or any(parts[i].inner[axis] <= limit for (i, axis), limit in scatter.guards.items()):
            return None
        scheme = segmented(self.program, scatter, alone=True)
        kernels = _BatchKernels(self.device, scheme.program, True, scheme.tables)
        written = [argument.written for argument in self.program.arguments]
        own = {name: self._copied(parts) for name in ("plan", "plain")}
        runs = {"plan": kernels, "plain": self._plain}
        for name, run in runs.items():
            run(own[name], count)
        found, wanted = (
            [
                self.device.values(part.array, kind)
                for part, kind, yes in zip(own[name], self._kinds, written, strict=True)
                if yes
            ]
            for name in runs
        )
        if not agrees(found, wanted, scatter, self.device.rounding):
            return None
        shortest = dict.fromkeys(runs, math.inf)
        for _ in range(_TURNS):
            for name, run in runs.items():
                self.device.wait()
                start = time.perf_counter()
                run(own[name], count)
                self.device.wait()
                shortest[name] = min(shortest[name], time.perf_counter() - start)
        return (kernels, dict(scatter.guards)) if shortest["plan"] < shortest["plain"] else None

    def _copied(self, parts: Sequence[_Part]) -> list[_Part]:
        """The parts, with copies of what the program writes."""
        copy = lambda array: array.clone() if hasattr(array, "clone") else array.copy()
        written = [argument.written for argument in self.program.arguments]
        return [replace(one, array=copy(one.array)) if yes else one for one, yes in zip(parts, written, strict=True)]


def _whole(given: Any, shape: tuple[int, ...]) -> Any:
    """The array with an element for each item."""
    return given.expand(shape) if hasattr(given, "expand") else np.broadcast_to(given, shape)


def _of_arrays(program: Program) -> Program:
    """The program with each number in an array of one element: items of a batch have numbers of their own."""
    arguments, buffers, first = [], [], []
    old, scalars = iter(program.buffers), iter(program.scalars)
    for argument in program.arguments:
        if isinstance(argument.type, ArrayType):
            arguments.append(argument)
            buffers.append(next(old))
            continue
        variable = next(scalars)
        name = f"{variable.name}item_"
        buffers.append(Buffer(name, argument.type, (f"{name}n0",), (1,)))
        arguments.append(Argument(argument.name, ArrayType(argument.type, 1), written=False, read=True))
        load = Load(buffers[-1], (Constant(0, ScalarType.INT64),))
        first.append(Assign(Variable(variable.name, load.type), load))
    return replace(
        program,
        arguments=tuple(arguments),
        buffers=tuple(buffers),
        scalars=(),
        variables=(*program.variables, *program.scalars),
        body=(*first, *program.body),
    )
