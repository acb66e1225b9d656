"""What a reference computes in exact arithmetic, as near as float64 comes to it.

`oracle` runs a module in float64 throughout: parameters, buffers and tensor attributes are doubled in a copy, and a
dispatch mode lifts what is left (casts to lower precision, literals, factories, autocast). `.double()` alone fails on
hard casts, sometimes without a word; the mode equals a by-hand float64 rewrite bit for bit on all of thirteen modules
tried. A user's own tensors are never written: in-place operations reach the shadows.

With `wobble` every fresh floating result is multiplied by 1 + wobble * g, g drawn anew for each element, and so are
the inputs: Monte Carlo arithmetic (Parker 1997). The distance to the unmoved run says how far roundings of that size
carry any evaluation of these operations, which is what the error budget needs to know of cancellation.
"""

import copy
import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from kernelwright.records import flatten

_REAL = (torch.float16, torch.bfloat16, torch.float32)
_COMPLEX = (torch.complex32, torch.complex64)
# Operators that make tensors from nothing and take the default dtype where none is named.
_FACTORIES = {"zeros", "ones", "empty", "rand", "randn", "eye", "linspace", "logspace", "empty_strided"}
# Of these the dtype follows the fill value.
_FILLED = {"full": -1, "arange": 0, "scalar_tensor": 0}
# Operators that choose indices by comparing, with the place of `dim` among their arguments.
_CHOOSERS = {"argmax": 1, "argmin": 1, "max": 1, "min": 1, "topk": 2, "sort": 1, "kthvalue": 2, "median": 1}
_MATMULS = {"mm", "addmm", "bmm", "baddbmm", "mv", "dot", "addmv"}
# Whole layers behind one name: the widest operand stands for the sum inside.
_FUSED = ("_native_multi_head_attention", "_transformer_encoder_layer_fwd", "lstm", "gru", "rnn_", "quantized_")
_REDUCTIONS = {
    "sum", "mean", "prod", "var", "var_mean", "std", "std_mean", "logsumexp", "_softmax", "_log_softmax", "cumsum",
    "cumprod", "logcumsumexp", "linalg_vector_norm", "norm", "native_layer_norm", "native_group_norm",
    "native_batch_norm", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
}  # fmt: skip


class Bitcast(Exception):
    """The reference reads the bits of a float, which has no meaning in another precision."""


@dataclass(frozen=True)
class Selection:
    """An output of indices that an operator chose by comparing: whoever returns other indices of equal values is
    right too."""

    values: torch.Tensor
    """What was compared, float64."""
    dim: int
    """The dimension the indices count in."""
    kept: bool
    """Whether the output still has that dimension."""


@dataclass(frozen=True)
class Truth:
    """One call in float64. `outputs` are the leaves of the result in order."""

    outputs: tuple[torch.Tensor, ...]
    template: str
    """Nest of the result, see records.nest."""
    reduction_length: int
    """The longest sum that went into any one number."""
    note: str = ""
    """Empty for float64 throughout; else what was done instead, and why."""
    selections: tuple[Selection | None, ...] = ()
    """One for each output where the oracle ran lifted."""


def oracle(
    module: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, *, wobble: float = 0.0
) -> Truth:
    """The result of `module(*args, **kwargs)` in float64; see the top of this file for `wobble`.

    Falls back to the tensors' own shadows, to `.double()` and last to the module as it is; `note` then says so.
    An exception of the last try is the module's own and is raised.
    """
    return ask(module, doubled(module), args, dict(kwargs or {}), wobble)


def ask(module: Any, wide: Any, args: Sequence[Any], kwargs: Mapping[str, Any], wobble: float) -> Truth:
    """`oracle` for who keeps the doubled copy `wide` (None: there is none) beside its module."""
    problems: list[str] = []
    if wide is not None:
        for run, how in ((_lifted, ""), (_plain, "by .double() alone")):
            try:
                return _with_note(run(wide, args, kwargs, wobble), how, problems)
            except Bitcast as error:
                problems.append(str(error))
                break
            # Foreign code fails in its own ways; every way to try is followed by a weaker one.
            except Exception as error:
                problems.append(f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}")
    args, kwargs = tree_map(_cloned, (tuple(args), dict(kwargs)))
    with torch.no_grad():
        return _with_note(_packed(module(*args, **kwargs)), "in the reference's own precision", problems)


