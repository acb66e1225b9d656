"""The attributes of the Metal Shading Language that compute kernels use (specification 4, section 5)."""

import ast
import operator
import re
from dataclasses import dataclass

from kernelwright.metal.tokens import Tokens, separated

BUILTINS = {
    "thread_position_in_grid": "thread_in_grid",
    "thread_position_in_threadgroup": "thread_in_group",
    "threadgroup_position_in_grid": "group_in_grid",
    "threads_per_threadgroup": "group_size",
    "dispatch_threads_per_threadgroup": "dispatched_group_size",
    "threadgroups_per_grid": "groups_in_grid",
    "threads_per_grid": "grid_size",
    "grid_origin": "grid_origin",
    "thread_index_in_threadgroup": "thread_index",
    "thread_index_in_simdgroup": "lane",
    "simdgroup_index_in_threadgroup": "simd_index",
    "simdgroups_per_threadgroup": "simd_count",
    "dispatch_simdgroups_per_threadgroup": "dispatched_simd_count",
    "threads_per_simdgroup": "simd_width",
    "thread_execution_width": "simd_width",
    "thread_index_in_quadgroup": "quad_lane",
    "quadgroup_index_in_threadgroup": "quad_index",
    "quadgroups_per_threadgroup": "quad_count",
    "dispatch_quadgroups_per_threadgroup": "quad_count",
}
"""Attributes of parameters that carry a position or a count, and what the runtime calls it."""

KNOWN = frozenset(
    {
        *BUILTINS,
        "buffer",
        "threadgroup",
        "function_constant",
        "host_name",
        "id",
        "kernel",
        "max_total_threads_per_threadgroup",
        "required_threads_per_threadgroup",
        "visible",
        # of C++ and of clang, which Metal's compiler takes too
        "fallthrough",
        "likely",
        "unlikely",
        "maybe_unused",
        "nodiscard",
        "noreturn",
        "deprecated",
        "no_unique_address",
    }
)
"""Everything else in double brackets is refused, as Apple's compiler does or because it belongs to graphics."""

KEPT = frozenset({"fallthrough", "likely", "unlikely", "maybe_unused", "nodiscard", "noreturn", "deprecated"})
"""Attributes that mean the same in C++: they stay in the text."""

_GRAPHICS = frozenset(
    {"texture", "sampler", "stage_in", "position", "vertex_id", "color", "vertex", "fragment", "user"}
)


@dataclass(frozen=True)
class Attribute:
    """One attribute; `argument` is the text in its parentheses, "" without them."""

    name: str
    argument: str
    index: int  # of its first token

    @property
    def number(self) -> int | None:
        """The argument as a number, None if it is no constant."""
        return number(self.argument)


def read(tokens: Tokens, start: int) -> tuple[list[Attribute], int]:
    """The attributes in the double bracket that begins at `start`, and its last token. Raises CompileError."""
    end = tokens.closing(start)
    inner, last = tokens.after(start), tokens.before(end)
    found = []
    for first, final in separated(tokens, inner + 1, last - 1):
        name_at = first if not tokens[first].isspace() else tokens.after(first)
        name, after = tokens[name_at], tokens.after(name_at)
        if tokens.word(after) == "::":  # clang::unroll, gnu::always_inline: for the compiler alone
            continue
        argument = ""
        if tokens.word(after) == "(" and after <= final:
            argument = tokens.text(after + 1, tokens.closing(after) - 1)
        if name in _GRAPHICS:
            raise tokens.error(name_at, f"[[{name}]] is for textures or graphics, which are not hosted here")
        if name not in KNOWN:
            raise tokens.error(name_at, f"unknown attribute [[{name}]]")
        found.append(Attribute(name, argument, name_at))
    return found, end


_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
}


def number(text: str) -> int | None:
    """The value of an integer expression of literals, as `300 + 2`; None for anything else."""

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError(text)

    # C's suffixes go, and its octal numbers become Python's.
    plain = re.sub(r"\b(0[xX][\da-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    plain = re.sub(r"\b0(?=[0-7]+\b)", "0o", plain)
    try:
        return value(ast.parse(plain.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError):
        return None
