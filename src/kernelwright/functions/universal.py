"""`vectorize` and `guvectorize`: a function of numbers or small arrays, over whole arrays with broadcasting."""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernelwright import loops
from kernelwright.errors import UsageError
from kernelwright.functions.batches import batch_entry, batch_text
from kernelwright.functions.chain import array_words
from kernelwright.functions.constants import is_constant
from kernelwright.functions.device_batches import DeviceBatch
from kernelwright.functions.devices import HOSTED, Device, device_of, error_words, hosted, on_device, say_once
from kernelwright.functions.failures import failing
from kernelwright.functions.locks import compiling
from kernelwright.functions.options import Options
from kernelwright.functions.overload import Call
from kernelwright.functions.signatures import Signature, Types
from kernelwright.loops import ArrayType, ScalarType
from kernelwright.targets import compile
from kernelwright.targets.entry import table
from kernelwright.targets.entry.program import written

Layout = tuple[tuple[str, ...], ...]


def read_layout(text: str) -> tuple[Layout, Layout]:
    """The core axes of the inputs and of the outputs in "(n),(n),(l,q)->(k)"."""
    side = r"\s*\(([\w\s,]*)\)\s*"
    if not re.fullmatch(f"{side}(,{side})*->{side}(,{side})*", text):
        raise UsageError(f'{text!r} is no layout; write one as "(n),(n),(l,q)->(k)"')
    sides = [re.findall(r"\(([\w\s,]*)\)", part) for part in text.split("->")]
    read = [tuple(tuple(name.strip() for name in axes.split(",") if name.strip()) for axes in part) for part in sides]
    return read[0], read[1]


