"""A Python function's source: its syntax tree, places in the user's file, and what its global names mean."""

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any

from kernelwright.errors import UsageError
from kernelwright.loops.program import Where

UNKNOWN = object()
"""What a name resolves to that is no global of the function."""


class UnsupportedError(UsageError):
    """A Python function uses what no loop program has. The message begins with file:line:column."""


class Source:
    """A function's text. `callees` adds names to those the function sees."""

    def __init__(self, function: Callable[..., Any], callees: Mapping[str, Any]) -> None:
        function = python_function(function)
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise UnsupportedError(
                f"the source text of {getattr(function, '__name__', function)!r} cannot be read; "
                "define the function in a file (or a notebook cell), not with exec or at the bare prompt"
            ) from None
        text = "".join(lines)
        dedented = textwrap.dedent(text)
        self.file = inspect.getsourcefile(function) or "<unknown>"
        self._line = first - 1
        self._column = len(lines[0]) - len(lines[0].lstrip()) + 1
        module = ast.parse(dedented)
        tree = module.body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise self.refuse(tree, "this is no plain function", "a function defined by `def`")
        self.tree = tree
        self.function = function
        self._callees = callees
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self._closure = {name: cell for name, cell in cells}

    def where(self, node: ast.AST) -> Where:
        return Where(getattr(node, "lineno", 1) + self._line, getattr(node, "col_offset", 0) + self._column)

    def refuse(self, node: ast.AST, what: str, instead: str) -> UnsupportedError:
        """The error to raise: `what` is a clause on what is wrong, `instead` what is supported."""
        where = self.where(node)
        return UnsupportedError(f"{self.file}:{where.line}:{where.column}: {what}; supported: {instead}")

    def resolve(self, node: ast.expr) -> Any:
        """The object a name or dotted name outside the function stands for; UNKNOWN where there is none."""
        if isinstance(node, ast.Attribute):
            owner = self.resolve(node.value)
            return getattr(owner, node.attr, UNKNOWN) if isinstance(owner, ModuleType) else UNKNOWN
        if not isinstance(node, ast.Name):
            return UNKNOWN
        if node.id in self._callees:
            return self._callees[node.id]
        if node.id in self._closure:
            try:
                return self._closure[node.id].cell_contents
            except ValueError:
                return UNKNOWN
        scope = self.function.__globals__
        return scope[node.id] if node.id in scope else getattr(builtins, node.id, UNKNOWN)


def python_function(function: Any) -> FunctionType:
    """The plain function inside a decorated one."""
    inner = getattr(function, "py_func", function)
    inner = inspect.unwrap(inner)
    if not isinstance(inner, FunctionType):
        raise UnsupportedError(f"{function!r} is no Python function; supported: a function defined by `def`")
    return inner


def qualified(thing: Any) -> str:
    """ "numpy.sqrt", "math.sqrt", "builtins.abs": what a function or type is called at home; "" for other things."""
    module = getattr(thing, "__module__", None) or type(thing).__module__
    name = getattr(thing, "__name__", None)
    if not isinstance(name, str):
        return ""
    return f"{str(module).split('.')[0]}.{name}"
