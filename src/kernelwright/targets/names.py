"""The functions, classes and constants behind well-known names of a process, at one moment: who puts another in their
place, or gives them other code, is found.

A look at all of them (some 20,000) is three walks in C over lists, since every candidate is looked at twice.
"""

import builtins
import gc
import math
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from operator import attrgetter, is_
from types import FunctionType, ModuleType
from typing import Any, Self


@dataclass(frozen=True)
class Names:
    """What the watched modules and their classes held."""

    holders: tuple[tuple[str, Any, dict[str, Any], int], ...]
    """(what it is called, the module or class, what it held, how many names in all; 0 for a module)."""
    functions: tuple[FunctionType, ...]
    """Those of them that are written in Python, ..."""
    titles: tuple[str, ...]
    """... what each is called, ..."""
    insides: tuple[tuple[Any, ...], ...]
    """... and, for each of _INSIDES, what each had."""
    modules: frozenset[str]
    """The modules looked at."""
    compiler: bool
    """Whether torch's own compiler was imported already; its import replaces some of torch's functions."""

    @classmethod
    def now(cls, known: Self | None = None) -> Self:
        """As things stand. What `known` holds is not collected again if all of it is still so."""
        if known and known.modules == _modules() and not known.changes():
            return known
        holders = tuple(_held())
        written = [
            (f"{owner}.{name}", value)
            for owner, _, held, _ in holders
            for name, value in held.items()
            if isinstance(value, FunctionType)
        ]
        functions = tuple(function for _, function in written)
        insides = tuple(tuple(map(attrgetter(name), functions)) for name in _INSIDES)
        return cls(
            holders, functions, tuple(title for title, _ in written), insides, _modules(), _COMPILER in sys.modules
        )

    def changes(self) -> tuple[str, ...]:
        """What is otherwise now, in sentences."""
        replaced = [f"{owner}.{name} was replaced" for owner, _, name, _ in self._replaced()]
        rewritten = {self.titles[place]: None for place, _, _ in self._rewritten()}
        return (*replaced, *(f"{title} was given other code or defaults" for title in rewritten))

    def restore(self) -> None:
        """Puts everything back."""
        for _, holder, name, value in list(self._replaced()):
            setattr(holder, name, value)
        for place, name, value in list(self._rewritten()):
            setattr(self.functions[place], name, value)

    def _rewritten(self) -> Iterator[tuple[int, str, Any]]:
        for name, before in zip(_INSIDES, self.insides, strict=True):
            now = list(map(attrgetter(name), self.functions))
            if not all(map(is_, now, before)):
                for place, (one, other) in enumerate(zip(now, before, strict=True)):
                    if one is not other:
                        yield place, name, other

    def _replaced(self) -> Iterator[tuple[str, Any, str, Any]]:
        imported = not self.compiler and _COMPILER in sys.modules
        for owner, holder, held, count in self.holders:
            found = vars(holder)
            if not all(map(is_, map(found.get, held), held.values())):
                for name, value in held.items():
                    now = found.get(name)
                    if now is value or (imported and _of_torch(now)) or _kept_from_compiling(now, value):
                        continue
                    yield owner, holder, name, value
            if count and len(found) != count:
                for name in found.keys() - held.keys():
                    above = next((vars(base)[name] for base in holder.__mro__[1:] if name in vars(base)), None)
                    if callable(above) and above is not found[name] and not _kept_from_compiling(found[name], above):
                        yield owner, holder, name, above


def _modules() -> frozenset[str]:
    return frozenset(filter(_watched, list(sys.modules)))


def _of_torch(value: Any) -> bool:
    """Whether its text is torch's own."""
    import torch

    code = getattr(value, "__code__", None)
    return code is not None and code.co_filename.startswith(os.path.dirname(torch.__file__))


def _kept_from_compiling(now: Any, value: Any) -> bool:
    """Whether it is the same function, which torch's compiler has wrapped so as not to look inside: it does so with
    those of the optimizers and of torch.jit when it is used first."""
    return now is not value and _of_torch(now) and _innermost(now) is _innermost(value)


def _innermost(function: Any) -> Any:
    while hasattr(function, _WRAPPED):
        function = getattr(function, _WRAPPED)
    return function


def _held() -> Iterator[tuple[str, Any, dict[str, Any], int]]:
    """Functions and classes of the modules a candidate, its user and the judge call by name, and of their classes."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and _watched(name):
            found = {key: value for key, value in vars(module).items() if _holds(value) and key != _FOLLOWS}
            yield name, module, found, 0
            for key, value in found.items():
                if isinstance(value, type) and value.__module__ == name:
                    methods = {part: body for part, body in vars(value).items() if callable(body) or _wrapped(body)}
                    yield f"{name}.{key}", value, methods, len(vars(value))


def _holds(value: Any) -> bool:
    return callable(value) or type(value).__name__ in _CONSTANTS


@cache
def _watched(name: str) -> bool:
    return name in _MODULES or name.startswith(_PREFIXES)


def _wrapped(value: Any) -> bool:
    return isinstance(value, (staticmethod, classmethod, property))


# torch itself has it follow the default dtype.
_FOLLOWS = "Storage"
_COMPILER = "torch._dynamo"
_WRAPPED = "_torchdynamo_orig_callable"
_INSIDES = ("__code__", "__defaults__", "__kwdefaults__")
_CONSTANTS = ("dtype", "layout", "memory_format", "float")
_MODULES = frozenset({
    builtins.__name__, time.__name__, gc.__name__, os.__name__, math.__name__, random.__name__, "json", "pickle",
    "socket", "numpy", "torch", "torch.functional", "torch._tensor", "torch._C", "torch._C._nn", "torch._C._linalg",
    "torch.random", "torch.testing", "torch.linalg", "torch.special", "torch.fft", "torch.overrides", "torch.jit",
    "torch.cuda", "torch.cuda.graphs", "torch.cuda.memory", "torch.cuda.random", "torch.cuda.streams",
})  # fmt: skip
_PREFIXES = (
    "torch.autograd",
    "torch.optim",
    "torch.nn.functional",
    "torch.nn.modules",
    "torch.nn.init",
    "torch.nn.parameter",
    "kernelwright",
)
