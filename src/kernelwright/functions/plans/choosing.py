"""Which plan serves a function for arrays that cannot change: measured on the caller's own arguments, and proven there.

Every plan first has to give what the plain program gives, within what the order of additions can do. The fastest of
those is kept, and its name on disk, so that the next process does not measure again.
"""

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kernelwright import loops
from kernelwright.errors import UsageError
from kernelwright.functions.arguments import Given
from kernelwright.functions.chain import Link, array_words
from kernelwright.functions.overload import Call, Overload, overlaps
from kernelwright.functions.plans.rows import Scatter, find_scatter
from kernelwright.functions.plans.schemes import Scheme, schemes
from kernelwright.home import home
from kernelwright.records import digest
from kernelwright.targets import compile
from kernelwright.targets.entry.program import Entry, written
from kernelwright.targets.languages.program import LoadedProgram
from kernelwright.toolchain import clang
from kernelwright.toolchain.features import features

_BUDGET_S = 0.1
"""What measuring may take, though each plan has three turns at least."""
_TURN_S = 1e-4
_SLACK = 64
"""How many roundings of the largest sum two orders of adding may lie apart, times the root of the additions."""


@dataclass(frozen=True)
class Plan:
    """A plan that can be called for arrays that cannot change."""

    name: str
    loaded: LoadedProgram
    tables: tuple[np.ndarray, ...]
    limits: tuple[int, ...]

    def admits(self, overload: Overload, arguments: Sequence[Given]) -> bool:
        """Whether these arguments are such as its entry takes: large enough for every index, and apart."""
        guards = self.loaded.entry.guards
        within = all(arguments[i].value[1 + axis] > limit for (i, axis), limit in zip(guards, self.limits, strict=True))
        return within and (not self.loaded.entry.apart or overload.apart(arguments))

    def run(self, overload: Overload, arguments: Sequence[Given]) -> Any:
        """One call by ctypes."""
        return overload.run(self.loaded, arguments, [array_words(table) for table in self.tables])


@dataclass(frozen=True)
class Choice:
    """What was measured."""

    name: str
    shortest_us: Mapping[str, float]
    """Of each plan that gave the right result; empty where the name was remembered."""


def choose(
    overload: Overload, arguments: Sequence[Given], constants: Mapping[int, np.ndarray]
) -> tuple[Plan, Choice] | None:
    """The plan for these constants, and why. `arguments` are the caller's, and stay as they are.

    None where plans cannot be compared on them: an index is out of bounds, or arrays overlap. Raises UsageError where
    a plan was asked for that does not fit the function.
    """
    program, options = overload.program, overload.options
    scatter = find_scatter(program, constants)
    if scatter is not None and not _fits(overload, scatter, arguments):
        return None
    offered = schemes(program, scatter) if scatter is not None else []
    key = _key(overload, scatter, offered)
    wanted = options.plan or recall(key)
    if options.plan not in (None, "plain", *(scheme.name for scheme in offered)):
        raise UsageError(
            f"{program.name}: there is no plan {options.plan!r} for these arrays; "
            f"there are {', '.join(['plain', *(scheme.name for scheme in offered)])}"
        )
    if wanted is not None:
        offered = [scheme for scheme in offered if scheme.name == wanted]
    plans = _compiled(overload, [*offered, Scheme("plain", program, ())], scatter, constants)
    if not offered:
        return plans[-1], Choice("plain", {})
    reference = _run(overload, plans[-1], arguments)
    right = [plan for plan in plans[:-1] if agrees(_run(overload, plan, arguments), reference, scatter)]
    if wanted is not None and right:
        return right[0], Choice(wanted, {})
    shortest = _shortest_us(overload, [*right, plans[-1]], arguments)
    name = min(shortest, key=lambda name: shortest[name])
    remember(key, name)
    return next(plan for plan in plans if plan.name == name), Choice(name, shortest)


def link(plan: Plan, overload: Overload, constants: Mapping[int, np.ndarray]) -> Link:
    """The plan as an entry of a chain."""
    arrays = [constants[index] for index in sorted(constants)]
    return Link(plan.loaded, overload.fail, constants=arrays, tables=plan.tables, limits=plan.limits)


def _fits(overload: Overload, scatter: Scatter, arguments: Sequence[Given]) -> bool:
    within = all(arguments[argument].value[1 + axis] > limit for (argument, axis), limit in scatter.guards.items())
    return within and overload.apart(arguments)


def _compiled(
    overload: Overload, offered: Sequence[Scheme], scatter: Scatter | None, constants: Mapping[int, np.ndarray]
) -> list[Plan]:
    """The plans, in one text and one run of the compiler."""
    texts, entries, limits = [loops.program_template()], [], tuple(scatter.guards.values()) if scatter else ()
    for scheme in offered:
        program = replace(scheme.program, symbol=f"{overload.program.symbol}_{scheme.name}")
        checked = overload.options.boundscheck or scheme.name != "plain"
        # A segment is summed by one thread, in one order. A folded table would be added up in parts.
        threads = overload.parallel is not None if scheme.name == "plain" else scheme.name != "folded"
        parallel = overload.options.parallel and threads
        texts.append(loops.print_function(program, boundscheck=checked, parallel=parallel))
        entries.append(_entry(overload, program, scheme, scatter, constants))
    loaded = compile("\n".join(texts), language="program", entries=written(*entries))
    return [
        Plan(scheme.name, loaded[entry.symbol], scheme.tables, limits if scheme.name != "plain" else ())
        for scheme, entry in zip(offered, entries, strict=True)
    ]


