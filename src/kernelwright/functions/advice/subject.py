"""The user's file: a function, and `arguments(**sizes)` that makes its arguments."""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelwright.errors import UnknownNameError, UsageError


@dataclass(frozen=True)
class Subject:
    """What is to be measured."""

    name: str
    function: Callable[..., Any]
    """The plain Python function."""
    arguments: Callable[..., Any]
    """Its arguments, a sequence, for sizes given by name."""
    given: Mapping[str, Callable[..., Any]]
    """The user's own variants: numpy_NAME, jax_NAME, torch_NAME, by what stands before the name."""


VARIANTS = ("numpy", "jax", "torch")


def load_subject(reference: str) -> Subject:
    """The function of "FILE.py:NAME". Raises UsageError."""
    path, colon, name = reference.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise UsageError(f'{reference!r} is no function of a file; write "shuffle.py:shuffle_mul"')
    module = _module(Path(path))
    function = getattr(module, name, None)
    known = [item for item, value in vars(module).items() if callable(value) and not item.startswith("_")]
    if function is None:
        raise UnknownNameError(f"function of {path}", name, known)
    arguments = getattr(module, "arguments", None)
    if not callable(arguments):
        raise UsageError(
            f"{path} defines no `arguments(**sizes)`, which makes the arguments of {name}, as "
            "`def arguments(L): return a, b, operator, res`; see examples/shuffle.py"
        )
    given = {kind: value for kind in VARIANTS if callable(value := getattr(module, f"{kind}_{name}", None))}
    return Subject(name, getattr(function, "py_func", function), arguments, given)


def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"kernelwright_subject_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module
