"""Finds the members of a room by their file names, and third-party members by entry point; and faces that load late.

A member is a file that defines exactly one class whose name ends in the room's suffix: `writers/eager.py` holds
`EagerWriter`. Its registered name is the class attribute `name`. Heavy imports belong inside its methods, so that
listing a room costs no torch. Third parties add members through the entry point group `kernelwright.<room>`.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from kernelwright.errors import UnknownNameError


@cache
def members(room: str, suffix: str) -> dict[str, type]:
    """The classes of `kernelwright.<room>` whose names end in `suffix`, keyed by their `name`, sorted."""
    package = importlib.import_module(f"kernelwright.{room}")
    found: dict[str, type] = {}
    for info in pkgutil.iter_modules(package.__path__):
        if not info.ispkg and not info.name.startswith("_"):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            for member in _classes(module, suffix):
                found[member.name] = member
    for point in entry_points(group=f"kernelwright.{room}"):
        member = point.load()
        found[member.name] = member
    return dict(sorted(found.items()))


def lazy(package: str, files: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`: its face without the cost of what is not asked for, as torch.

    `files`: for each name the module below `package` that holds it.
    """

    def get(name: str) -> Any:
        if name in files:
            return getattr(importlib.import_module(f"{package}.{files[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


def find(room: str, suffix: str, name: str) -> type:
    """The member called `name`. Raises UnknownNameError, which names the nearest.

    One that stands in the file of its name is found without importing the others.
    """
    file = f"kernelwright.{room}.{name}"
    if name.isidentifier() and find_spec(file) is not None:
        for member in _classes(importlib.import_module(file), suffix):
            if member.name == name:
                return member
    known = members(room, suffix)
    if name not in known:
        raise UnknownNameError(room.split(".")[-1].rstrip("s"), name, known)
    return known[name]


def _classes(module: ModuleType, suffix: str) -> list[Any]:
    return [
        value
        for _, value in inspect.getmembers(module, inspect.isclass)
        if value.__module__ == module.__name__
        and value.__name__.endswith(suffix)
        and value.__name__ != suffix
        and isinstance(getattr(value, "name", None), str)
    ]
