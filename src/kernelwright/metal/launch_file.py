"""Launch files: what to run a kernel on, as JSON or Python beside the .metal file.

    {"kernel": "softmax_float", "threads": [1024], "group_size": [256], "constants": {"0": true},
     "arguments": [{"name": "x", "dtype": "float32", "shape": [4, 1000], "fill": "normal"},
                   {"name": "out", "dtype": "float32", "shape": [4, 1000], "expect": "softmax.npy"},
                   {"name": "columns", "dtype": "int32", "value": 1000}],
     "group_memory": {"0": 1024}}

A list of such objects is several launches. A Python file defines `launches()`, which returns Launch objects: write one
where inputs have to be computed.
"""

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kernelwright.errors import UsageError

__all__ = ["Argument", "Launch", "read_launches"]

_FILLS = ("zeros", "ones", "arange", "uniform", "normal", "nan")
_LAUNCH_KEYS = {"kernel", "threads", "groups", "group_size", "arguments", "group_memory", "constants"}
_ARGUMENT_KEYS = {"name", "dtype", "shape", "fill", "value", "file", "seed", "expect", "tolerance"}


@dataclass(frozen=True)
class Argument:
    """What is bound to one buffer: an array or tensor of any shape (which the kernel may write), or a NumPy scalar.

    `expected`, of the same shape, is compared after a run: |got - expected| <= tolerance * (1 + |expected|).
    """

    value: Any
    name: str = ""
    expected: Any = None
    tolerance: float = 1e-5


@dataclass(frozen=True)
class Launch:
    """One call of a kernel. `threads` counts the threads of the whole grid, one to three numbers, as `group_size` does.

    Argument i is bound to buffer i; None leaves it free. `group_memory` gives bytes by index, `constants` the values of
    function constants by index or name.
    """

    kernel: str
    arguments: tuple[Argument | None, ...]
    threads: tuple[int, ...]
    group_size: tuple[int, ...]
    group_memory: Mapping[int, int] = field(default_factory=dict)
    constants: Mapping[int | str, Any] = field(default_factory=dict)

    @property
    def values(self) -> list[Any]:
        """What is bound, in the order of the buffers."""
        return [argument.value if argument else None for argument in self.arguments]


def read_launches(path: Path) -> tuple[Launch, ...]:
    """The launches in a .json or .py file; files it names lie beside it. Raises UsageError."""
    if not path.is_file():
        raise UsageError(f"there is no launch file {path}")
    if path.suffix == ".py":
        return _from_python(path)
    if path.suffix != ".json":
        raise UsageError(f"a launch file is .json or .py, not {path.name}")
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    items = written if isinstance(written, list) else [written]
    return tuple(launch_of(item, path.parent, f"{path}, launch {number}") for number, item in enumerate(items))


def launch_of(written: Any, folder: Path, place: str) -> Launch:
    """The launch that a JSON object describes. `place` names it in messages. Raises UsageError."""
    try:
        return _launch(written, folder, place)
    except (TypeError, ValueError, AttributeError, OverflowError, MemoryError) as error:  # a value of another type
        raise UsageError(f"{place} cannot be read: {error}") from None


def _launch(written: Any, folder: Path, place: str) -> Launch:
    _only(written, _LAUNCH_KEYS, place)
    group_size = _sides(written.get("group_size", [1]), f"{place}: group_size")
    if ("threads" in written) == ("groups" in written):
        raise UsageError(f"{place} needs either threads (of the whole grid) or groups")
    if "threads" in written:
        threads = _sides(written["threads"], f"{place}: threads")
    else:
        groups = _sides(written["groups"], f"{place}: groups")
        sides = max(len(groups), len(group_size))
        threads = tuple(a * b for a, b in zip(_padded(groups, sides), _padded(group_size, sides), strict=True))
    if not isinstance(written.get("kernel"), str):
        raise UsageError(f"{place} names no kernel")
    arguments = written.get("arguments", [])
    return Launch(
        written["kernel"],
        tuple(
            None if item is None else _argument(item, folder, f"{place}, argument {number}")
            for number, item in enumerate(arguments)
        ),
        threads,
        group_size,
        {int(index): int(size) for index, size in written.get("group_memory", {}).items()},
        {int(key) if key.isdigit() else key: value for key, value in written.get("constants", {}).items()},
    )


def _argument(written: Any, folder: Path, place: str) -> Argument:
    _only(written, _ARGUMENT_KEYS, place)
    name, dtype = written.get("name", ""), written.get("dtype", "float32")
    if sum(key in written for key in ("value", "file", "shape")) != 1:
        raise UsageError(f"{place} needs one of value, file and shape")
    expected = _load(folder / written["expect"], place) if "expect" in written else None
    if "file" in written:
        value = _load(folder / written["file"], place)
    elif "value" in written:
        value = _typed(np.asarray(written["value"]), dtype, place)
    else:
        fill, seed = written.get("fill", "zeros"), written.get("seed", 0)
        value = _typed(_filled(tuple(written["shape"]), fill, seed, place), dtype, place)
    return Argument(value, name, expected, float(written.get("tolerance", 1e-5)))


def _filled(shape: tuple[int, ...], fill: Any, seed: int, place: str) -> np.ndarray:
    draw = np.random.default_rng(seed)
    match fill:
        case int() | float():
            return np.full(shape, fill)
        case "zeros" | "ones" | "nan":
            return np.full(shape, {"zeros": 0.0, "ones": 1.0, "nan": np.nan}[fill])
        case "arange":
            return np.arange(np.prod(shape)).reshape(shape)
        case "uniform":
            return draw.random(shape)
        case "normal":
            return draw.standard_normal(shape)
    raise UsageError(f"{place}: fill is a number or one of {', '.join(_FILLS)}, not {fill!r}")


def _typed(values: np.ndarray, dtype: str, place: str) -> Any:
    """`values` in the dtype of that name; bfloat16, which NumPy lacks, as a torch tensor."""
    if dtype == "bfloat16":
        import torch

        return torch.from_numpy(values.astype(np.float32)).to(torch.bfloat16)
    try:
        return values.astype(np.dtype(dtype))
    except TypeError:
        raise UsageError(f"{place}: there is no dtype {dtype!r}") from None


def _load(path: Path, place: str) -> np.ndarray:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"{place}: cannot read {path}: {error}") from None


def _sides(written: Any, place: str) -> tuple[int, ...]:
    sides = [written] if isinstance(written, int) else written
    if not isinstance(sides, Sequence) or not 1 <= len(sides) <= 3 or not all(type(n) is int and n > 0 for n in sides):
        raise UsageError(f"{place} is one to three positive numbers, not {written!r}")
    return tuple(sides)


def _padded(sides: tuple[int, ...], count: int) -> tuple[int, ...]:
    return (*sides, *[1] * (count - len(sides)))


def _only(written: Any, known: set[str], place: str) -> None:
    if not isinstance(written, dict):
        raise UsageError(f"{place} is no JSON object")
    if unknown := sorted(set(written) - known):
        raise UsageError(f"{place} has {unknown[0]!r}; known are {', '.join(sorted(known))}")


def _from_python(path: Path) -> tuple[Launch, ...]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        launches = tuple(module.launches())
    except AttributeError:
        raise UsageError(f"{path} defines no function launches()") from None
    except Exception as error:
        raise UsageError(f"{path} failed: {type(error).__name__}: {error}") from error
    if wrong := next((item for item in launches if not isinstance(item, Launch)), None):
        raise UsageError(f"{path}: launches() returned a {type(wrong).__name__} among its Launch objects")
    return launches
