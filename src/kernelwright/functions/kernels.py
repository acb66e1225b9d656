"""A program's kernels on a device, and how they are launched."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelwright import loops
from kernelwright.functions.devices import Device, packed_strides
from kernelwright.functions.failures import failing
from kernelwright.loops import COPIES, GROUP, ArrayType, Let
from kernelwright.loops.program import Index, loads

_SHARED_BYTES = 48 << 10
"""Of a group's memory for bins: what every device has without being asked."""
_TURNS_PER_BIN = 4
_FEWEST_TURNS = 8192
"""From here bins of a group's own pay: they are emptied and added up once for each group."""
_GROUPS = 4
"""For each of the device's processors, where turns are taken in strides."""
_MOST_PREPARED = 256


@dataclass(frozen=True)
class _Prepared:
    """What depends on the sizes of arrays and on numbers alone."""

    words: Any
    """The sizes, on the device."""
    numbers: tuple[Any, ...]
    """As kernels take them."""
    launches: tuple[tuple[Callable[..., Any], dict[str, Any]], ...]


class Kernels:
    """A program compiled for a device. Safe to call from several threads.

    A call returns when the device has its work, as torch's own operators do; it waits only where a program may fail or
    returns numbers.
    """

    def __init__(self, device: Device, program: loops.Program, boundscheck: bool) -> None:
        self.device, self.program = device, program
        self._printed, self._library = device.compiled(program, boundscheck)
        self._fail = failing(program)
        # Bounds that are read from arrays: then what is read decides how many turns there are, at each call.
        before = [command for command in program.body if isinstance(command, Let | Index)]
        self._reads = any(True for command in before for _ in loads(command))
        self._prepared: dict[Any, _Prepared] = {}
        # Where programs that cannot fail would say so, and those that return nothing would put it.
        self._unused = device.zeros(10, "int32"), device.zeros(1, "int64")

    def __call__(self, arrays: Sequence[Any], scalars: Sequence[Any]) -> tuple[Any, ...]:
        """Runs it on arrays that lie on the device, contiguous and of the program's dtypes. Returns its numbers."""
        key = (*(tuple(array.shape) for array in arrays), *scalars)
        prepared = None if self._reads else self._prepared.get(key)
        if prepared is None:
            prepared = self._prepare(arrays, scalars)
            if len(self._prepared) < _MOST_PREPARED:
                self._prepared[key] = prepared
        fails, result = self._printed.fails, self.program.result
        error = self.device.zeros(10, "int32") if fails else self._unused[0]
        results = self.device.zeros(len(result), "int64") if result else self._unused[1]
        for kernel, launch in prepared.launches:
            kernel(*arrays, prepared.words, *prepared.numbers, error, results, **launch)
        if fails:
            told = np.ascontiguousarray(Device.host(error))
            if told[5]:
                self._fail(told.ctypes.data)
        if not result:
            return ()
        cells = Device.host(results)
        return tuple(self.device.numbers(cells[i : i + 1], kind)[0].item() for i, kind in enumerate(result))

    def _prepare(self, arrays: Sequence[Any], scalars: Sequence[Any]) -> _Prepared:
        sizes: list[int] = []
        shown: list[Any] = []
        held, numbers, of_name = iter(arrays), iter(scalars), {}
        for argument in self.program.arguments:
            if not isinstance(argument.type, ArrayType):
                shown.append(next(numbers))
                continue
            array = next(held)
            of_name[argument.name.removesuffix("_")] = array
            shape = tuple(map(int, array.shape))
            sizes += [*shape, *packed_strides(shape), 0]
            empty = np.broadcast_to(np.zeros((), argument.type.dtype.value), shape)
            shown.append(self.device.values(array, argument.type.dtype) if self._reads else empty)
        launches = []
        for launch in self._printed.launches:
            turns = loops.turns(self.program, launch, *shown)
            if turns:
                launches.append(self._launched(launch, turns, of_name.get(launch.bins)))
        taken = tuple(self.device.passed(x, one.type) for x, one in zip(scalars, self.program.scalars, strict=True))
        return _Prepared(self.device.move(np.array([*sizes, 1], np.int64)), taken, tuple(launches))

    def _launched(self, launch: loops.Launch, turns: int, bins: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
        """The kernel for so many turns, and how it is launched."""
        if bins is not None and turns >= max(_FEWEST_TURNS, _TURNS_PER_BIN * _count(bins)):
            size = max(1, _count(bins) * bins.dtype.itemsize)
            most = min(COPIES, _SHARED_BYTES // size)
            if most:
                copies = 1 << (most.bit_length() - 1)
                groups = min(-(-turns // GROUP), _GROUPS * self.device.processors)
                kernel = getattr(self._library, launch.binned)
                return kernel, {"threads": (groups * GROUP,), "group_size": (GROUP,), "shared_bytes": copies * size}
        threads = turns * launch.group
        group = GROUP if launch.group > 1 else min(GROUP, threads)
        return getattr(self._library, launch.kernel), {"threads": (threads,), "group_size": (group,)}


def _count(array: Any) -> int:
    return int(np.prod(array.shape))
