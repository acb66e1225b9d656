"""What a Python expression may stand for besides a scalar: a view of an array, or several values."""

import ast
from dataclasses import dataclass

from kernelwright.loops.expressions import Buffer, Constant, Expression, plus, size_of, times
from kernelwright.loops.types import ScalarType

ZERO, ONE = Constant(0, ScalarType.INT64), Constant(1, ScalarType.INT64)


@dataclass(frozen=True)
class Span:
    """An axis of a view: elements start, start + 1, ... of an axis of the buffer."""

    start: Expression
    length: Expression


@dataclass(frozen=True)
class View:
    """An array, or a part of one. `axes` are the buffer's: a place where the axis is gone, a Span where it is left."""

    buffer: Buffer
    array: int
    axes: tuple[Expression | Span, ...]

    @property
    def shape(self) -> tuple[Expression, ...]:
        return tuple(axis.length for axis in self.axes if isinstance(axis, Span))

    @property
    def open_axes(self) -> tuple[int, ...]:
        """The buffer's axes that are left."""
        return tuple(number for number, axis in enumerate(self.axes) if isinstance(axis, Span))

    def fixed(self, axis: int, place: Expression) -> "View":
        """With the buffer's axis at one place, which is counted within the view."""
        span = self.axes[axis]
        assert isinstance(span, Span)
        return self.replaced(axis, plus(span.start, place))

    def replaced(self, axis: int, by: Expression | Span) -> "View":
        return View(self.buffer, self.array, (*self.axes[:axis], by, *self.axes[axis + 1 :]))

    @property
    def place(self) -> tuple[Expression, ...]:
        """The index of the single element that a view without axes is."""
        return tuple(axis.start if isinstance(axis, Span) else axis for axis in self.axes)


Value = Expression | View | tuple["Value", ...]
"""Of an expression in the function."""


def whole(buffer: Buffer, array: int) -> View:
    return View(buffer, array, tuple(Span(ZERO, size_of(size)) for size in buffer.shape))


def elements(view: View) -> Expression:
    """How many elements a view has."""
    total: Expression = ONE
    for length in view.shape:
        total = times(total, length)
    return total


def identifier(name: str) -> str:
    """The name in printed text: no keyword of C++ or Metal ends like this, and no temporary."""
    return (name if name.isascii() else "u" + name.encode().hex()) + "_"


def local_buffer(name: str, type: ScalarType, shape: tuple[int, ...]) -> Buffer:
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return Buffer(name, type, shape, tuple(reversed(strides)))


class Names(ast.NodeVisitor):
    """How the local names of a function are used: how often stored to, and which need no variable.

    An index is given by `for` alone and read inside its loop alone. A let is given a value once, and read only after
    that in the same block or inside it.
    """

    def __init__(self, tree: ast.FunctionDef) -> None:
        self.stores: dict[str, int] = {}
        self._for_stores: dict[str, int] = {}
        self._inside: list[str] = []
        self._path: tuple[int, ...] = ()
        self._blocks = 0
        self._home: dict[str, tuple[int, ...]] = {}
        self._not_index: set[str] = set()
        self._not_let: set[str] = set()
        for statement in tree.body:
            self.visit(statement)
        self.indices = {
            name for name, n in self._for_stores.items() if n == self.stores[name] and name not in self._not_index
        }
        self.lets = {name for name, n in self.stores.items() if n == 1 and name not in self._not_let}

    def _block(self, body: list[ast.stmt]) -> None:
        self._blocks += 1
        before, self._path = self._path, (*self._path, self._blocks)
        for statement in body:
            self.visit(statement)
        self._path = before

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        name = node.target.id if isinstance(node.target, ast.Name) else ""
        self.visit(node.target)
        if name:
            self._for_stores[name] = self._for_stores.get(name, 0) + 1
            self._not_let.add(name)
        if name in self._inside:
            self._not_index.add(name)  # an inner loop of the same name changes the outer's
        self._inside.append(name)
        self._block(node.body)
        self._inside.pop()
        self._block(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        self._blocks += 1
        before, self._path = self._path, (*self._path, self._blocks)
        self.visit(node.test)
        self._path = before
        self._block(node.body)
        self._block(node.orelse)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._block(node.body)
        self._block(node.orelse)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self.visit(ast.Name(node.target.id, ast.Load()))
            self._stored(node.target.id)
        self.visit(node.target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self._stored(node.id)
            self._home[node.id] = self._path
            return
        if node.id not in self._inside:
            self._not_index.add(node.id)
        home = self._home.get(node.id)
        if home is None or self._path[: len(home)] != home:
            self._not_let.add(node.id)

    def _stored(self, name: str) -> None:
        self.stores[name] = self.stores.get(name, 0) + 1
