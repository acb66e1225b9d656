"""Size constants of a problem's file, made smaller until the problem fits the machine.

A size constant is an integer at module level: `batch_size = 128`, `N = 1024 * 4`, an item of `input_shape = (32768,)`
(named "input_shape[0]"). Only its own characters of the text change.
"""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernelwright.errors import ProblemError, UnknownNameError, UsageError
from kernelwright.records import Constant

LARGEST_MS = 10.0
"""Of one eager call, by an estimate: a problem's sizes, and so its digest, must not depend on how busy or how fast the
machine is. The aim is 2 to 50 ms on two cores, and the judge draws many inputs: rather small than large."""
LARGEST_BYTES = 1 << 30

_BATCH = re.compile(r"batch|^(b|bs|n_?samples)$", re.IGNORECASE)
_NOT_A_SIZE = re.compile(
    r"kernel|stride|pad|dilat|pool|seed|group|head|expert|classes$|layers?$|^(num|n)_?(layer|class|block|stage)",
    re.IGNORECASE,
)
_SMALL = 8
"""A constant of at most so much is a count or an index rather than a size."""
_WIDTH = re.compile(
    r"feature|channel|hidden|embed|width_mult|model|^d$|dim|input_size|output_size|vocab", re.IGNORECASE
)
"""Sizes that weights have too. They shrink last: a narrow model is another model, fewer rows are only fewer."""
_ROUNDS = ((1.0, (4, None, None)), (1.0, (4, 32, None)), (1.0, (4, 32, 64)), (4.0, (2, 16, 32)), (4.0, (1, 4, 8)))
"""Of each round the load it aims for, and the least batch, length (sequence, image, rows) and width it makes; None: not
in this round. The last rounds make odd little problems, so they begin only where a call takes over 40 ms."""
_TOLERATED = 200.0
"""How many times too slow a problem may stay if nothing can be reduced any more: two seconds a call."""


@dataclass(frozen=True)
class Place:
    """A size constant in a text."""

    name: str
    value: int
    start: int
    """In characters from the beginning of the text."""
    end: int


def constants(text: str) -> tuple[Place, ...]:
    """The size constants of `text` in order."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def place(name: str, node: ast.expr) -> list[Place]:
        value = _integer(node)
        if value is None or node.end_lineno is None or node.end_col_offset is None:
            return []
        start, end = offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)
        return [Place(name, value, start, end)]

    found: list[Place] = []
    for node in ast.parse(text).body:
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if value is None or len(targets) != 1:
            continue
        target = targets[0]
        if isinstance(target, ast.Name) and isinstance(value, (ast.Tuple, ast.List)):
            for index, item in enumerate(value.elts):
                found += place(f"{target.id}[{index}]", item)
        elif isinstance(target, ast.Name):
            found += place(target.id, value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, item in zip(target.elts, value.elts, strict=False):
                found += place(one.id, item) if isinstance(one, ast.Name) else []
    return tuple(found)


def _integer(node: ast.expr) -> int | None:
    """The value of an expression of integers alone."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.BinOp):
        left, right = _integer(node.left), _integer(node.right)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.FloorDiv) and right:
            return left // right
        if isinstance(node.op, ast.Pow) and 0 <= right < 64:
            return left**right
        if isinstance(node.op, ast.LShift) and 0 <= right < 64:
            return left << right
    return None


def replaced(text: str, values: Mapping[str, int]) -> str:
    """`text` with the constants of `values` written anew, all else as it was."""
    for place in sorted(constants(text), key=lambda place: -place.start):
        if place.name in values and values[place.name] != place.value:
            text = text[: place.start] + str(values[place.name]) + text[place.end :]
    return text


def changed(text: str, values: Mapping[str, int]) -> tuple[Constant, ...]:
    """The constants of `text` that `values` changes, for the record."""
    return tuple(
        Constant(place.name, place.value, values[place.name])
        for place in constants(text)
        if values.get(place.name, place.value) != place.value
    )


def explicit(text: str, scale: str) -> dict[str, int]:
    """The values of "batch_size=8,dim=64". Raises UsageError, or UnknownNameError for a constant not in `text`."""
    known = {place.name for place in constants(text)}
    values = {}
    for part in scale.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if not name or not value.isdigit() or int(value) < 1:
            raise UsageError(f'scale {part.strip()!r} is not understood; write "auto", or "batch_size=8,dim=64"')
        if name not in known:
            raise UnknownNameError("size constant", name, known)
        values[name] = int(value)
    return values


def automatic(text: str, weigh: Callable[[str], float]) -> dict[str, int]:
    """Values of the constants for which `weigh` gives about 1, or the least that halving reaches, up to 200.

    `weigh(text)` says how many times too costly a text is, and raises ProblemError where its sizes do not fit each
    other. One constant at a time is halved: batches first, then lengths, then widths, of each the largest; one that
    cannot be halved alone is halved with its equals, or left. Raises ProblemError where even the least is too much.
    """
    sizes = {place.name: place.value for place in constants(text) if _is_size(place)}
    load = weigh(text)
    for aim, floors in _ROUNDS:
        stuck: set[str] = set()
        while load > aim:
            name = _next(sizes, stuck, floors)
            if name is None:
                break
            for halved in _halvings(sizes, name):
                try:
                    load = weigh(replaced(text, halved))
                except ProblemError:  # sizes that do not fit each other: another constant may do
                    continue
                sizes = halved
                break
            else:
                stuck.add(name)
    if load > _TOLERATED:
        listed = ", ".join(f"{name}={value}" for name, value in sizes.items()) or "none"
        raise ProblemError(
            f"its size constants ({listed}) cannot be reduced far enough for this machine; give --scale NAME=VALUE"
        )
    return sizes


def _is_size(place: Place) -> bool:
    return _is_batch(place.name) or (place.value > _SMALL and not _NOT_A_SIZE.search(place.name))


def _next(sizes: Mapping[str, int], stuck: set[str], floors: tuple[int, int | None, int | None]) -> str | None:
    """The constant to halve: of the first kind that has one above its floor, the largest."""
    for kind, least in zip((_is_batch, _is_length, _is_width), floors, strict=True):
        free = [
            name
            for name, value in sizes.items()
            if least is not None and kind(name) and value >= 2 * least and name not in stuck
        ]
        if free:
            return max(free, key=lambda name: sizes[name])
    return None


def _is_batch(name: str) -> bool:
    return bool(_BATCH.search(name))


def _is_width(name: str) -> bool:
    return not _is_batch(name) and bool(_WIDTH.search(name))


def _is_length(name: str) -> bool:
    return not _is_batch(name) and not _is_width(name)


def _halvings(sizes: dict[str, int], name: str) -> list[dict[str, int]]:
    half = sizes[name] // 2
    alone = sizes | {name: half}
    equals = {other: half for other, value in sizes.items() if value == sizes[name]}
    return [alone, sizes | equals] if len(equals) > 1 else [alone]
