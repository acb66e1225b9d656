"""The identity of a graph: text without names, weights or devices (docs/design/identity.md).

A line an operation, in post-order from the outputs; inputs are numbered at first use:

    i0 = argument float32[5,32](32,1)
    i1 = parameter float32[64,32](32,1)
    n2 = aten.linear.default(i0, i1) float32[5,64](64,1)
    out n2

The text says what kind each input is, and for constants what they hold, since a kernel may rely on it. Open sizes are
expressions of d0, d1, ... (by first appearance) in braces: `float32[{d0},32]`.

Rule 4 of the canonical form is applied here: a copy that feeds an output is left out where its operand is computed
by the graph and seen by no other output. Whoever serves the region restores the output's strides from the Signature.
"""

import ast
import hashlib
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import sympy
import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx.node import Node

from kernelwright.graph.captured import Capture
from kernelwright.graph.node import base_of, example_size, output_of, placeholders_of
from kernelwright.records import Region

aten = torch.ops.aten

_LEFT_OUT = frozenset({"device", "layout", "pin_memory"})
"""They are of the Signature, not of the computation."""
_COPIES = frozenset({aten.clone.default})


def identify(capture: Capture) -> Region:
    """The region of a captured graph.

    For a graph with open sizes the text is the dynamic one specialised to the example that was traced.
    """
    writer = _Writer(capture)
    text = writer.text()
    inputs = tuple(writer.borders[node] for node in writer.inputs)
    if not writer.symbols:
        return Region(text, None, inputs)
    return Region(specialise(text, [writer.hints[symbol] for symbol in writer.symbols]), text, inputs)


def text_at(capture: Capture, sizes: Mapping[sympy.Symbol, int]) -> str:
    """The text of a graph with open sizes, specialised to sizes given by the symbols that the graph holds."""
    writer = _Writer(capture)
    text = writer.text()
    return specialise(text, [sizes.get(symbol, writer.hints[symbol]) for symbol in writer.symbols])


def distinct_outputs(capture: Capture) -> tuple[int, ...]:
    """The results, as indices, that the `out` line of the capture's text lists, in its order.

    dynamo's graphs return each computed tensor once and leave out those that are inputs; a module may return
    them twice or as they are.
    """
    outputs = _results(capture)
    seen: dict[Node, int] = {}
    for index, node in enumerate(outputs):
        if node.op == "call_function":
            seen.setdefault(node, index)
    return tuple(seen.values())


def specialise(dynamic_text: str, sizes: Sequence[int]) -> str:
    """The text with d0, d1, ... replaced by `sizes`: line for line that of the graph captured at those sizes."""
    names = {f"d{index}": size for index, size in enumerate(sizes)}
    return re.sub(r"\{([^}]*)\}", lambda match: str(_evaluate(match[1], names)), dynamic_text)


def fit(dynamic_text: str, text: str) -> tuple[int, ...] | None:
    """The sizes for which the dynamic text is `text`; None where there are none."""
    sizes: dict[str, int] = {}
    for dynamic_line, line in zip(dynamic_text.splitlines(), text.splitlines(), strict=False):
        parts = re.split(r"\{([^}]*)\}", dynamic_line)
        pattern = "".join(re.escape(part) if index % 2 == 0 else r"(\d+)" for index, part in enumerate(parts))
        match = re.fullmatch(pattern, line)
        if match is None:
            return None
        for expression, value in zip(parts[1::2], match.groups(), strict=True):
            if re.fullmatch(r"d\d+", expression):
                sizes.setdefault(expression, int(value))
    found = tuple(sizes[name] for name in sorted(sizes, key=lambda name: int(name[1:])))
    return found if specialise(dynamic_text, found) == text else None


