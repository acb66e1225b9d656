"""A graph as the text of a module that a person would enjoy reading."""

import builtins
import json
import keyword
import math
import operator
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch.fx.node import Node
from torch.utils._sympy.printers import PythonPrinter

from kernelwright.graph.captured import Capture
from kernelwright.graph.containers import Containers, literal
from kernelwright.graph.hoisting import constant_calls
from kernelwright.graph.kernel_call import KernelCall, PieceCall
from kernelwright.graph.node import (
    base_of,
    example_size,
    expression,
    is_contiguous,
    output_of,
    placeholders_of,
    tensor_of,
)
from kernelwright.graph.reference import LOADED
from kernelwright.graph.spelling import METHODS, allocation, number, spell, spelled_as_first
from kernelwright.records import RegionInput

_NAMES = {
    "scaled_dot_product_attention": "attended",
    "native_layer_norm": "normed",
    "native_group_norm": "normed",
    "_native_batch_norm_legit_no_training": "normed",
    "_softmax": "weights",
    "_log_softmax": "logs",
    "convolution": "conv",
    "max_pool2d_with_indices": "pooled",
    "_adaptive_avg_pool2d": "pooled",
    "avg_pool2d": "pooled",
    "matmul": "product",
    "mm": "product",
    "bmm": "product",
    "addmm": "product",
    "baddbmm": "product",
    "add": "total",
    "sum": "total",
    "sub": "difference",
    "mul": "scaled",
    "div": "quotient",
    "pow": "power",
    "_to_copy": "cast",
    "view": "shaped",
    "permute": "turned",
    "select": "part",
    "slice": "part",
    "constant_pad_nd": "padded",
    "masked_fill": "masked",
    "amax": "peak",
    "bitwise_not": "inverse",
    "logical_not": "inverse",
    "scalar_tensor": "scalar",
    "clone": "copy",
    "embedding": "embedded",
}
_FREED_BYTES = 1 << 20
"""Dead intermediates of at least this size are deleted; for smaller ones it would only be noise."""


def print_module(
    capture: Capture,
    *,
    entry: str = "ModelNew",
    base: str | None = "Model",
    kernels: str = "kernels.cpp",
    language: str = "cpp",
) -> str:
    """The text of a module whose forward computes the captured graph, one assignment a node.

    With `base` it subclasses the reference (`from reference import Model`) and so has its constructor, weights and
    ties. With None it stands alone: its constructor makes containers, parameters and buffers under the same dotted
    names, so that the reference's state_dict loads; `get_init_inputs` and `get_inputs` are for the caller to add.
    Kernels (see KernelCall) are compiled from the candidate's file `kernels`.

    Raises CaptureError where a constant is too large to be written down.
    """
    return ModuleText(capture, entry, base, kernels, language).text()


