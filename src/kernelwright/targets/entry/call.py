"""The slow way to a kernel: Python checks that explain, and ctypes. It is right everywhere; the entries are faster."""

import ctypes
import operator
import sys
from typing import Any

from kernelwright.errors import LaunchError
from kernelwright.targets.entry import table
from kernelwright.targets.entry.signature import KernelSignature, Parameter

_SCALARS = {
    "int64": ctypes.c_int64,
    "int32": ctypes.c_int32,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "bool": ctypes.c_bool,
}
_BITS = {"int64": 64, "int32": 32}
# What an array's dtype is called in torch and NumPy, by the type in the kernel's text.
_ARRAYS = {"half": ("float16",), "uint8": ("uint8", "bool")}


class SlowCall:
    """A kernel as a Python callable. The entries hand it every call that they are not sure of."""

    def __init__(self, signature: KernelSignature, address: int, kept: Any) -> None:
        types = [ctypes.c_void_p if p.pointer else _SCALARS[p.type] for p in signature.parameters]
        self.signature = signature
        self.kept = kept
        """What must live as long as the kernel can be called."""
        self.function = ctypes.CFUNCTYPE(None, *types)(address)  # releases the GIL while the kernel runs

    def __call__(self, *arguments: Any, threads: Any = None, group_size: Any = None) -> None:
        """Launches, or raises LaunchError. `threads` and `group_size` are for GPUs and mean nothing here."""
        if table.stale():
            table.table()
        parameters = self.signature.parameters
        if len(arguments) != len(parameters):
            raise LaunchError(f"{self.signature} takes {len(parameters)} arguments, got {len(arguments)}")
        values = [
            self._pointer(i, parameter, argument) if parameter.pointer else self._scalar(i, parameter, argument)
            for i, (parameter, argument) in enumerate(zip(parameters, arguments, strict=True))
        ]
        self.function(*values)

    def _refuse(self, index: int, parameter: Parameter, wanted: str, got: str) -> LaunchError:
        name = f"{self.signature.name}: argument {index + 1}, {parameter.name!r}"
        return LaunchError(f"{name}: expected {wanted}, got {got}")

    def _scalar(self, index: int, parameter: Parameter, value: Any) -> int | float | bool:
        def refuse(got: str) -> LaunchError:
            return self._refuse(index, parameter, _scalar_words(parameter.type), got)

        if _torch_tensor(value) or type(value).__name__ == "ndarray":
            raise refuse(f"a {type(value).__name__}; pass a number, as .item() gives")
        if parameter.type == "bool":
            if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
                return bool(value)
            raise refuse(f"{value!r}")
        try:
            if parameter.type in _BITS:
                whole, limit = operator.index(value), 1 << (_BITS[parameter.type] - 1)
                if not -limit <= whole < limit:
                    raise refuse(f"{whole}, which does not fit")
                return whole
            if isinstance(value, (str, bytes)):
                raise refuse(f"{value!r}")
            return float(value)
        except (TypeError, ValueError):
            raise refuse(f"{value!r:.60} ({type(value).__name__})") from None
        except OverflowError:
            raise refuse("a number that does not fit") from None

    def _pointer(self, index: int, parameter: Parameter, value: Any) -> int | None:
        wanted = f"a contiguous {parameter.type} {'array' if parameter.const else 'array to write to'} on the CPU"

        def refuse(got: str) -> LaunchError:
            return self._refuse(index, parameter, wanted, got)

        numpy = sys.modules.get("numpy")
        names = _ARRAYS.get(parameter.type, (parameter.type,))
        if _torch_tensor(value):
            reason = tensor_fault(value, names)
            if reason:
                raise refuse(reason)
            return value.data_ptr() or None
        if numpy is not None and isinstance(value, numpy.ndarray):
            reason = _array_fault(value, names, write=not parameter.const)
            if reason:
                raise refuse(reason)
            return value.ctypes.data
        raise refuse("None" if value is None else f"a {type(value).__name__}")


def _scalar_words(kind: str) -> str:
    return {"bool": "a bool", "int64": "an int of 64 bits", "int32": "an int of 32 bits"}.get(kind, "a number")


def _torch_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def tensor_fault(tensor: Any, dtypes: tuple[str, ...], *, strided: bool = False) -> str:
    """What keeps a tensor from being handed to a kernel by its address; empty if nothing does.

    `strided`: whether one that is not contiguous will do.
    """
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return f"a {type(tensor).__name__}, whose data a kernel cannot see"
    from torch._C._functorch import is_functorch_wrapped_tensor

    if is_functorch_wrapped_tensor(tensor) or torch._is_functional_tensor(tensor):
        return "a tensor inside torch.func, which a kernel cannot see through"
    if torch._C._len_torch_dispatch_stack():
        return "a tensor under a TorchDispatchMode (tracing or fake tensors), which a kernel call would escape"
    if tensor.device.type != "cpu":
        return f"a tensor on {tensor.device}"
    if tensor.layout is not torch.strided:
        return f"a tensor of layout {tensor.layout}"
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in dtypes:
        return f"a {dtype} tensor"
    if tensor.is_neg() or tensor.is_conj():
        return "a tensor with a pending negation; call .resolve_neg()"
    if not strided and not tensor.is_contiguous():
        return f"a tensor of shape {tuple(tensor.shape)} with strides {tensor.stride()}; call .contiguous()"
    if tensor.requires_grad and torch.is_grad_enabled():
        return "a tensor that requires grad; kernels have no backward: call under torch.no_grad()"
    if tensor.numel() and not tensor.data_ptr():
        return "a tensor whose storage was freed"
    return ""


def _array_fault(array: Any, dtypes: tuple[str, ...], *, write: bool) -> str:
    if array.dtype.name not in dtypes or not array.dtype.isnative:
        return f"a {array.dtype} array"
    if not (array.flags.c_contiguous and array.flags.aligned):
        return f"an array of shape {array.shape} with strides {array.strides}; use numpy.ascontiguousarray"
    if write and not array.flags.writeable:
        return "a read-only array"
    return ""
