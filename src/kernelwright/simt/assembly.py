"""Reads LLVM assembly as far as it must be known: which functions a function reaches."""

import re
from collections.abc import Iterable

from kernelwright.simt.layout import group_variables

_DEFINE = re.compile(r'^define [^@]*@("[^"]+"|[\w.$-]+)\(', re.MULTILINE)
_NAME = re.compile(r'@("[^"]+"|[\w.$-]+)')

_WAITING = ("simt_wait_", "simt_matrix_product", "simt_self_", "simt_log")


def references(text: str) -> dict[str, frozenset[str]]:
    """For each function of a module the names it mentions, its own among them."""
    starts = list(_DEFINE.finditer(text))
    found = {}
    for match in starts:
        end = text.find("\n}", match.end())
        found[match[1]] = frozenset(_NAME.findall(text, match.start(), end))
    return found


def reached(references: dict[str, frozenset[str]], start: str) -> set[str]:
    """Every name that `start` mentions, directly or through functions of the module."""
    seen, waiting = {start}, [start]
    while waiting:
        for name in references.get(waiting.pop(), ()):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen


def waits(names: Iterable[str]) -> bool:
    """Whether code that reaches `names` may need other threads to run before it goes on."""
    return any(name.startswith(_WAITING) for name in names)


def group_memory(text: str, entries: int) -> list[int]:
    """Bytes of the group variables that each entry can reach, one after the other as they are aligned."""
    variables, calls = group_variables(text), references(text)
    totals = []
    for i in range(entries):
        names = reached(calls, f"simt_fiber_{i}") if variables else set()
        total = 0
        for size, align in (variables[name] for name in variables if name in names):
            total = -(-total // align) * align + size
        totals.append(total)
    return totals


def without(text: str, names: Iterable[str]) -> str:
    """The module with `names` made internal, so that the compiler drops them and what only they use."""
    for name in names:
        text = re.sub(
            rf"^define (?:dso_local )?(void @{re.escape(name)}\()", r"define internal \1", text, flags=re.MULTILINE
        )
    return text


def enclosed(text: str) -> str:
    """The module with hidden functions made internal, so that kernels that are put in where they run don't stay."""
    return re.sub(r"^define hidden ", "define internal ", text, flags=re.MULTILINE)
