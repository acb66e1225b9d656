"""Call arguments to memory, by the convention of torch.mps.compile_shader: position i is buffer i.

A torch tensor or a NumPy array is bound where it lies, strides ignored; an int is an int64, a float a float32, a list
of either an array of them; a bool is an int as it is in Python. `arg_casts` names another type for the numbers.
Source: torch 2.14, torch/csrc/mps/Module.cpp and ATen/native/mps/OperationUtils.mm.
"""

import ctypes
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kernelwright.errors import LaunchError
from kernelwright.simt.library import Argument

_CASTS = {"fp16": "e", "int32": "i", "int16": "h", "int8": "b", "uint8": "B"}
_CAST_NAMES = (*_CASTS, "bf16")


@dataclass(frozen=True)
class Bound:
    """Arguments by buffer number; `host` is where their memory lies, `elements` the count of the first tensor's."""

    arguments: Mapping[int, Argument]
    host: Literal["cpu", "cuda"]
    elements: int | None
    kept: Sequence[Any]  # what must live until the launch is over


class Reported:
    """The buffer that a kernel reports errors to: c10::metal::ErrorMessages, a count and thirty messages."""

    _FILE, _TEXT, _LINE, _MESSAGE_BYTES, _MESSAGES = 0, 256, 508, 512, 30

    def __init__(self) -> None:
        self.held = bytearray(4 + self._MESSAGES * self._MESSAGE_BYTES)

    def check(self, name: str) -> None:
        """Raises LaunchError with the first message, if there is one."""
        if struct.unpack_from("<I", self.held)[0]:
            message = bytes(self.held[4 : 4 + self._MESSAGE_BYTES])
            file, text = (message[at:].split(b"\0", 1)[0].decode(errors="replace") for at in (self._FILE, self._TEXT))
            raise LaunchError(f"{name}, {file}:{struct.unpack_from('<I', message, self._LINE)[0]}: {text}")


def bind(name: str, values: Sequence[Any], casts: str | Mapping[int, str] | None) -> Bound:
    """Raises LaunchError for a value that no buffer can hold, and for tensors of two devices."""
    arguments: dict[int, Argument] = {}
    kept: list[Any] = []
    hosts: set[Literal["cpu", "cuda"]] = set()
    elements: int | None = None
    for index, value in enumerate(values):
        cast = casts if isinstance(casts, str) else (casts or {}).get(index)
        if cast is not None and cast not in _CAST_NAMES:
            raise LaunchError(f"{name}: arg_casts knows {', '.join(sorted(_CAST_NAMES))}, not {cast!r}")
        if value is None:
            continue
        if isinstance(value, bytearray):
            arguments[index] = (ctypes.addressof(ctypes.c_char.from_buffer(value)), len(value))
            hosts.add("cpu")
            continue
        tensor = _tensor(name, index, value)
        if tensor is not None:
            address, nbytes, count, host = tensor
            arguments[index] = (address, nbytes)
            hosts.add(host)
            elements = count if elements is None else elements
        elif _sequence(value) and any(_is_tensor(part) for part in value):
            addresses = [_tensor(name, index, part) for part in value]
            if any(each is None for each in addresses):
                raise LaunchError(f"{name}: argument {index} mixes tensors with other values")
            arguments[index] = b"".join(struct.pack("<Q", each[0]) for each in addresses if each)
            hosts |= {each[3] for each in addresses if each}
            kept.append(value)
        else:
            arguments[index] = _numbers(name, index, value, cast)
    if len(hosts) > 1:
        raise LaunchError(f"{name}: some tensors lie in the memory of the CPU and some in that of the GPU")
    return Bound(arguments, "cuda" if "cuda" in hosts else "cpu", elements, kept)


def _is_tensor(value: Any) -> bool:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    return bool((torch and isinstance(value, torch.Tensor)) or (numpy and isinstance(value, numpy.ndarray)))


def _tensor(name: str, index: int, value: Any) -> tuple[int, int, int, Literal["cpu", "cuda"]] | None:
    """Address, bytes from there to the end of its memory, elements, and where it lies; None for another value."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.device.type not in ("cpu", "cuda"):
            raise LaunchError(f"{name}: argument {index} lies on {value.device}; give a tensor on cpu or cuda")
        if value.dtype in (torch.float64, torch.complex128):
            raise LaunchError(f"{name}: argument {index} is {value.dtype}, which Metal does not have")
        offset = value.storage_offset() * value.element_size()
        host: Literal["cpu", "cuda"] = "cuda" if value.device.type == "cuda" else "cpu"
        return value.data_ptr(), value.untyped_storage().nbytes() - offset, value.numel(), host
    if numpy is not None and isinstance(value, numpy.ndarray):
        if value.dtype.kind not in "biufc" or value.dtype.name in ("float64", "complex128", "longdouble"):
            raise LaunchError(f"{name}: argument {index} is {value.dtype}, which Metal does not have")
        if not value.flags.c_contiguous:
            raise LaunchError(
                f"{name}: argument {index} is not contiguous; strides are ignored: numpy.ascontiguousarray"
            )
        return value.ctypes.data, value.nbytes, value.size, "cpu"
    return None


def _sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _numbers(name: str, index: int, value: Any, cast: str | None) -> bytes:
    parts = list(value) if _sequence(value) else [_scalar(value)]
    parts = [_scalar(part) for part in parts]
    if parts and all(isinstance(part, int) for part in parts):
        code = _CASTS.get(cast or "", "q")
    elif parts and all(isinstance(part, (int, float)) for part in parts):
        code = _CASTS.get(cast or "", "f")
    else:
        raise LaunchError(
            f"{name}: argument {index} is {value!r}; give a tensor, an array, a number or a list of numbers"
        )
    if cast == "bf16":
        return b"".join(_bfloat(float(part)) for part in parts)
    if code in "bBhiq":
        parts = [int(part) for part in parts]
    try:
        return struct.pack(f"<{len(parts)}{code}", *parts)
    except (struct.error, OverflowError):
        raise LaunchError(f"{name}: argument {index}, {value!r}, does not fit {cast or 'int64'}") from None


def _scalar(value: Any) -> Any:
    """A NumPy scalar as Python's own number."""
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def _bfloat(value: float) -> bytes:
    """Rounded to the nearest, ties to even."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    if value == value:
        bits += 0x7FFF + ((bits >> 16) & 1)
    return struct.pack("<H", bits >> 16 & 0xFFFF)
