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
from kernelwright.functions.signatures import Types
from kernelwright.loops import ScalarType


class DeviceOverload:
    """See the module. Safe to call from several threads."""

    def __init__(self, function: Callable[..., Any], types: Types, options: Options, device: str) -> None:
        self.device, self.types = Device(device), types
        single = device == "metal" or options.precision == "float32"
        if single:
            self.types = narrowed(types)
        self._options = options
        real = ScalarType.FLOAT32 if single else ScalarType.FLOAT64
        self.program = loops.parse(function, self.types, real=real)
        self._regroups = options.deterministic and _adds_by_atomics(self.program)
        self._plain = Kernels(self.device, self.program, options.boundscheck)
        self._plans: dict[tuple[tuple[int, int], ...], DevicePlan | None] = {}

    def __call__(self, values: Sequence[Any], constants: Mapping[int, Constant]) -> tuple[Any, Choice | None]:
        """What the function returns, and what was chosen if that was now.

        On tensors of the device it returns when the device has its work, unless the program may fail or returns
        numbers.
        """
        plan, chosen = self._plan(values, constants) if constants else (None, None)
        if plan is None and self._regroups:
            raise UsageError(
                f"{self.program.name}: deterministic=True with target={self.device.name!r}: its scatter adds floating "
                "numbers by atomics, in another order each time; where its indices never change, pass them as "
                "kw.constant(array), else target='cpu' has a fixed one"
            )
        arrays, scalars = self._moved(values)
        answers = plan.run(arrays, scalars) if plan else self._plain(arrays, scalars)
        held = iter(arrays)
        for argument, kind, value in zip(self.program.arguments, self.types, values, strict=True):
            array = None if isinstance(kind, ScalarType) else next(held)
            if argument.written:
                bring_back(array, value)
        return (answers if len(answers) > 1 else answers[0] if answers else None), chosen

    def _moved(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        arrays: list[Any] = []
        scalars: list[Any] = []
        for kind, value in zip(self.types, values, strict=True):
            if isinstance(kind, ScalarType):
                scalars.append(np.dtype(kind.value).type(value).item())
            else:
                arrays.append(self.device.move(value, kind.dtype.value))
        return arrays, scalars

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
                found = choose(self._plain, constants, arrays, scalars, self._options, plain_too=not self._regroups)
                if found is None:
                    return None, None
                self._plans[key], chosen = found
                for array in constants.values():
                    weakref.finalize(array, self._plans.pop, key, None).atexit = False
        plan = self._plans.get(key)
        return (plan if plan is not None and plan.admits(values) else None), chosen


def _adds_by_atomics(program: loops.Program) -> bool:
    plans = loops.analyse(program).loops
    return any(plan.kind is loops.Kind.SCATTER and any(b.type.floating for b, _ in plan.scatters) for plan in plans)
