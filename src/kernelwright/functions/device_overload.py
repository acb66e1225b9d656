"""A function compiled for a device and the types of its arguments, with plans for arrays that cannot change."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kernelwright import loops
from kernelwright.errors import UsageError
from kernelwright.functions.constants import Constant
from kernelwright.functions.devices import Device, bring_back, narrowed
from kernelwright.functions.kernels import Kernels
from kernelwright.functions.locks import compiling
from kernelwright.functions.options import Options
from kernelwright.functions.plans.choosing import Choice
from kernelwright.functions.plans.device_choosing import DevicePlan, choose
from kernelwright.functions.plans.rows import find_scatter
from kernelwright.functions.signatures import Types
from kernelwright.loops import ArrayType, ScalarType
from kernelwright.loops.program import Range


class DeviceOverload:
    """See the module. Safe to call from several threads."""

    def __init__(self, function: Callable[..., Any], types: Types, options: Options, device: str) -> None:
        pairs = device == "metal" and options.precision == "double-float"
        self.device, self.types = Device(device, pairs=pairs), types
        single = not pairs and (device == "metal" or options.precision == "float32")
        if single:
            self.types = narrowed(types)
        self._options = options
        real = ScalarType.FLOAT32 if single else ScalarType.FLOAT64
        self.program = loops.parse(function, self.types, real=real)
        self._refusal = self._why_not(options)
        self._arguments = [argument for argument in self.program.arguments if isinstance(argument.type, ArrayType)]
        self._plain = Kernels(self.device, self.program, options.boundscheck)
        self._plans: dict[tuple[tuple[int, int], ...], DevicePlan | None] = {}

    def __call__(self, values: Sequence[Any], constants: Mapping[int, Constant]) -> tuple[Any, Choice | None]:
        """What the function returns, and what was chosen if that was now.

        On tensors of the device it returns when the device has its work, unless the program may fail or returns
        numbers.
        """
        plan, chosen = self._plan(values, constants) if constants else (None, None)
        if plan is None and self._refusal is not None and not self._says_itself(constants):
            raise UsageError(f"{self.program.name}: {self._refusal}")
        arrays, scalars = self._moved(values)
        before = [
            self.device.kept(array, buffer.type) if argument.written else None
            for array, buffer, argument in zip(arrays, self.program.buffers, self._arguments, strict=True)
        ]
        answers = plan.run(arrays, scalars) if plan else self._plain(arrays, scalars)
        given = [value for kind, value in zip(self.types, values, strict=True) if isinstance(kind, ArrayType)]
        for argument, array, old, value in zip(self._arguments, arrays, before, given, strict=True):
            if argument.written:
                bring_back(array, value, old)
        return (answers if len(answers) > 1 else answers[0] if answers else None), chosen

    def _moved(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        arrays: list[Any] = []
        scalars: list[Any] = []
        for number, (argument, kind, value) in enumerate(zip(self.program.arguments, self.types, values, strict=True)):
            place = f"{self.program.name}, argument {number + 1}, {argument.name!r}"
            if isinstance(kind, ScalarType):
                scalars.append(np.dtype(kind.value).type(value).item())
                self.device.passed(scalars[-1], kind, place)
            else:  # what nothing reads may be anything
                arrays.append(self.device.move(value, kind.dtype.value, place if argument.read else None))
        return arrays, scalars

    def _why_not(self, options: Options) -> str | None:
        """Why the program may run by a plan alone."""
        if self.device.pairs and _adds_by_atomics(self.program, (ScalarType.FLOAT64,)):
            return (
                "precision='double-float': its scatter adds float64 numbers by atomics, which there are for float32 "
                "alone; where its indices never change, pass them as kw.constant(array), else use target='cpu'"
            )
        if options.deterministic and _adds_by_atomics(self.program, (ScalarType.FLOAT32, ScalarType.FLOAT64)):
            return (
                f"deterministic=True with target={self.device.name!r}: its scatter adds floating numbers by atomics, "
                "in another order each time; where its indices never change, pass them as kw.constant(array), else "
                "target='cpu' has a fixed one"
            )
        return None

    def _says_itself(self, constants: Mapping[int, Constant]) -> bool:
        """Whether the plain program may run after all, by one thread: a plan is there, and an index out of bounds."""
        constants = {i: array for i, array in constants.items() if not self.program.arguments[i].written}
        return self.device.pairs and bool(constants) and find_scatter(self.program, constants) is not None

    def _plan(
        self, values: Sequence[Any], constants: Mapping[int, Constant]
    ) -> tuple[DevicePlan | None, Choice | None]:
        """The plan for these arguments if one serves them, made and measured where there is none yet."""
        constants = {i: array for i, array in constants.items() if not self.program.arguments[i].written}
        key = tuple((i, id(array)) for i, array in sorted(constants.items()))
        chosen: Choice | None = None
        with compiling():
            if key not in self._plans and constants:
                arrays, scalars = self._moved(values)
                found = choose(self._plain, constants, arrays, scalars, self._options, plain_too=self._refusal is None)
                if found is None:
                    return None, None
                self._plans[key], chosen = found
                for array in constants.values():
                    weakref.finalize(array, self._plans.pop, key, None).atexit = False
        plan = self._plans.get(key)
        return (plan if plan is not None and plan.admits(values) else None), chosen


def _adds_by_atomics(program: loops.Program, types: Sequence[ScalarType]) -> bool:
    """Whether a loop that becomes a grid does."""
    plans = loops.analyse(program)
    grids = [plans.of(command) for command in program.body if isinstance(command, Range)]
    return any(plan.kind is loops.Kind.SCATTER and any(b.type in types for b, _ in plan.scatters) for plan in grids)