class ModuleText:
    """One module's text in the making. Subclasses add to its imports, constructor and methods."""

    def __init__(self, capture: Capture, entry: str, base: str | None, kernels: str, language: str) -> None:
        self.capture, self.entry, self.base = capture, entry, base
        self.kernels, self.language = kernels, language
        self.graph = capture.graph.graph
        self.calls = [node for node in self.graph.nodes if node.op == "call_function"]
        self.has_kernels = any(isinstance(node.target, KernelCall) for node in self.calls)
        self.containers = Containers(capture.state if base is None else ())
        self.addresses = capture.addresses if base else self.containers.addresses
        self.names: dict[Node, str] = {}
        self.taken: set[str] = {"self", "torch", "nn", "F", "kernelwright"}
        self.symbols: dict[Any, str] = {}
        self.hoisted: dict[Node, None] = {}
        """Calls that the constructor makes, once."""
        self.fixed: list[str] = []
        """Their lines."""
        self.prepared: list[str] = []
        """The lines of prepare()."""
        self.last_use: dict[Node, Node] = {}
        """For each value the node whose statement needs its name last."""
        places = {node: place for place, node in enumerate(self.graph.nodes)}
        for node in self.graph.nodes:
            for operand in map(_named_by, node.all_input_nodes):
                known = self.last_use.setdefault(operand, _written_at(node))
                self.last_use[operand] = max(known, _written_at(node), key=places.__getitem__)

    def text(self) -> str:
        head, signature = self._signature()
        self._hoist()
        self._prepare()
        body = [*head, *self._statements(), *self._mutations(), f"return {self._result()}"]
        lines = [f"class {self.entry}({self.base or 'nn.Module'}):"]
        constructor = self._constructor()
        if constructor:
            lines += _indented([f"def __init__(self{', *args, **kwargs' if self.base else ''}):"], 1)
            lines += [*_indented(constructor, 2), ""]
        prepare = [["def prepare(self):", *_indented(self.prepared, 1)]] if self.prepared else []
        for method in (*prepare, *self.methods()):
            lines += [*_indented(method, 1), ""]
        lines += _indented([f"def forward({signature}):"], 1) + _indented(body, 2)
        return "\n".join([*self._imports("\n".join(lines)), "", "", *lines]) + "\n"

    # What subclasses add

    def imported(self) -> list[str]:
        """Import lines beside those that the text itself asks for."""
        return []

    def constructed(self) -> list[str]:
        """Lines at the end of the constructor."""
        return []

    def methods(self) -> list[list[str]]:
        """Methods before forward, as lines."""
        return []

    # The parts of the text

    def _imports(self, text: str) -> list[str]:
        lines = []
        if "base64." in text:
            lines += ["import base64", "import zlib", ""]
        lines += ["import torch"]
        if "F." in text:
            lines.append("import torch.nn.functional as F")
        if "nn." in text.replace("torch.nn.", ""):
            lines.append("from torch import nn")
        if self.has_kernels:
            lines += ["", "import kernelwright"]
        module, name = self._output_class()
        if module:
            lines.append(f"from {module} import {name.partition('.')[0]}")
        if self.base:
            lines.append(f"from reference import {self.base}")
        return lines + self.imported()

    def _constructor(self) -> list[str]:
        lines = [*self.containers.lines]
        for name, value in self.capture.constants.items():
            if name not in self.addresses:
                lines.append(
                    f'self.register_buffer("{_constant_name(name)}", {literal(value, name)}, persistent=False)'
                )
        if self.has_kernels:
            source = f'kernelwright.source("{self.kernels}")'
            lines.append(f'self.lib = kernelwright.compile({source}, language="{self.language}")')
        lines += [*self.fixed, *self.constructed()]
        if not lines:
            return []
        return ["super().__init__(*args, **kwargs)" if self.base else "super().__init__()", *lines]

    def _signature(self) -> tuple[list[str], str]:
        """The first lines of forward, which take nested arguments apart, and forward's parameters."""
        template = json.loads(self.capture.arguments)["dict"]
        leaves: dict[int, str] = {}
        parameters, head = ["self"], []
        for index, item in enumerate(template["args"]):
            given = self.capture.parameter_names
            name = self._fresh(given[index] if index < len(given) else f"input{index}")
            parameters.append(name)
            _leaf_paths(item, name, leaves)
        for key, item in template["kwargs"]["dict"].items():
            self.taken.add(key)
            parameters.append(f"{key}=None")
            _leaf_paths(item, key, leaves)
        for place, border, position in zip(
            placeholders_of(self.graph), self.capture.inputs, self.capture.positions, strict=True
        ):
            if position is None:
                self.names[place] = self._weight(border)
                continue
            path = leaves[position]
            if not path.isidentifier():
                name = self._fresh("".join(letter if letter.isalnum() else "_" for letter in path).strip("_"))
                head.append(f"{name} = {path}")
                path = name
            self.names[place] = path
            if self.has_kernels and is_contiguous(tensor_of(place)):
                head.append(f"{path} = {path}.contiguous()")
        return head + self._sizes(), ", ".join(parameters)

    def _hoist(self) -> None:
        """Moves what never changes from forward to the constructor.

        Kept as plain attributes, so that the state_dict and conversions of the module pass them by. A module that
        stands alone may be captured again and computes everything in forward, as what it was printed from does.
        """
        if not self.base:
            return
        borders = zip(placeholders_of(self.graph), self.capture.inputs, strict=True)
        constants = {place for place, border in borders if border.role == "constant" and border.name.startswith("#")}
        self.hoisted = dict.fromkeys(constant_calls(self.graph, constants))
        outside = set(self.taken)
        self.taken |= {"args", "kwargs"}
        for node in self.hoisted:
            written = spell(node, self.say)
            inside = all(user in self.hoisted for user in node.users)
            if inside and _chained(node):
                self.names[node] = written
                continue
            self.names[node] = self._fresh(_kind(node)) if inside else f"self.{self._fresh(f'fixed_{_kind(node)}')}"
            self.fixed.append(f"{self.names[node]} = {written}")
        self.taken = outside

    def _prepare(self) -> None:
        """Has prepare() make what depends on weights alone. Plain attributes, as what is hoisted."""
        outside = set(self.taken)
        for node in self.calls:
            if self._follows_from_weights(node):
                written, inside = spell(node, self.say), all(map(self._follows_from_weights, node.users))
                if inside and _chained(node):
                    self.names[node] = written
                    continue
                kind = _kind(node)
                self.names[node] = self._fresh(kind) if inside else f"self.{self._fresh(f'folded_{kind}')}"
                self.prepared.append(f"{self.names[node]} = {written}")
            elif isinstance(node.target, KernelCall) and node.target.prepared:
                name = f"self.{self._fresh('packed')}"
                self.prepared.append(f"{name} = {allocation(node.meta['val'], self.say)}")
                self.prepared.append(f"self.lib.{node.target.name}({', '.join([name, *map(self.say, node.args)])})")
                self.names[node] = name
        self.taken = outside

    def _follows_from_weights(self, node: Node) -> bool:
        """Whether algebra made the call from weights alone. A module that stands alone makes it in forward."""
        return bool(self.base) and bool(node.meta.get("prepared"))

    def _sizes(self) -> list[str]:
        """Names for the symbols of open sizes, read from the arguments."""
        lines = []
        for place, position in zip(placeholders_of(self.graph), self.capture.positions, strict=True):
            for dim, size in enumerate(tensor_of(place).shape):
                symbol = expression(size)
                if position is None or not getattr(symbol, "is_symbol", False) or symbol in self.symbols:
                    continue
                self.symbols[symbol] = self._fresh(f"d{len(self.symbols)}")
                lines.append(f"{self.symbols[symbol]} = {self.names[place]}.shape[{dim}]")
        return lines

    def _statements(self) -> list[str]:
        lines: list[str] = []
        alive: list[Node] = []
        for node in self.calls:
            if node in self.hoisted or self._follows_from_weights(node):
                continue
            if isinstance(node.target, KernelCall) and node.target.prepared:
                continue
            written = self._statement(node)
            lines += written
            if written:  # the results of a kernel live each for itself
                alive += list(node.users) if _has_several(node) else [node]
            dead = [other for other in alive if self.last_use.get(other) is node]
            alive = [other for other in alive if other not in dead]
            kept = {self.names[other] for other in alive}
            gone = [self.names[other] for other in dead if _bytes(other) >= _FREED_BYTES]
            gone = [name for name in gone if name not in kept]
            lines += [f"del {', '.join(gone)}"] if gone else []
            self.taken -= {self.names[other] for other in dead} - kept
        return lines

    def _statement(self, node: Node) -> list[str]:
        """The line for a call; none for sizes, which are written where they are used, and for results by name."""
        if not _is_value(node.meta["val"]) or _named_by(node) is not node:
            return []
        if isinstance(node.target, KernelCall):
            return self._kernel_call(node, node.target)
        if isinstance(node.target, PieceCall):
            self.names[node] = self._name(node)
            return [f"{self.names[node]} = {node.target.expression}({', '.join(map(self.say, node.args))})"]
        if node in self.names:  # one of several results of a kernel
            return []
        written = spell(node, self.say)
        if _chained(node):
            self.names[node] = written
            return []
        self.names[node] = self._name(node)
        return [f"{self.names[node]} = {written}"]

    def _kernel_call(self, node: Node, kernel: KernelCall) -> list[str]:
        value = node.meta["val"]
        outputs = list(value) if isinstance(value, (tuple, list)) else [value]
        lines, names = [], []
        for index, output in enumerate(outputs):
            name = self._fresh(kernel.name if len(outputs) == 1 else f"{kernel.name}_{index}")
            lines.append(f"{name} = {allocation(output, self.say)}")
            names.append(name)
        lines.append(f"self.lib.{kernel.name}({', '.join([*names, *map(self.say, node.args)])})")
        self.names[node] = names[0]
        if len(outputs) > 1:
            self.names.update({user: names[cast(int, user.args[1])] for user in node.users})
        return lines

    def _mutations(self) -> list[str]:
        values = cast(tuple[Node, ...], output_of(self.graph).args[0])[self.capture.result_count :]
        return [
            f"{self.addresses[name]}.copy_({self.say(value)})"
            for name, value in zip(self.capture.mutations, values, strict=True)
        ]

    def _result(self) -> str:
        outputs = output_of(self.graph).args[0]
        template = json.loads(self.capture.output_template)
        name = self._output_class()[1]
        if not name:
            return self._nested(template, outputs)
        if "dict" in template:
            return f"{name}({', '.join(f'{k}={self._nested(v, outputs)}' for k, v in template['dict'].items())})"
        return f"{name}({', '.join(self._nested(item, outputs) for item in template['tuple'])})"

    def _output_class(self) -> tuple[str, str]:
        """Module and name of the class that the result is built as; empty for plain containers.

        What the problem's own text defines is the reference's. Elsewhere it, and what a script defines, is out of
        reach: then the result is the plain container.
        """
        module, _, name = self.capture.output_class.partition(":")
        if module.startswith(LOADED):
            module = "reference" if self.base else ""
        return (module, name) if module not in ("", "__main__") else ("", "")

    def _nested(self, template: Any, outputs: Any) -> str:
        if isinstance(template, list):
            return f"[{', '.join(self._nested(item, outputs) for item in template)}]"
        if isinstance(template, dict):
            if "tensor" in template:
                return self.say(outputs[template["tensor"]])
            if "tuple" in template:
                items = [self._nested(item, outputs) for item in template["tuple"]]
                return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
            items = [f"{key!r}: {self._nested(item, outputs)}" for key, item in template["dict"].items()]
            return f"{{{', '.join(items)}}}"
        return number(template)

    # Names and arguments

    def say(self, value: Any) -> str:
        """An argument as text."""
        if isinstance(value, Node):
            inner = value.meta["val"]
            return self.say(inner) if not _is_value(inner) else self.names[_named_by(value)]
        if isinstance(value, torch.SymInt):
            return _SizePrinter(self.symbols).doprint(value.node.expr)
        if isinstance(value, (list, tuple)):
            inside = ", ".join(map(self.say, value))
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
        if isinstance(value, torch.device):
            return f'torch.device("{value}")'
        if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
            return str(value)
        return f'"{value}"' if isinstance(value, str) else number(value)

    def _weight(self, border: RegionInput) -> str:
        return self.addresses.get(border.name) or f"self.{_constant_name(border.name)}"

    def _name(self, node: Node) -> str:
        """A name for the node's value: that of a dying operand of the same kind, else a fresh one."""
        kind = _kind(node)
        for operand in map(_named_by, _operands(node)):
            name = self.names.get(operand, "")
            if operand.op == "call_function" and name.rstrip("0123456789_") == kind and self.last_use[operand] is node:
                return name
        return self._fresh(kind)

    def _fresh(self, name: str) -> str:
        if not name.isidentifier() or keyword.iskeyword(name) or hasattr(builtins, name):
            name = f"{name}_" if name.isidentifier() else f"v_{name}"
        chosen, count = name, 1
        while chosen in self.taken:
            count += 1
            chosen = f"{name}{count}" if not name[-1].isdigit() else f"{name}_{count}"
        self.taken.add(chosen)
        return chosen