def doubled(module: Callable[..., Any]) -> Any:
    """A copy of `module` with every floating tensor it holds in float64; a plain function is returned as it is;
    None where it cannot be copied."""
    if not isinstance(module, torch.nn.Module):
        return module
    try:
        copied = copy.deepcopy(module)
    # A user's module may refuse to be copied in any way it likes.
    except Exception:
        return None
    copied._apply(_wide)
    for part in copied.modules():
        for name, value in list(part.__dict__.items()):
            if name.startswith("_") and name in torch.nn.Module().__dict__:
                continue
            if isinstance(value, torch.Tensor):
                part.__dict__[name] = _wide(value)
            elif isinstance(value, (list, tuple, dict)):
                part.__dict__[name] = tree_map(_wide, value)
    return copied


def leaves_of(result: Any) -> tuple[list[torch.Tensor], str]:
    """The tensors of a module's result and the template of its nest. Raises TypeError for what cannot cross."""
    return flatten(result, lambda item: isinstance(item, torch.Tensor))


class _Lift(TorchDispatchMode):
    """Every operation in float64. One shadow for each foreign storage, so that ties, views and in-place writes hold."""

    def __init__(self, wobble: float) -> None:
        super().__init__()
        self.wobble = wobble
        self.longest = 1
        self._shadows: Any = WeakTensorKeyDictionary()
        self._storages: dict[tuple[int, torch.dtype], torch.Tensor] = {}
        self._selections: dict[int, tuple[torch.Tensor, Selection]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.split("::")[-1]
        if name == "view" and any(isinstance(item, torch.dtype) for item in args):
            raise Bitcast(f"{func} reads the bits of a float")
        args = tree_map(self._up, args)
        kwargs = {key: tree_map(self._up, value) for key, value in (kwargs or {}).items()}
        if kwargs.get("dtype") is None and _floating_factory(name, args, kwargs):
            kwargs["dtype"] = torch.float64
        result = func(*args, **kwargs)
        self.longest = max(self.longest, _reduction(name, args, result))
        if name in _CHOOSERS and args[0].is_floating_point():
            self._remember(name, args, kwargs, result)
        if self.wobble and all(item.alias_info is None for item in func._schema.returns):
            result = tree_map(self._move, result)
        return result

    def selection(self, output: torch.Tensor) -> Selection | None:
        """How `output` was chosen, if a choosing operator made it."""
        found = self._selections.get(id(output))
        return None if found is None else found[1]

    def _remember(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        indices = result[-1] if isinstance(result, (tuple, list)) else result
        if not isinstance(indices, torch.Tensor) or indices.dtype is not torch.int64:
            return
        values, place = args[0], _CHOOSERS[name]
        dim = kwargs.get("dim", next((item for item in args[place : place + 1] if not isinstance(item, bool)), None))
        if dim is None and name in ("argmax", "argmin"):
            values, dim = values.reshape(-1), 0
        dim = -1 if dim is None else dim
        # The tensor is kept beside its id, so that no other can take the id over.
        self._selections[id(indices)] = (indices, Selection(values, dim, indices.dim() == values.dim()))

    def _move(self, item: Any) -> Any:
        if isinstance(item, torch.Tensor) and item.is_floating_point() and item.numel():
            shake(item, self.wobble)
        return item

    def _up(self, item: Any) -> Any:
        if isinstance(item, torch.dtype):
            return _wide_dtype(item)
        if not isinstance(item, torch.Tensor) or _wide_dtype(item.dtype) is item.dtype:
            return item
        shadow = self._shadows.get(item)
        if shadow is None:
            storage = item.untyped_storage()
            key = (storage._cdata, item.dtype)
            base = self._storages.get(key)
            if base is None:
                count = storage.nbytes() // item.element_size()
                flat = torch.as_strided(item.detach(), (count,), (1,), 0)
                base = self._storages[key] = flat.to(_wide_dtype(item.dtype))
            shadow = base.as_strided(item.shape, item.stride(), item.storage_offset())
            self._shadows[item] = shadow
        return shadow


_TILE = 1 << 18
_local = threading.local()


def shake(tensor: torch.Tensor, size: float) -> None:
    """Multiplies float64 `tensor` in place by 1 + `size` * g. The normal numbers g come from a tile drawn once for each
    thread, entered at a random place: drawing them anew would cost more than the oracle itself."""
    tile = _tile()
    _local.start = (_local.start * 48271 + 11) % _TILE
    # An odd period, so that rows of a power of two never see the same numbers twice in one place.
    period = max(1, min(tensor.numel(), _TILE - 1))
    factors = tile[_local.start : _local.start + period].mul(size).add_(1.0).to(tensor.device)
    flat = tensor.view(-1) if tensor.is_contiguous() else tensor.reshape(-1)
    whole = flat.numel() - flat.numel() % period
    flat[:whole].view(-1, period).mul_(factors)
    flat[whole:].mul_(factors[: flat.numel() - whole])
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))


