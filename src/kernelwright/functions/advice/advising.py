"""Measures everybody at every size and says what follows."""

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from kernelwright import loops
from kernelwright.errors import UsageError
from kernelwright.functions.advice.rivals import Rival, rivals
from kernelwright.functions.advice.subject import Subject
from kernelwright.functions.advice.whole_arrays import WholeArrays, whole_arrays
from kernelwright.functions.arguments import given
from kernelwright.functions.chain import Link
from kernelwright.functions.overload import entry_of, load
from kernelwright.functions.plans.rows import find_scatter

_TURN_S = 2e-3
_FEWEST = 3
_PYTHON_S = 1.0
"""Plain Python is run where it is expected to take no longer."""


@dataclass(frozen=True)
class Row:
    """One implementation at one size."""

    implementation: str
    size: float
    median_us: float | None
    """Of a call; None where there is none, for `reason`."""
    reason: str = ""


@dataclass(frozen=True)
class Advice:
    """What was measured, and the sentence."""

    function: str
    parameter: str
    """The size that varies."""
    fixed: Mapping[str, float]
    rows: tuple[Row, ...]
    call_us: float
    """What a call of ours costs before it computes anything."""
    sentence: str

    def sizes(self) -> list[float]:
        return list(dict.fromkeys(row.size for row in self.rows))

    def fastest(self, size: float) -> Row:
        return min((row for row in self.rows if row.size == size and row.median_us), key=lambda row: row.median_us or 0)


def advise(
    subject: Subject, parameter: str, sizes: Sequence[float], fixed: Mapping[str, float], *, seconds: float = 1.0
) -> Advice:
    """Everybody at every size, by turns, `seconds` for each size. Raises UsageError."""
    rows: list[Row] = []
    python_us: float | None = None
    call_us = math.nan
    for size in sizes:
        arguments = list(subject.arguments(**{parameter: _number(size)}, **{n: _number(v) for n, v in fixed.items()}))
        program = _program(subject, arguments)
        target = next((i for i, item in enumerate(program.arguments) if item.written), None)
        if target is None:
            raise UsageError(f"{subject.name} writes to none of its arguments; there is nothing to compare")
        form, constants = _form(program), _constants(program, arguments)
        reference = _reference(subject, arguments, target)
        taken, reasons = _right(rivals(subject, form, arguments, target, constants), reference)
        medians = _timed(taken, seconds)
        grown = size / sizes[0]
        if python_us is None or python_us * grown <= _PYTHON_S * 1e6:
            own = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
            start = time.perf_counter()
            subject.function(*own)
            medians["plain Python"] = (time.perf_counter() - start) * 1e6
            python_us = python_us or medians["plain Python"]
        else:
            reasons["plain Python"] = f"it would take {python_us * grown / 1e6:.0f} s"
        call_us = _call_us(program, arguments)
        rows += [Row(name, size, median) for name, median in medians.items()]
        rows += [Row(name, size, None, reason) for name, reason in reasons.items()]
    advice = Advice(subject.name, parameter, fixed, tuple(rows), call_us, "")
    return replace(advice, sentence=_sentence(advice))


def advice_json(advice: Advice) -> dict[str, Any]:
    """The document that docs/json.md describes."""
    return {
        "function": advice.function,
        "parameter": advice.parameter,
        "fixed": dict(advice.fixed),
        "call_us": advice.call_us,
        "rows": [asdict(row) for row in advice.rows],
        "sentence": advice.sentence,
    }


def _number(value: float) -> float | int:
    return int(value) if value == int(value) else value


def _program(subject: Subject, arguments: Sequence[Any]) -> loops.Program:
    types = [given(value, f"{subject.name}, argument {i + 1}").type for i, value in enumerate(arguments)]
    return loops.parse(subject.function, types)


def _form(program: loops.Program) -> WholeArrays | None:
    return whole_arrays(program)


def _constants(program: loops.Program, arguments: Sequence[Any]) -> tuple[int, ...]:
    """Arrays of whole numbers that are only read, where plans can be made if they do not change."""
    found = {
        i: value
        for i, (item, value) in enumerate(zip(program.arguments, arguments, strict=True))
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and not item.written
    }
    return tuple(found) if found and find_scatter(program, found) is not None else ()


def _reference(subject: Subject, arguments: Sequence[Any], target: int) -> np.ndarray:
    """What the function computes, by the plain compiled loop: it gives plain Python's bits."""
    from kernelwright.functions.decorators import njit

    own = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    njit(subject.function)(*own)
    return own[target]


