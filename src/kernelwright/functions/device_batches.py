"""A function over a batch on a device: a thread for each item."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernelwright import loops
from kernelwright.functions.devices import Device, packed_strides
from kernelwright.functions.failures import failing
from kernelwright.functions.signatures import Types
from kernelwright.loops import Argument, ArrayType, Buffer, Constant, Load, Program, ScalarType, Variable
from kernelwright.loops.program import Assign


class DeviceBatch:
    """One program for one tuple of types. `cores`: how many axes of each array belong to an item."""

    def __init__(
        self, function: Callable[..., Any], types: Types, results: Sequence[Any], device: str, boundscheck: bool
    ) -> None:
        real = ScalarType.FLOAT32 if device == "metal" else ScalarType.FLOAT64
        self.program = loops.parse(function, types, real=real)
        self.types, self.results = types, list(results) or [np.dtype(kind.value) for kind in self.program.result]
        self._device = Device(device)
        self._launches, self._library = self._device.compiled(_of_arrays(self.program), boundscheck, batched=True)
        self._fail = failing(self.program)

    def run(self, inputs: Sequence[np.ndarray], results: Sequence[np.ndarray], shape: tuple[int, ...]) -> None:
        """`inputs` may broadcast over `shape`, `results` have it in front; both are NumPy arrays."""
        count = int(np.prod(shape))
        if count == 0:
            return
        sizes: list[int] = []
        arrays: list[Any] = []
        for index, kind in enumerate(self.types):
            core, dtype = (kind.ndim, kind.dtype) if isinstance(kind, ArrayType) else (0, kind)
            given = inputs[index] if index < len(inputs) else results[index - len(inputs)]
            inner = given.shape[given.ndim - core :] if core else ()
            once = index < len(inputs) and given.ndim == len(inner)
            whole = given if once else np.broadcast_to(given, (*shape, *inner))
            arrays.append(self._device.move(np.ascontiguousarray(whole, dtype.value)))
            inner = inner or (1,)
            sizes += [*inner, *packed_strides(inner), 0 if once else int(np.prod(inner))]
        error = self._device.move(np.zeros(10, np.int32))
        answers = self._device.move(np.zeros(max(1, len(self.program.result)) * count, np.int64))
        words = self._device.move(np.array(sizes, np.int64))
        (launch,) = self._launches
        kernel = getattr(self._library, launch.kernel)
        kernel(*arrays, words, error, answers, threads=count, group_size=min(64, count))
        told = np.ascontiguousarray(self._device.host(error))
        if told[5]:
            self._fail(told.ctypes.data)
        if self.program.result:
            cells = self._device.host(answers)
            for place, (result, kind) in enumerate(zip(results, self.program.result, strict=True)):
                one = cells.reshape(count, -1)[:, place].copy().view(kind.value)[:: 8 // kind.bytes]
                result[...] = one.reshape(shape)
        else:
            for result, array in zip(results, arrays[len(inputs) :], strict=True):
                result[...] = self._device.host(array).reshape(result.shape)


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
