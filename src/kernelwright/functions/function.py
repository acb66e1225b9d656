"""What a decorator returns: a callable that compiles for the types it meets."""

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kernelwright.functions.arguments import Given, convert, given
from kernelwright.functions.chain import Link
from kernelwright.functions.constants import Constant, is_constant
from kernelwright.functions.device_overload import DeviceOverload
from kernelwright.functions.devices import (
    HOSTED,
    copies,
    device_of,
    error_words,
    has_float64_arrays,
    hosted,
    say_once,
    types_of,
)
from kernelwright.functions.locks import compiling
from kernelwright.functions.options import Options
from kernelwright.functions.overload import Overload
from kernelwright.functions.signatures import Signature, Types, words
from kernelwright.loops import ArrayType, Program, parse
from kernelwright.targets.entry import table

if TYPE_CHECKING:
    from kernelwright.functions.plans.choosing import Plan


class Function(functools.partial):
    """A compiled Python function. `.py_func` is the plain one.

    functools.partial is the one class of the standard library whose instances have attributes and are called without
    a frame of Python's. What it calls is the first entry of the chain (chain.py); the last is `_Slow`.
    """

    py_func: Callable[..., Any]
    options: Options
    plans: dict[Any, Any]
    """What was chosen for arrays that cannot change, by types and arrays."""
    _slow: "_Slow"
    _signature: inspect.Signature
    _declared: tuple[Signature, ...]
    _overloads: dict[Types, Overload]
    _links: list[Link]
    _plans: "dict[Any, Plan]"
    _devices: dict[Any, DeviceOverload]
    _said: set[str]
    _compared: set[Any]
    """For which the error of a precision was said."""

    def __new__(cls, python: Callable[..., Any], options: Options, signatures: Sequence[Signature] = ()) -> "Function":
        slow = _Slow()
        self = super().__new__(cls, slow)
        functools.update_wrapper(self, python)
        self.py_func, self.options = python, options
        self._slow = slow
        self._signature = inspect.signature(python)
        self._declared = tuple(signatures)
        self._overloads, self._links = {}, []
        self.plans, self._plans, self._devices, self._said, self._compared = {}, {}, {}, set(), set()
        slow.function = weakref.ref(self)
        for parameter in self._signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TypeError(f"{self._name}: parameters like *args and **kwargs are not supported")
        for signature in self._declared:
            self._check(signature)
            if options.target in ("cpu", "auto"):
                self._overload(signature.arguments)
        return self

    def __repr__(self) -> str:
        return f"<compiled {self._name} for {', '.join(self.signatures) or 'no types yet'}>"

    def __reduce__(self) -> str:  # type: ignore[override]
        return self.__dict__["__qualname__"]  # by import path, as plain functions are pickled

    @property
    def signatures(self) -> list[str]:
        """The types it was compiled for."""
        return [f"({', '.join(map(words, types))})" for types in self._overloads]

    def program(self, types: Types) -> Program:
        """The function for arguments of these types, as the loop-nest generator sees it."""
        return parse(self.py_func, types)

    def in_jax(self, *arguments: Any) -> Any:
        """The new values of the arrays that it writes to, as a JAX operation; see docs/loops.md."""
        from kernelwright.functions.bridges import in_jax

        return in_jax(self, self._bind(arguments, {}))

    def torch_operator(self, *examples: Any) -> Callable[..., None]:
        """The function as an operator of torch, which torch.compile keeps whole; see docs/loops.md."""
        from kernelwright.functions.bridges import torch_operator

        return torch_operator(self, self._bind(examples, {}))

    @property
    def _name(self) -> str:
        return getattr(self, "__name__", "function")

    def _check(self, signature: Signature) -> None:
        wanted = len(self._signature.parameters)
        if len(signature.arguments) != wanted:
            raise TypeError(f"{self._name} takes {wanted} arguments, and its signature {signature} has others")

    def call_slowly(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Whatever no entry was sure of: compiles what is missing, and runs it or says what is wrong."""
        if table.stale():
            table.table()
        values = self._bind(arguments, keywords)
        device = device_of(self.options, values)
        if device is not None and (taken := self._on_device(device, values)) is not None:
            return taken[0]
        items = [given(value, self._place(i)) for i, value in enumerate(values)]
        overload, items = self._chosen(items)
        constants = {
            i: value
            for i, value in enumerate(values)
            if is_constant(value) and not overload.program.arguments[i].written
        }
        plan = self._plan(overload, items, constants) if constants else None
        if plan is not None and plan.admits(overload, items):
            return plan.run(overload, items)
        return overload.launch(items)

    def _on_device(self, device: str, values: Sequence[Any]) -> tuple[Any] | None:
        """What a device answers; None where these arguments are for the CPU, which is said once."""
        types = types_of(values, self._place)
        options = self.options
        if device == "metal" and has_float64_arrays(types) and options.precision is None:
            say_once(
                self._said,
                f"{self._name}: Metal has no float64, so it runs on the CPU; precision='float32', or 'double-float' "
                "for pairs of float32, would compute in that and say the error",
            )
            return None
        if hosted(device):
            say_once(self._said, HOSTED.format(self._name))
        key = (device, types)
        if key not in self._devices:
            with compiling():
                if key not in self._devices:
                    self._devices[key] = DeviceOverload(self.py_func, types, options, device)
        kept = None
        if options.precision is not None and has_float64_arrays(types) and key not in self._compared:
            kept = copies(values)
        constants = {i: value for i, value in enumerate(values) if is_constant(value)}
        result, chosen = self._devices[key](values, constants)
        if kept is not None:
            self._compared.add(key)
            self._compare(self._devices[key].program, types, values, kept)
        if chosen is not None:
            place = (device, types, tuple((i, id(array)) for i, array in sorted(constants.items())))
            self.plans[place] = chosen
            for array in constants.values():
                weakref.finalize(array, self.plans.pop, place, None).atexit = False
        return (result,)

    def _compare(self, program: Program, types: Types, found: Sequence[Any], kept: list[Any]) -> None:
        """Says how far what a device wrote is from float64 on the CPU, on copies of the arguments as they were."""
        plain = Overload(self.py_func, types, self.options, exact=True)
        plain.launch([given(value, "") for value in kept])
        written = [
            (argument.name, found[i], kept[i]) for i, argument in enumerate(program.arguments) if argument.written
        ]
        say_once(self._said, error_words(self._name, self.options.precision, written))

    def _plan(self, overload: Overload, items: list[Given], constants: dict[int, Constant]) -> "Plan | None":
        """The plan for these constants, made where there is none yet; None where these arguments do not allow it."""
        from kernelwright.functions.plans import choosing

        overload.check_writable(items)
        key = (overload.types, tuple((i, id(array)) for i, array in sorted(constants.items())))
        with compiling():
            if key not in self._plans:
                found = choosing.choose(overload, items, constants)
                if found is None:
                    return None
                self._plans[key], self.plans[key] = found
                made = choosing.link(self._plans[key], overload, constants)
                for array in constants.values():
                    gone = weakref.finalize(array, _forget, weakref.ref(self), key, weakref.ref(made))
                    gone.atexit = False
                self._insert([made])
            return self._plans[key]

    def _bind(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        if not keywords and len(arguments) == len(self._signature.parameters):
            return arguments
        try:
            bound = self._signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise TypeError(f"{self._name}: {error}") from None
        bound.apply_defaults()
        return bound.args

    def _place(self, index: int) -> str:
        return f"{self._name}, argument {index + 1}, {list(self._signature.parameters)[index]!r}"

    def _chosen(self, items: list[Given]) -> tuple[Overload, list[Given]]:
        """The overload for these arguments, and the arguments as it wants them."""
        types = tuple(item.type for item in items)
        if types in self._overloads or not self._declared:
            return self._overload(types), items
        wrong: list[str] = []
        for signature in self._declared:
            wanted = tuple(_as_laid_out(kind, item) for kind, item in zip(signature.arguments, items, strict=True))
            try:
                fitting = [
                    convert(item, kind, self._place(i))
                    for i, (item, kind) in enumerate(zip(items, wanted, strict=True))
                ]
            except TypeError as error:
                wrong.append(str(error))
            else:
                return self._overload(wanted), fitting
        if len(wrong) == 1:
            raise TypeError(wrong[0])
        declared = " or ".join(map(str, self._declared))
        raise TypeError(f"{self._name} was declared for {declared}, not for ({', '.join(map(words, types))})")

    def _overload(self, types: Types) -> Overload:
        found = self._overloads.get(types)
        if found is None:
            with compiling():
                found = self._overloads.get(types)
                if found is None:
                    found = Overload(self.py_func, types, self.options, exact=len(self._declared) != 1)
                    self._overloads[types] = found
                    self._insert(found.links)
        return found

    def _insert(self, links: Sequence[Link]) -> None:
        """Puts entries before the others. Calls in other threads see the chain before or after."""
        following: Any = self.func
        for link in reversed(links):
            link.set_next(following)
            following = link.call
        self._links.extend(links)  # never dropped: a call may be in any of them
        super().__setstate__((following, (), {}, self.__dict__))  # type: ignore[misc]


def _forget(function: "weakref.ref[Function]", key: Any, link: "weakref.ref[Link]") -> None:
    """A constant is gone: what was made for it goes too, and its place in memory may be another array's."""
    made = link()
    if made is not None:
        made.release()
    owner = function()
    if owner is not None:
        owner.plans.pop(key, None)
        owner._plans.pop(key, None)


def _as_laid_out(kind: Any, item: Given) -> Any:
    """A declared array type with the layout of the array that was given: a signature holds for both."""
    if isinstance(kind, ArrayType) and isinstance(item.type, ArrayType):
        return ArrayType(kind.dtype, kind.ndim, item.type.contiguous)
    return kind


class _Slow:
    """The end of a chain."""

    function: "weakref.ref[Function]"

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        function = self.function()
        assert function is not None
        return function.call_slowly(arguments, keywords)
