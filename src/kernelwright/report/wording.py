"""Numbers and verdicts in the words that tables and pages use."""

import math

from kernelwright.records import Comparison, Entry, Outcome, Stage, Status, Verdict, Weight

_STATUS = {
    Status.WRONG_SHAPE: "wrong shape",
    Status.WRONG_DTYPE: "wrong dtype",
    Status.WRONG_VALUES: "wrong values",
    Status.CHEATED: "cheated",
    Status.COMPILE_ERROR: "does not compile",
    Status.RUNTIME_ERROR: "runtime error",
    Status.TIMEOUT: "timed out",
    Status.UNSUPPORTED: "unsupported",
}


_UNITS = (("s", 1e6), ("ms", 1e3), ("µs", 1.0), ("ns", 1e-3))


def _unit(value: float) -> tuple[str, float]:
    return next((item for item in _UNITS if value >= 0.9995 * item[1]), _UNITS[-1])


def microseconds(value: float | None) -> str:
    """A time in the unit that suits it, with three digits: "142 µs", "1.92 ms"."""
    if value is None:
        return "–"
    unit, scale = _unit(value)
    return f"{_digits(value / scale)} {unit}"


def round_time(value: float) -> str:
    """A round time for an axis: "2.5 ms"."""
    unit, scale = _unit(value)
    return f"{value / scale:.4g} {unit}"


def times(value: float | None) -> str:
    """A ratio: "1.83×"."""
    return "–" if value is None else f"{_ratio(value)}×"


def interval(comparison: Comparison | None) -> str:
    """Where the ratio lies with 95 %: "1.79–1.88"."""
    return "" if comparison is None else f"{_ratio(comparison.low)}–{_ratio(comparison.high)}"


def size(value: int | None) -> str:
    """Bytes: "1.2 MiB"."""
    if not value:
        return "–"
    power = min(int(math.log2(value) // 10), 4)
    return f"{_digits(value / 1024**power)} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def duration(value: float) -> str:
    """Seconds for people: "42 s", "3 min 4 s", "2 h 10 min"."""
    if value < 60:
        return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"
    seconds = round(value)
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def count(value: float) -> str:
    """A number of things: "842", "61,300", "1.2 million"."""
    for word, scale in (("billion", 1e9), ("million", 1e6)):
        if value >= scale:
            return f"{_digits(value / scale)} {word}"
    rounded = value if value < 1000 else float(f"{value:.3g}")
    return f"{rounded:,.0f}"


def standing(verdict: Verdict) -> str:
    """The verdict in two or three words: "confirmed", "passed", "wrong values"."""
    if verdict.status is not Status.PASSED:
        return _STATUS[verdict.status]
    if verdict.failed(Weight.BAR):
        return "passed, cannot win"
    if not verdict.native:
        return "passed, hosted"
    return "confirmed" if verdict.stage is Stage.CONFIRM else "passed"


BASELINES = ("eager", "inductor", "onnxruntime", "openvino")
"""The stock tools that documents name one by one. The best baseline is the fastest of whatever was timed."""


def over_eager(entry: Entry) -> Comparison | None:
    """The candidate beside eager."""
    return entry.verdict.speedup("eager")


def over_compile(entry: Entry) -> Comparison | None:
    """The candidate beside the fastest torch.compile; None for torch.compile itself."""
    return (
        None if entry.candidate.baseline and entry.candidate.writer == "inductor" else entry.verdict.speedup("inductor")
    )


def labels(verdict: Verdict) -> tuple[str, ...]:
    """What must be said beside any number of this verdict."""
    return verdict.labels if verdict.native else ("hosted: no native time", *verdict.labels)


def ranked(outcome: Outcome) -> tuple[Entry, ...]:
    """The best first, then what passed, fastest first, then what did not, in the order of the run."""
    best = outcome.best.candidate.digest if outcome.best else ""

    def place(entry: Entry) -> tuple[bool, bool, float]:
        timing = entry.verdict.timing
        passed = entry.verdict.status is Status.PASSED
        return entry.candidate.digest != best, not passed, timing.median_us if timing else math.inf

    return tuple(sorted(outcome.entries, key=place))


def pays_back_after(outcome: Outcome) -> float | None:
    """The number of calls after which the search has saved the time it took; None where there is no winner."""
    best = outcome.best
    if best is None or best.verdict.timing is None or best.verdict.best_baseline is None:
        return None
    saved_us = best.verdict.best_baseline.timing.median_us - best.verdict.timing.median_us
    return outcome.spent_s * 1e6 / saved_us if saved_us > 0 else None


def _ratio(value: float) -> str:
    """Two decimals where they matter, so that a column of ratios lines up."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3}f}"


def _digits(value: float) -> str:
    """Three significant digits without an exponent."""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    value = float(f"{value:.3g}")  # 999.7 is 1,000 and has no decimals to show
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(places, 4)}f}"
