"""The constructor of a module that stands alone: containers, parameters and buffers under given dotted names."""

import base64
import math
import zlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from kernelwright.errors import CaptureError
from kernelwright.graph.captured import State
from kernelwright.graph.node import is_contiguous
from kernelwright.graph.spelling import number

_PACKED_BYTES = 1 << 20
"""The largest constant that is written into a text."""
_LISTED = 16
"""Constants of up to so many numbers are written as numbers."""


class Containers:
    """Where the state of a module lives, as expressions from `self`, and the lines that put it there.

    Children named by numbers make an nn.ModuleList, whose gaps (modules without state) are filled.
    """

    def __init__(self, state: Sequence[State]) -> None:
        self.addresses: dict[str, str] = {}
        self.lines: list[str] = []
        self._reached = {"": "self"}
        self._children: dict[str, list[str]] = {}
        for item in state:
            parts = item.name.split(".")
            for depth, part in enumerate(parts[:-1]):
                siblings = self._children.setdefault(".".join(parts[:depth]), [])
                if part not in siblings:
                    siblings.append(part)
        own = {item.name.rpartition(".")[0] for item in state}
        self.lines += self._made("", own)
        for item in state:
            self.lines.append(self._placed(item))

    def _made(self, path: str, own: set[str]) -> Iterator[str]:
        """Lines for the containers below `path`."""
        owner = self._reached[path]
        for name in self._children.get(path, ()):
            below = f"{path}.{name}" if path else name
            size = self._list_size(below) if self._is_list(below, own) else None
            kind = "nn.Module()" if size is None else f"nn.ModuleList(nn.Module() for _ in range({size}))"
            if self._is_list(path, own):
                self._reached[below] = f"{owner}[{name}]"
                if size is not None:
                    yield f"{owner}[{name}] = {kind}"
            elif name.isidentifier():
                self._reached[below] = f"{owner}.{name}"
                yield f"{owner}.{name} = {kind}"
            else:
                self._reached[below] = f'getattr({owner}, "{name}")'
                yield f'{owner}.add_module("{name}", {kind})'
            yield from self._made(below, own)

    def _is_list(self, path: str, own: set[str]) -> bool:
        names = self._children.get(path, [])
        return bool(path and names) and path not in own and all(name.isdecimal() for name in names)

    def _list_size(self, path: str) -> int:
        return max(map(int, self._children[path])) + 1

    def _placed(self, item: State) -> str:
        prefix, _, name = item.name.rpartition(".")
        owner = self._reached[prefix]
        plain = name.isidentifier()
        self.addresses[item.name] = f"{owner}.{name}" if plain else f'getattr({owner}, "{name}")'
        if item.parameter:
            value = self.addresses[item.tied_to] if item.tied_to else f"nn.Parameter({_initial(item)})"
            return f"{owner}.{name} = {value}" if plain else f'{owner}.register_parameter("{name}", {value})'
        if item.tied_to:
            value = self.addresses[item.tied_to]
        else:
            value = _initial(item) if item.content is None else literal(item.content, item.name)
        return f'{owner}.register_buffer("{name}", {value}{"" if item.persistent else ", persistent=False"})'


def _initial(item: State) -> str:
    """Values to start from, until a state_dict is loaded: finite, of a sensible scale, variances positive."""
    value = item.value
    shape = ", ".join(map(str, value.shape)) or "()"
    dtype = "" if value.dtype is torch.float32 else f", dtype={value.dtype}"
    if not value.dtype.is_floating_point:
        made = f"torch.zeros({shape}{dtype})"
        return f"{made}, requires_grad=False" if item.parameter else made
    if not is_contiguous(value):
        return f"torch.empty_strided({tuple(value.shape)}, {tuple(value.stride())}{dtype}).normal_(std=0.1)"
    if value.dim() < 2:
        return f"torch.ones({shape}{dtype})"
    return f"torch.randn({shape}{dtype}) / {math.prod(value.shape[1:]) or 1} ** 0.5"


def literal(value: Tensor, name: str) -> str:
    """The expression that makes a tensor: its numbers where they are few, else its bytes, packed.

    Raises CaptureError where it is too large to be written into a text.
    """
    value = value.detach().cpu().contiguous()
    if value.numel() <= _LISTED and value.dtype in (torch.float32, torch.float64, torch.int64, torch.int32, torch.bool):
        return f"torch.tensor({_numbers(value.tolist())}, dtype={value.dtype})"
    packed = base64.b85encode(zlib.compress(value.reshape(-1).view(torch.uint8).numpy().tobytes(), 9)).decode()
    if len(packed) > _PACKED_BYTES:
        raise CaptureError(f"the constant {name} of {value.numel()} elements is too large to be written into a text")
    raw = f'bytearray(zlib.decompress(base64.b85decode("{packed}")))'
    return f"torch.frombuffer({raw}, dtype={value.dtype}).reshape({tuple(value.shape)})"


def _numbers(values: object) -> str:
    if isinstance(values, list):
        return f"[{', '.join(map(_numbers, values))}]"
    return number(values)