def _tile() -> torch.Tensor:
    if not hasattr(_local, "tile"):
        generator = torch.Generator().manual_seed(0x5EED)
        _local.tile = torch.randn(2 * _TILE + 1, dtype=torch.float64, generator=generator)
        _local.start = 0
    return _local.tile


def restart_noise(seed: int) -> None:
    """The next numbers of `shake` on this thread follow from `seed` alone."""
    _tile()
    _local.start = seed * 48271 % _TILE


def _lifted(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], wobble: float) -> Truth:
    args, kwargs = tree_map(partial(_copied, wobble=wobble), (tuple(args), dict(kwargs)))
    mode = _Lift(wobble)
    with torch.no_grad(), mode:
        result = module(*args, **kwargs)
    leaves, template = leaves_of(result)
    with mode:
        # A result the module merely hands on (a buffer, a literal) was never lifted by an operation.
        outputs = tuple(mode._up(leaf.detach()) for leaf in leaves)
    return Truth(outputs, template, mode.longest, "", tuple(mode.selection(leaf) for leaf in leaves))


def _copied(item: Any, wobble: float = 0.0) -> Any:
    """A wide copy, moved by so much: inputs are the caller's, and the user's code may write to them."""
    if not isinstance(item, torch.Tensor):
        return item
    wide = _wide_dtype(item.dtype)
    if not wobble or wide is not torch.float64:
        return item.to(wide, copy=True)
    made = item.to(wide, copy=True, memory_format=torch.contiguous_format)
    if made.numel():
        shake(made, wobble)
    return made


def _cloned(item: Any) -> Any:
    return item.clone() if isinstance(item, torch.Tensor) else item


def _plain(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], wobble: float) -> Truth:
    args, kwargs = tree_map(_copied, (tuple(args), dict(kwargs)))
    with torch.no_grad():
        return _packed(module(*args, **kwargs))


def _packed(result: Any) -> Truth:
    leaves, template = leaves_of(result)
    return Truth(tuple(_wide(leaf.detach()) for leaf in leaves), template, 1)


def _with_note(truth: Truth, how: str, problems: Sequence[str]) -> Truth:
    note = f"the oracle ran {how} ({problems[0]})" if how and problems else ""
    return dataclasses.replace(truth, note=note)


def _wide_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype in _REAL else torch.complex128 if dtype in _COMPLEX else dtype


def _wide(item: Any) -> Any:
    return item.to(_wide_dtype(item.dtype)) if isinstance(item, torch.Tensor) else item


def _floating_factory(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    if name in _FACTORIES:
        return True
    if name == "arange":
        return any(isinstance(item, float) for item in args)
    if name in _FILLED:
        value = args[_FILLED[name]] if args else kwargs.get("fill_value")
        return isinstance(value, float)
    return False


def _reduction(name: str, args: Sequence[Any], result: Any) -> int:
    """How many numbers were added for one number of `result`, as far as the operator's shapes tell."""
    tensors = [item for item in args if isinstance(item, torch.Tensor)]
    if not tensors or not tensors[0].is_floating_point():
        return 1
    if name in _MATMULS:
        return int(tensors[-1].shape[-2] if tensors[-1].dim() > 1 else tensors[-1].numel())
    if name == "convolution_backward":
        # A weight's gradient is summed over a channel of what arrives, an input's over an input channel of the weight.
        return max(tensors[0].numel() // max(tensors[0].shape[1], 1), tensors[2].numel() // max(tensors[2].shape[1], 1))
    if "convolution" in name and len(tensors) > 1:
        # A transposed convolution adds over as many at most.
        return int(tensors[1][0].numel()) if tensors[1].numel() else 1
    if "scaled_dot_product" in name and len(tensors) > 2:
        return int(max(tensors[1].shape[-2], tensors[0].shape[-1]))
    if name.startswith(_FUSED):
        return max(int(tensor.shape[-1]) for tensor in tensors if tensor.dim())
    if name in _REDUCTIONS:
        if "softmax" in name or "cum" in name:
            return int(tensors[0].shape[args[1]]) if tensors[0].dim() and isinstance(args[1], int) else 1
        made = result[-1] if isinstance(result, tuple) else result
        if isinstance(made, torch.Tensor) and made.numel():
            return max(1, tensors[0].numel() // made.numel())
    return 1
