"""A function over a batch on a device: a thread for each item.

Where the device's groups share memory that a launch chooses the size of, and an item's arrays are small, they lie there
while the thread works: in the device's memory neighbours would read elements that are an item apart.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernelwright import loops
from kernelwright.functions.devices import Device, bring_back, packed_strides
from kernelwright.functions.failures import failing
from kernelwright.functions.locks import compiling
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

_GROUP = 64
_STAGED_BYTES = 96 << 10
"""Of a group's memory, at most: two groups for a processor of 200 KB or more."""


class DeviceBatch:
    """One program for one tuple of types."""

    def __init__(
        self, function: Callable[..., Any], types: Types, results: Sequence[Any], device: str, boundscheck: bool
    ) -> None:
        real = ScalarType.FLOAT32 if device == "metal" else ScalarType.FLOAT64
        self.program = loops.parse(function, types, real=real)
        self.types, self.results = types, list(results) or [np.dtype(kind.value) for kind in self.program.result]
        self.device = Device(device)
        self._boundscheck, self._whole = boundscheck, _of_arrays(self.program)
        self._compiled: dict[frozenset[str], tuple[DeviceProgram, Any]] = {}
        self._kernels(frozenset())  # what is not supported is said before anything is moved
        self._fail = failing(self.program)

    def _kernels(self, common: frozenset[str]) -> tuple[DeviceProgram, Any]:
        """The kernels where all items share these arguments."""
        with compiling():
            if common not in self._compiled:
                made = self.device.compiled(self._whole, self._boundscheck, batched=True, common=common)
                self._compiled[common] = made
            return self._compiled[common]

    def run(self, inputs: Sequence[Any], results: Sequence[Any], shape: tuple[int, ...]) -> None:
        """`inputs` may broadcast over `shape`, `results` have it in front; NumPy arrays, or tensors of the device."""
        count = int(np.prod(shape))
        if count == 0:
            return
        sizes: list[int] = []
        arrays: list[Any] = []
        staged, common = 0, set()
        for index, kind in enumerate(self.types):
            core, dtype = (kind.ndim, kind.dtype) if isinstance(kind, ArrayType) else (0, kind)
            given = inputs[index] if index < len(inputs) else results[index - len(inputs)]
            inner = tuple(given.shape[given.ndim - core :]) if core else ()
            once = index < len(inputs) and given.ndim == len(inner)
            arrays.append(self.device.move(given if once else _whole(given, (*shape, *inner)), dtype.value))
            inner = inner or (1,)
            each = 0 if once else int(np.prod(inner))
            if once:
                common.add(self.program.arguments[index].name)
            sizes += [*inner, *packed_strides(inner), each]
            staged += -(-each * (STAGE + 1) * dtype.bytes // 16) * 16
        printed, library = self._kernels(frozenset(common))
        result = self.program.result
        error = self.device.zeros(10, "int32")
        answers = self.device.zeros(max(1, len(result) * count), "int64")
        words = self.device.move(np.array([*sizes, count], np.int64))
        (launch,) = printed.launches
        name, options = launch.kernel, {"threads": (count,), "group_size": (min(_GROUP, count),)}
        if printed.twins and 0 < staged <= _STAGED_BYTES and not self._overlap(arrays, len(inputs)):
            name, options = launch.staged, {"threads": (count,), "group_size": (STAGE,), "shared_bytes": staged}
        getattr(library, name)(*arrays, words, error, answers, **options)
        if printed.fails:
            told = np.ascontiguousarray(Device.host(error))
            if told[5]:
                self._fail(told.ctypes.data)
        if not result:
            for target, array in zip(results, arrays[len(inputs) :], strict=True):
                bring_back(array.reshape(target.shape), target)
            return
        cells = Device.host(answers).reshape(count, -1)
        for place, (target, kind) in enumerate(zip(results, result, strict=True)):
            one = cells[:, place].copy().view(kind.value)[:: 8 // kind.bytes].reshape(shape)
            bring_back(self.device.move(one) if self.device.holds(target) else one, target)

    @staticmethod
    def _overlap(arrays: Sequence[Any], inputs: int) -> bool:
        """Whether what is written may reach into what is read."""
        places = [array.untyped_storage().data_ptr() for array in arrays]
        return bool(set(places[:inputs]) & set(places[inputs:]))


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
