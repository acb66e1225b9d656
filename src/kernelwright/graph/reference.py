"""A problem's text as a live reference module, and arguments to trace it with."""

import hashlib
import linecache
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn

from kernelwright.errors import ProblemError
from kernelwright.records import Problem, TensorSpec, flatten, unflatten

LOADED = "_kernelwright_"
"""What the names of loaded modules begin with: no other process can import them."""


def load_text(text: str, name: str, *, import_paths: Sequence[str] = ()) -> ModuleType:
    """Runs Python `text` as a fresh module, whose tracebacks and `inspect.getsource` show its lines.

    `import_paths` come first on sys.path while the text runs and stay at its end, since references import lazily.
    Raises ProblemError that names the line.
    """
    filename = f"<{name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    stem = "".join(letter if letter.isalnum() else "_" for letter in name)
    module = ModuleType(f"{LOADED}{stem}_{hashlib.sha256(text.encode()).hexdigest()[:12]}")
    module.__file__ = filename
    sys.modules[module.__name__] = module  # dataclasses and pickle look their module up
    with user_code(filename, f"{name} cannot be loaded"), _importing(import_paths):
        exec(compile(text, filename, "exec"), module.__dict__)
    return module


def build_reference(problem: Problem, weights: Mapping[str, Tensor] | None = None) -> nn.Module:
    """The problem's `Model`, built under seed 0, with `weights` loaded where given, in its train or eval mode.

    The process's random state is left as it was. Raises ProblemError.
    """
    module = load_text(problem.source, problem.name, import_paths=problem.import_paths)
    model_class = _defined(module, "Model", problem)
    init_inputs = _defined(module, "get_init_inputs", problem)
    with torch.random.fork_rng(devices=[]), user_code(f"<{problem.name}>", "Model cannot be built"):
        torch.manual_seed(0)
        model = model_class(*init_inputs())
        if weights is not None:
            model.load_state_dict(dict(weights))
    return model.train(problem.numerics.training)


def example_arguments(problem: Problem) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of the signature's example shapes: ones, or the smallest legal integer.

    They are for tracing: nothing may depend on their values.
    """
    leaves: list[Tensor] = []
    for spec in problem.signature.tensors:
        leaves.append(leaves[spec.alias_of] if spec.alias_of is not None else _example(spec))
    call = unflatten(problem.signature.arguments, leaves)
    return tuple(call["args"]), dict(call["kwargs"])


@contextmanager
def user_code(filename: str, what: str) -> Iterator[None]:
    """Runs foreign code: whatever it raises becomes a ProblemError that says `what` failed and at which line."""
    try:
        yield
    except ProblemError:
        raise
    except SyntaxError as error:
        raise ProblemError(f"{what}: line {error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:  # foreign code may raise anything, and may call exit()
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == filename]
        place = f"line {frames[-1].lineno}: " if frames else ""
        raise ProblemError(f"{what}: {place}{type(error).__name__}: {error}") from error


def flatten_call(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Tensor], str]:
    """The tensor leaves of a call and the template of `Signature.arguments`. Raises TypeError, see records.nest."""
    return flatten({"args": [*args], "kwargs": dict(kwargs)}, lambda value: isinstance(value, Tensor))


def _example(spec: TensorSpec) -> Tensor:
    dtype = getattr(torch, spec.dtype)
    shape = spec.example_shape
    integer = not dtype.is_floating_point and not dtype.is_complex and dtype is not torch.bool
    fill = int(spec.low or 0) if integer else 1
    if spec.stride is None:
        return torch.full(shape, fill, dtype=dtype)
    return torch.empty_strided(shape, spec.stride, dtype=dtype).fill_(fill)


def _defined(module: ModuleType, name: str, problem: Problem) -> Any:
    if not hasattr(module, name):
        raise ProblemError(f"{problem.origin or problem.name} defines no {name}")
    return cast(Any, getattr(module, name))


@contextmanager
def _importing(paths: Sequence[str]) -> Iterator[None]:
    fresh = [path for path in paths if path not in sys.path]
    sys.path[:0] = fresh
    try:
        yield
    finally:
        for path in fresh:
            sys.path.remove(path)
            sys.path.append(path)