def _right(offered: Any, reference: np.ndarray) -> tuple[list[Rival], dict[str, str]]:
    """Those that compute the same, and why others are not there."""
    right: list[Rival] = []
    reasons: dict[str, str] = {}
    scale = float(np.max(np.abs(reference), initial=0.0)) or 1.0
    loose = math.sqrt(np.finfo(reference.dtype).eps) if reference.dtype.kind == "f" else 0.0
    for rival in offered:
        if rival.call is None or rival.result is None:
            reasons[rival.name] = rival.reason
            continue
        try:
            rival.call()
            got = np.asarray(rival.result())
        except Exception as error:  # the user's own variants, and other people's compilers, may raise anything
            reasons[rival.name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0]:.120}"
            continue
        if got.shape != reference.shape or not np.allclose(got, reference, rtol=loose, atol=loose * scale):
            reasons[rival.name] = "it computes something else"
        else:
            right.append(rival)
    return right, reasons


def _timed(taken: Sequence[Rival], seconds: float) -> dict[str, float]:
    """The median of a call of each in microseconds, taken by turns."""
    calls: dict[str, int] = {}
    for rival in taken:
        assert rival.call is not None
        start = time.perf_counter()
        rival.call()
        calls[rival.name] = max(1, int(_TURN_S / max(time.perf_counter() - start, 1e-7)))
    samples: dict[str, list[float]] = {rival.name: [] for rival in taken}
    end, turns = time.perf_counter() + seconds, 0
    while turns < _FEWEST or time.perf_counter() < end:
        turns += 1
        for rival in taken:
            assert rival.call is not None
            call, count = rival.call, calls[rival.name]
            start = time.perf_counter()
            for _ in range(count):
                call()
            samples[rival.name].append((time.perf_counter() - start) / count * 1e6)
    return {name: statistics.median(values) for name, values in samples.items()}


def _call_us(program: loops.Program, arguments: Sequence[Any]) -> float:
    """A call of a program that does nothing with these arguments."""
    empty = replace(program, body=(), locals=(), variables=(), result=(), symbol=f"{program.symbol}_nothing")

    def never(*anything: Any) -> Any:
        raise AssertionError(anything)

    link = Link(load(empty, entry_of(empty, exact=True), True, parallel=False), never)
    link.set_next(never)
    samples = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(1000):
            link.call(*arguments)
        samples.append((time.perf_counter() - start) * 1e3)
    return min(samples)


def _sentence(advice: Advice) -> str:
    """One sentence: who wins from which size on, what the time goes into, and whether a GPU is worth it."""
    stretches: list[tuple[float, Row]] = []
    for size in sorted(advice.sizes()):
        best = advice.fastest(size)
        if not stretches or stretches[-1][1].implementation != best.implementation:
            stretches.append((size, best))
    parts = []
    for size, best in stretches:
        rivals = [
            row
            for row in advice.rows
            if row.size == size and row.median_us and not row.implementation.startswith("ours")
        ]
        assert best.median_us is not None
        gain = ""
        if best.implementation.startswith("ours") and rivals:
            nearest = min(rivals, key=lambda row: row.median_us or 0)
            assert nearest.median_us is not None
            gain = f", {nearest.median_us / best.median_us:.1f} times as fast as {nearest.implementation}"
        parts.append(f"from {advice.parameter}={size:g} on {best.implementation} ({_time(best.median_us)}{gain})")
    first = advice.fastest(min(advice.sizes()))
    assert first.median_us is not None
    share = min(1.0, advice.call_us / first.median_us)
    gpus = [row for row in advice.rows if row.implementation in _GPUS]
    measured = [row for row in gpus if row.median_us]
    if not measured:
        gpu = (
            f"whether a GPU is worth it was not measured here ({', '.join(dict.fromkeys(row.reason for row in gpus))})"
        )
    else:
        won = [row for row in measured if advice.fastest(row.size).implementation == row.implementation]
        gpu = f"a GPU wins from {advice.parameter}={won[0].size:g} on" if won else "a GPU wins at none of these sizes"
    small = f"at {advice.parameter}={min(advice.sizes()):g} the call itself is {share:.0%} of the time"
    return f"Fastest is {', '.join(parts)}; {small}; {gpu}."


_GPUS = ("torch cuda", "torch mps", "ours, cuda", "ours, metal", "JAX gpu")


def _time(us: float) -> str:
    return f"{us:.2f} us" if us < 100 else f"{us:.0f} us" if us < 1e4 else f"{us / 1e3:.0f} ms"