class _Writer:
    """Writes one graph's text."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.borders = dict(zip(placeholders_of(capture.graph.graph), capture.inputs, strict=True))
        self.numbers: dict[Node, str] = {}
        self.lines: list[str] = []
        self.known: dict[str, str] = {}
        self.inputs: list[Node] = []
        self.symbols: dict[sympy.Symbol, sympy.Symbol] = {}
        self.hints: dict[sympy.Symbol, int] = {}

    def text(self) -> str:
        results = _results(self.capture)
        shown = [_uncopied(node, results) for node in results]
        outputs = [shown[index] for index in distinct_outputs(self.capture)]
        numbers = list(dict.fromkeys(self.visit(node) for node in outputs))
        closing = ["out " + " ".join(numbers)]
        values = cast(tuple[Node, ...], output_of(self.capture.graph.graph).args[0])[self.capture.result_count :]
        for name, value in zip(self.capture.mutations, values, strict=True):
            changed = next((node for node, border in self.borders.items() if border.name == name), None)
            closing.append(f"set {self.visit(changed) if changed else name} {self.visit(value)}")
        return "\n".join([*self.lines, *closing])

    def visit(self, root: Node) -> str:
        """Numbers the node and, first, everything it needs. Iterative: graphs are deeper than Python's stack."""
        pending = [root]
        while pending:
            node = pending[-1]
            if node in self.numbers:
                pending.pop()
                continue
            missing = [other for other in node.all_input_nodes if other not in self.numbers and not _is_size(other)]
            if missing:
                pending += reversed(missing)
                continue
            pending.pop()
            self.number(node)
        return self.numbers[root]

    def number(self, node: Node) -> None:
        if node.op == "placeholder":
            self.numbers[node] = f"i{len(self.inputs)}"
            self.inputs.append(node)
            self.lines.append(f"{self.numbers[node]} = {self.input(node)}")
            return
        args = node.args
        if node.target is aten.view.default or node.target is aten.expand.default:
            args = (args[0], list(node.meta["val"].shape))  # without -1
        arguments = [self.say(value) for value in args]
        made = all(map(_is_size, node.all_input_nodes))  # by a factory, whose dtype is that of its result
        left_out = _LEFT_OUT | {"dtype"} if made else _LEFT_OUT
        arguments += [f"{key}={self.say(value)}" for key, value in sorted(node.kwargs.items()) if key not in left_out]
        line = f"{_title(node.target)}({', '.join(arguments)}) {self.describe(node.meta['val'])}"
        drawn = isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
        if line in self.known and not drawn:
            self.numbers[node] = self.known[line]
            return
        self.numbers[node] = self.known[line] = f"n{len(self.lines)}"
        self.lines.append(f"{self.numbers[node]} = {line}")

    def input(self, node: Node) -> str:
        border = self.borders[node]
        described = self.describe(node.meta["val"])
        if border.role != "constant":
            return f"{border.role} {described}"
        return f"constant {described} {content_digest(self.capture.constants[border.name])[:32]}"

    def describe(self, value: Any) -> str:
        if isinstance(value, (tuple, list)):
            return " ".join(self.describe(item) for item in value)
        if not isinstance(value, Tensor):
            return "none" if value is None else self.size(value)
        shape, stride = ",".join(map(self.size, value.shape)), ",".join(map(self.size, value.stride()))
        return f"{str(value.dtype).removeprefix('torch.')}[{shape}]({stride})"

    def size(self, size: Any) -> str:
        if not isinstance(size, (torch.SymInt, torch.SymFloat)):
            return repr(size)
        found = size.node.expr
        if found.is_symbol:
            self.hints[found] = example_size(size)
        for symbol in sorted(found.free_symbols, key=str):
            self.symbols.setdefault(symbol, sympy.Symbol(f"d{len(self.symbols)}", integer=True, positive=True))
        return f"{{{found.xreplace(self.symbols)}}}" if found.free_symbols else str(found)

    def say(self, value: Any) -> str:
        if isinstance(value, Node):
            return self.size(value.meta["val"]) if _is_size(value) else self.numbers[value]
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(self.say, value))}]"
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            return self.size(value)
        return repr(value) if isinstance(value, (int, float, bool, str, type(None))) else str(value)


def content_digest(value: Tensor) -> str:
    """Names a constant's values."""
    data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(data.numpy().data).hexdigest()


def _results(capture: Capture) -> tuple[Node, ...]:
    return cast(tuple[Node, ...], output_of(capture.graph.graph).args[0])[: capture.result_count]


def _uncopied(node: Node, results: Sequence[Node]) -> Node:
    """Rule 4."""
    source = node
    while source.target in _COPIES and isinstance(source.args[0], Node):
        source = source.args[0]
    base = base_of(source)
    shared = any(other is not node and base_of(other) is base for other in results)
    return node if base.op != "call_function" or shared else source


def _is_size(node: Node) -> bool:
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))


def _title(target: Any) -> str:
    return "getitem" if target is operator.getitem else str(target)


_OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,  # sympy writes exact divisions so
    ast.Mod: operator.mod,
}
_FUNCTIONS = {
    "Min": min,
    "Max": max,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Abs": abs,
}


def _evaluate(expression: str, sizes: dict[str, int]) -> int:
    """An expression of sizes, without `eval`: texts come out of archives."""

    def value(tree: ast.expr) -> int:
        match tree:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                return sizes[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return _OPERATIONS[type(op)](value(left), value(right))
            case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
                return _FUNCTIONS[name](*map(value, args))
        raise ValueError(f"{expression!r} is no expression of sizes")

    return value(ast.parse(expression, mode="eval").body)