class _SizePrinter(PythonPrinter):
    """Sizes as Python expressions of the names of their symbols."""

    def __init__(self, names: Mapping[Any, str]) -> None:
        super().__init__()
        self.names_of_symbols = names

    def _print_Symbol(self, expr: Any) -> str:
        return self.names_of_symbols[expr]


def _indented(lines: list[str], depth: int) -> list[str]:
    return [line and "    " * depth + line for line in lines]


def _leaf_paths(template: Any, path: str, leaves: dict[int, str]) -> None:
    if isinstance(template, list):
        for index, item in enumerate(template):
            _leaf_paths(item, f"{path}[{index}]", leaves)
    elif isinstance(template, dict):
        if "tensor" in template:
            leaves[template["tensor"]] = path
        else:
            parts = template.get("dict") or dict(enumerate(template.get("tuple", ())))
            for key, item in parts.items():
                _leaf_paths(item, f"{path}[{key!r}]", leaves)


def _constant_name(name: str) -> str:
    """The buffer that holds a constant which is no attribute of the reference."""
    return f"constant{name[1:]}" if name.startswith("#") else name.replace(".", "_")


def _named_by(node: Node) -> Node:
    """The node whose name stands for this one's value: the call itself for the first result of a spelled call."""
    if node.target is operator.getitem and isinstance(node.args[0], Node) and spelled_as_first(node.args[0]):
        return node.args[0]
    return node