def _entry(
    overload: Overload,
    program: loops.Program,
    scheme: Scheme,
    scatter: Scatter | None,
    constants: Mapping[int, np.ndarray],
) -> Entry:
    given = overload.entry
    slots = tuple(replace(slot, kind="bound") if i in constants else slot for i, slot in enumerate(given.slots))
    order = sorted(constants)
    arrays: list[Any] = [
        ("table", order.index(index)) if index in constants else ("argument", index) for _, index in given.arrays
    ]
    arrays += [("table", len(order) + i) for i in range(len(scheme.tables))]
    entry = replace(
        given, symbol=program.symbol, slots=slots, arrays=tuple(arrays), tables=len(order) + len(scheme.tables)
    )
    if scheme.name == "plain" or scatter is None:
        return entry
    apart = tuple(pair for pair in overlaps(overload.program) if not constants.keys() & set(pair))
    return replace(entry, guards=tuple(scatter.guards), apart=apart)


# ---- running and comparing ------------------------------------------------------------------------------------------


class _Prepared:
    """A plan's call on copies of what it writes, with as little as possible around it."""

    def __init__(self, overload: Overload, plan: Plan, arguments: Sequence[Given]) -> None:
        self.written: list[np.ndarray] = []
        words: list[Any] = []
        scalars: list[Given] = []
        for declared, argument in zip(overload.program.arguments, arguments, strict=True):
            if isinstance(argument.type, loops.ScalarType):
                scalars.append(argument)
            elif declared.written:
                self.written.append(copied(argument))
                words.append(array_words(self.written[-1]))
            else:
                words.append(argument.value)
        self._call = Call(plan.loaded, overload.program, [*words, *map(array_words, plan.tables)], scalars)
        self._fail = overload.fail

    def __call__(self) -> None:
        if self._call():
            self._call.fail(self._fail)

    def seconds(self, calls: int) -> float:
        """How long so many calls take."""
        call = self._call
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - start


def copied(argument: Given) -> np.ndarray:
    """A contiguous copy of an array that was given."""
    array = argument.kept if isinstance(argument.kept, np.ndarray) else argument.kept.detach().numpy()
    return np.array(array, order="C", subok=False)


def _run(overload: Overload, plan: Plan, arguments: Sequence[Given]) -> list[np.ndarray]:
    prepared = _Prepared(overload, plan, arguments)
    prepared()
    return prepared.written


def _shortest_us(overload: Overload, plans: Sequence[Plan], arguments: Sequence[Given]) -> dict[str, float]:
    """The shortest time of a call of each plan, taken by turns, so that what disturbs the machine disturbs all."""
    prepared = {plan.name: _Prepared(overload, plan, arguments) for plan in plans}
    calls = {name: max(1, int(_TURN_S / max(one.seconds(1), 1e-7))) for name, one in prepared.items()}
    shortest = dict.fromkeys(prepared, math.inf)
    end, turns = time.perf_counter() + _BUDGET_S, 0
    while turns < 3 or time.perf_counter() < end:
        turns += 1
        for name, one in prepared.items():
            shortest[name] = min(shortest[name], one.seconds(calls[name]) / calls[name] * 1e6)
    return shortest


def agrees(
    got: Sequence[np.ndarray], wanted: Sequence[np.ndarray], scatter: Scatter | None, rounding: float = 0.0
) -> bool:
    """Whether two results are the same but for the order of additions. `rounding`: of one in float64, where that is
    more than NumPy's."""
    additions = scatter.count / max(1, len(np.unique(scatter.key[0]))) if scatter else 1
    for x, y in zip(got, wanted, strict=True):
        if x.dtype.kind != "f":
            if not np.array_equal(x, y):
                return False
            continue
        finite = np.isfinite(y)
        if not np.array_equal(finite, np.isfinite(x)) or not np.array_equal(x[~finite], y[~finite], equal_nan=True):
            return False
        scale = float(np.max(np.abs(y[finite]), initial=0.0))
        rounds = max(float(np.finfo(y.dtype).eps), rounding if y.dtype == np.float64 else 0.0)
        bound = _SLACK * rounds * math.sqrt(additions + 1) * scale
        if np.any(np.abs(x[finite] - y[finite]) > bound):
            return False
    return True


# ---- remembering ----------------------------------------------------------------------------------------------------


def _key(overload: Overload, scatter: Scatter | None, offered: Sequence[Scheme]) -> str:
    """What a choice depends on: program, sizes of rows and tables, compiler and processor."""
    shapes = tuple((scheme.name, tuple(str((t.dtype, t.shape)) for t in scheme.tables)) for scheme in offered)
    options = overload.options
    text = loops.print_program_cpp(overload.program, boundscheck=options.boundscheck, parallel=False)
    threads = os.cpu_count() if options.parallel else 1
    return digest("plan", text, threads, scatter.count if scatter else 0, shapes, clang.compiler(), tuple(features()))


def _place(key: str) -> Path:
    return home() / "plans" / f"{key}.json"


def recall(key: str) -> str | None:
    try:
        return json.loads(_place(key).read_text())["plan"]
    except (OSError, ValueError, KeyError):
        return None


def remember(key: str, name: str) -> None:
    place = _place(key)
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(f".{os.getpid()}.{time.monotonic_ns()}")
    draft.write_text(json.dumps({"plan": name}))
    os.replace(draft, place)  # whole or not at all