class Universal:
    """What the two decorators return. Axes beyond the core ones are broadcast, as NumPy's ufuncs do it."""

    def __init__(
        self,
        python: Callable[..., Any],
        options: Options,
        signatures: Sequence[Signature],
        layout: tuple[Layout, Layout] | None,
    ) -> None:
        functools.update_wrapper(self, python)
        self.py_func, self.options, self.signatures = python, options, tuple(signatures)
        self._name = python.__name__
        count = python.__code__.co_argcount
        self._returns = layout is None
        """Whether the function gives its result back, as vectorize wants, or writes it."""
        self.inputs, self.outputs = layout or (((),) * count, ((),))
        self._batches: dict[tuple[str, Types], _Batch | DeviceBatch] = {}
        self._said: set[str] = set()
        self._compared: set[Types] = set()
        """For which the error of a precision was said."""
        expected = len(self.inputs) + (0 if self._returns else len(self.outputs))
        for size, what in ((count, "the function"), *((len(s.arguments), f"signature {s}") for s in self.signatures)):
            if size != expected:
                raise UsageError(f"{self._name}: the layout has {expected} arguments and {what} has {size}")

    def __reduce__(self) -> str:
        return self.__dict__["__qualname__"]

    def __getattr__(self, name: str) -> Any:
        if name in ("reduce", "reduceat", "accumulate", "outer", "at"):
            raise AttributeError(f"{name} of a ufunc is not supported; write the loop with njit")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __call__(self, *arguments: Any, out: Any = None) -> Any:
        """The results for `arguments`, in `out` (or further arguments) where given, else in new arrays."""
        if table.stale():
            table.table()
        given = [*arguments, *(out if isinstance(out, tuple) else () if out is None else (out,))]
        count = len(self.inputs)
        if len(given) not in (count, count + len(self.outputs)):
            raise TypeError(f"{self._name} takes {count} inputs, then its outputs; got {len(given)} arguments")
        inputs = [self._array(value, index) for index, value in enumerate(given[:count])]
        outputs = [self._array(value, count + index) for index, value in enumerate(given[count:])]
        sizes = self._sizes([*inputs, *outputs])
        rest = [x.shape[: x.ndim - len(axes)] for x, axes in zip(inputs, self.inputs, strict=True)]
        shape = np.broadcast_shapes(
            *rest, *(x.shape[: x.ndim - len(a)] for x, a in zip(outputs, self.outputs, strict=False))
        )
        types = self._types(inputs, outputs)
        batch = self._batch(types, self._device([*inputs, *outputs]))
        results = self._results(inputs, outputs, batch, shape, sizes)
        self._run(batch, types, inputs, results, shape)
        for target, result in zip(outputs, results, strict=False):
            if target is not result:
                target[...] = result
        answers = given[count:] or [result[()] if result.ndim == 0 else result for result in results]
        return tuple(answers) if len(answers) > 1 else answers[0]

    def _run(
        self,
        batch: "_Batch | DeviceBatch",
        types: Types,
        inputs: Sequence[Any],
        results: Sequence[Any],
        shape: tuple[int, ...],
    ) -> None:
        """Says, the first time, how far pairs are from float64 on the CPU."""
        compares = isinstance(batch, DeviceBatch) and batch.device.pairs and _has_float64(types)
        if not compares or types in self._compared:
            batch.run(inputs, results, shape)
            return
        given, wanted = ([np.array(Device.host(x), order="C") for x in values] for values in (inputs, results))
        batch.run(inputs, results, shape)
        self._compared.add(types)
        self._batch(types, "cpu").run(given, wanted, shape)
        named = [(f"output {i + 1}", x, y) for i, (x, y) in enumerate(zip(results, wanted, strict=True))]
        say_once(self._said, error_words(self._name, self.options.precision, named))

    def _device(self, values: Sequence[Any]) -> str:
        """Where these arrays are to be worked on."""
        return device_of(self.options, values) or "cpu"

    def _array(self, value: Any, index: int) -> Any:
        """A NumPy array, or a tensor of a device's own memory as it is."""
        if type(value).__module__.startswith("torch") and hasattr(value, "detach"):
            value = value.detach()
        kept = is_constant(value) or (self._device([value]) != "cpu" and on_device(value))
        array = value if kept else np.asarray(value)
        core = (*self.inputs, *self.outputs)[index]
        if array.ndim < len(core):
            axes = f"({','.join(core)})"
            raise TypeError(f"{self._name}, argument {index + 1}: {array.ndim} axes, and its core has {axes}")
        return array

    def _sizes(self, arrays: Sequence[np.ndarray]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for index, (array, core) in enumerate(zip(arrays, (*self.inputs, *self.outputs), strict=False)):
            for name, size in zip(core, array.shape[array.ndim - len(core) :], strict=True):
                if sizes.setdefault(name, size) != size:
                    place = f"{self._name}, argument {index + 1}"
                    raise TypeError(f"{place}: axis {name} has {size} elements here and {sizes[name]} before")
        return sizes

    def _types(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Types:
        """The declared types that the inputs fit best; those of the inputs where nothing was declared."""
        kinds = [_dtype(array) for array in inputs]
        if not self.signatures:
            if not self._returns:
                raise UsageError(f'{self._name}: guvectorize needs signatures, as "void(float64[:], float64[:])"')
            return tuple(_scalar_type(kind, self._name) for kind in kinds)
        for exact in (True, False):
            for signature in self.signatures:
                wanted = [np.dtype(_scalar(kind).value) for kind in signature.arguments]
                fit = all(
                    (here == there) if exact else np.can_cast(here, there, "safe") or _weak(array, there)
                    for here, there, array in zip(kinds, wanted, inputs, strict=False)
                )
                if fit and all(_dtype(x) == d for x, d in zip(outputs, wanted[len(inputs) :], strict=False)):
                    return self._laid_out(signature.arguments)
        declared = " or ".join(map(str, self.signatures))
        raise TypeError(f"{self._name} was declared for {declared}, not for {', '.join(map(str, kinds))}")

    def _laid_out(self, types: Types) -> Types:
        return tuple(ArrayType(kind.dtype, kind.ndim, False) if isinstance(kind, ArrayType) else kind for kind in types)

    def _batch(self, types: Types, device: str) -> "_Batch | DeviceBatch":
        key = device, types
        if key not in self._batches:
            with compiling():
                if key not in self._batches:
                    self._batches[key] = self._made(types, device)
        return self._batches[key]

    def _made(self, types: Types, device: str) -> "_Batch | DeviceBatch":
        if device == "cpu":
            return _Batch(self, types)
        pairs = device == "metal" and self.options.precision == "double-float"
        if device == "metal" and not pairs and _has_float64(types):
            say_once(
                self._said,
                f"{self._name}: Metal has no float64, so it runs on the CPU; declare it for float32, or "
                "precision='double-float' would compute in pairs of float32",
            )
            return _Batch(self, types)
        if hosted(device):
            say_once(self._said, HOSTED.format(self._name))
        results = [np.dtype(_scalar(kind).value) for kind in types[len(self.inputs) :]]
        laid = tuple(replace(kind, contiguous=True) if isinstance(kind, ArrayType) else kind for kind in types)
        return DeviceBatch(self.py_func, laid, results, Device(device, pairs=pairs), self.options.boundscheck)

    def _results(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[np.ndarray],
        batch: "_Batch | DeviceBatch",
        shape: tuple[int, ...],
        sizes: dict[str, int],
    ) -> list[np.ndarray]:
        made: list[Any] = []
        kept = isinstance(batch, DeviceBatch) and not batch.device.pairs and any(map(batch.device.holds, inputs))
        for index, core in enumerate(self.outputs):
            if unknown := [name for name in core if name not in sizes]:
                raise TypeError(f"{self._name}: the size of axis {unknown[0]} is known from no input; pass the output")
            wanted = (*shape, *(sizes[name] for name in core))
            target = outputs[index] if outputs else None
            # The function adds to its output: it starts with what the caller put there.
            if target is not None and on_device(target) and tuple(target.shape) == wanted:
                made.append(target)
            elif target is not None and on_device(target):
                raise TypeError(f"{self._name}: output {index + 1} has shape {tuple(target.shape)}; {wanted} is needed")
            elif target is not None and target.shape == wanted and target.flags.c_contiguous and target.flags.writeable:
                made.append(target)
            elif target is not None:
                if target.shape != wanted or not target.flags.writeable:
                    reason = f"has shape {target.shape}" if target.shape != wanted else "is read-only"
                    raise TypeError(f"{self._name}: output {index + 1} {reason}; {wanted} is needed")
                made.append(np.ascontiguousarray(target))
            elif isinstance(batch, DeviceBatch) and kept:
                made.append(batch.device.zeros(wanted, batch.results[index].name))
            else:
                made.append(np.zeros(wanted, batch.results[index]))
        return made


def _scalar(kind: ArrayType | ScalarType) -> ScalarType:
    return kind.dtype if isinstance(kind, ArrayType) else kind


def _has_float64(types: Types) -> bool:
    return any(_scalar(kind) is ScalarType.FLOAT64 for kind in types)


def _scalar_type(dtype: Any, name: str) -> ScalarType:
    try:
        return ScalarType(dtype.name)
    except ValueError:
        raise TypeError(f"{name}: dtype {dtype} is not supported") from None


def _dtype(array: Any) -> np.dtype[Any]:
    """Also of a tensor."""
    return array.dtype if isinstance(array, np.ndarray) else np.dtype(str(array.dtype).removeprefix("torch."))


def _weak(array: np.ndarray, wanted: np.dtype[Any]) -> bool:
    """Whether it is a single number, whose kind alone decides."""
    return array.ndim == 0 and np.can_cast(array.dtype, wanted, "same_kind")


def _readable(array: np.ndarray, results: Sequence[np.ndarray]) -> np.ndarray:
    """An input that can be read while results are written: a copy where they may lie in each other, or where its
    elements stand at no multiples of their size."""
    odd = not array.flags.aligned or any(stride % array.itemsize for stride in array.strides)
    return array.copy() if odd or any(np.may_share_memory(array, result) for result in results) else array


class _Batch:
    """The function compiled for one tuple of types, over a batch."""

    def __init__(self, owner: Universal, types: Types) -> None:
        self.program = loops.parse(owner.py_func, types)
        self.types = types
        for argument in self.program.arguments[: len(owner.inputs)]:
            if argument.written:
                raise UsageError(f"{owner._name} writes to its input {argument.name!r}; outputs come after -> alone")
        results = [_scalar(kind) for kind in types[len(owner.inputs) :]]
        if owner._returns:
            if len(self.program.result) != 1:
                raise UsageError(f"{owner._name}: a function for vectorize returns one number")
            results = list(self.program.result)
        self.results = [np.dtype(kind.value) for kind in results]
        self._inputs, self._cores = len(owner.inputs), [len(core) for core in (*owner.inputs, *owner.outputs)]
        text = loops.print_program_cpp(self.program, boundscheck=owner.options.boundscheck, parallel=False)
        text += batch_text(self.program, parallel=owner.options.parallel)
        entry = batch_entry(self.program)
        self._loaded = compile(text, language="program", entries=written(entry))[entry.symbol]
        self._fail = failing(self.program)

    def run(self, inputs: Sequence[np.ndarray], results: Sequence[np.ndarray], shape: tuple[int, ...]) -> None:
        kinds = [np.dtype(_scalar(kind).value) for kind in self.types[: self._inputs]]
        arrays = [_readable(array.astype(kind, copy=False), results) for array, kind in zip(inputs, kinds, strict=True)]
        flat: list[np.ndarray] = []
        for array, core in zip((*arrays, *results), self._cores, strict=True):
            inner = array.shape[array.ndim - core :]
            flat.append(np.broadcast_to(array, (*shape, *inner)).reshape(-1, *inner) if shape else array[None])
        declared = [*self.types, *self.program.result]
        padded = [  # a core of no axes that was declared as an array is one of a single element
            array.reshape(-1, 1) if isinstance(kind, ArrayType) and array.ndim == kind.ndim else array
            for array, kind in zip(flat, declared, strict=True)
        ]
        count = padded[0].shape[0] if padded else 1
        call = Call(self._loaded, self.program, [*map(array_words, (*padded, np.empty(count, bool)))], [])
        if call():
            call.fail(self._fail)