def _operands(node: Node) -> list[Node]:
    """What the node's statement reads, through the methods chained into it."""
    found = []
    for operand in node.all_input_nodes:
        found += _operands(operand) if _chained(operand) else [operand]
    return found


def _chained(node: Node) -> bool:
    """Whether the node is written as a method call in the middle of a chain: only the next method needs it."""
    if node.target not in METHODS or len(node.users) != 1:
        return False
    (user,) = node.users
    return user.target in METHODS and user.all_input_nodes.count(node) == 1 and user.args[0] is node


def _has_several(node: Node) -> bool:
    """Whether the node is a kernel with several results, each taken by a getitem."""
    return isinstance(node.target, KernelCall) and isinstance(node.meta["val"], (tuple, list))


def _written_at(node: Node) -> Node:
    """The node whose statement holds this one's expression."""
    while _chained(node):
        (node,) = node.users
    return node


def _bytes(node: Node) -> int:
    """The memory that the node's value keeps, at the example's sizes."""
    value = base_of(node).meta["val"]
    tensors = value if isinstance(value, (tuple, list)) else [value]
    return sum(
        math.prod(map(example_size, tensor.shape)) * tensor.element_size()
        for tensor in tensors
        if isinstance(tensor, torch.Tensor)
    )


def _is_value(value: Any) -> bool:
    return not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float))


def _kind(node: Node) -> str:
    if node.target is operator.getitem and isinstance(node.args[0], Node):
        return _kind(node.args[0])
    name = getattr(node.target, "__name__", str(node.target)).split(".")[0]
    return _NAMES.get(name, name.strip("_"))
