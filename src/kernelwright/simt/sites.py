"""Numbers the places where fibers wait, in optimised LLVM assembly: lanes in several of them meet at the lowest first.

An address of machine code would not do: compilers put blocks where they like, and one that stands behind the join that
it leads to would let lanes meet in two parts where they belong together.
"""

import re
from collections.abc import Iterator

from kernelwright.simt.control_flow import LABEL, NotUnderstood, blocks, in_order

_WAIT = re.compile(r"@simt_wait_(?:(group|none)\(\)|simd\(ptr ((?:noundef |nonnull )*(?:@[\w.$-]+|%[\w.-]+|null))\))")
_DECLARED = """
declare void @simt_wait_at(ptr, ptr) convergent nomerge
declare void @simt_wait_group_at(ptr) convergent nomerge
"""


def numbered(text: str) -> str:
    """The module with a number in each wait, in the order in which control passes them."""
    out: list[str] = []
    body: list[str] = []
    count = 0
    for line in text.splitlines():
        body.append(line)
        if line == "}" or not body[0].startswith("define "):
            if len(body) > 1 and any(_WAIT.search(item) for item in body):
                numbers = _numbers(body, count)
                count += len(numbers)
                for i, number in numbers.items():
                    body[i] = _at(body[i], number)
            out += body
            body = []
    return "\n".join(out) + _DECLARED


def _at(line: str, number: int) -> str:
    match = _WAIT.search(line)
    assert match
    site = f"ptr inttoptr (i64 {number} to ptr)"
    called = "simt_wait_group_at(" if match[1] == "group" else f"simt_wait_at(ptr {match[2] or 'null'}, "
    return f"{line[: match.start()]}@{called}{site}){line[match.end() :]}"


def _numbers(body: list[str], count: int) -> dict[int, int]:
    """For each line with a wait its number, from `count` + 1 on."""
    waits = [i for i, line in enumerate(body) if _WAIT.search(line) and line.startswith(" ")]
    place = dict(_places(body))
    waits.sort(key=lambda i: (place[i], i))
    return {i: count + n for n, i in enumerate(waits, 1)}


def _places(body: list[str]) -> Iterator[tuple[int, int]]:
    """For each line the place of its block; where the function is not understood, all the same."""
    try:
        found = blocks(body)
    except NotUnderstood:
        yield from ((i, 0) for i in range(len(body)))
        return
    number = {block.label: n for n, block in enumerate(found)}
    ways = {n: [number[label] for label in block.following] for n, block in enumerate(found)}
    order = {n: place for place, n in enumerate(in_order(ways, 0))}
    at = -1
    for i, line in enumerate(body):
        if i and not line.startswith(" ") and LABEL.match(line):
            at += 1
        elif at < 0 and line.startswith("  "):
            at = 0
        yield i, order.get(at, len(found))
