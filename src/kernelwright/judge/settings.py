"""How thorough the judge is, and the version of its rules."""

from dataclasses import dataclass, field

from kernelwright.judge.session import SessionSettings

JUDGE_VERSION = "6"
"""Raised whenever a rule changes that could change a verdict: older verdicts then no longer stand."""


@dataclass(frozen=True)
class Settings:
    """Numbers of cases and rounds. The defaults are those of every published verdict."""

    pool_seeds: int = 3
    """Hidden cases a problem keeps of each family; a candidate meets one of them, the next candidate the next."""
    fresh_cases: int = 2
    """Cases drawn after a candidate was submitted."""
    rounds: int = 11
    """Timing rounds of a submission, at most: after `fewest_rounds` they end where its ratio to each baseline is known
    to `enough` of itself."""
    fewest_rounds: int = 7
    enough: float = 0.015
    confirm_rounds: int = 150
    """The same of a confirmation."""
    fewest_confirm_rounds: int = 25
    confirm_enough: float = 0.004
    trial_rounds: int = 3
    window_us: float = 300.0
    """About how long the shorter timed windows are."""
    confirm_window_us: float = 1500.0
    submit_s: float = 6.0
    """Wall-clock time of a submission's timing beyond which no round is begun (five at the least); a machine that is
    never quiet would repeat disturbed windows for minutes."""
    confirm_s: float = 15.0
    kept_calls: int = 2
    """Timed calls verified in a submission; a confirmation verifies `confirm_kept_calls`."""
    confirm_kept_calls: int = 4
    cache_bytes: int = 1 << 30
    """What inputs and oracle results of the pool may occupy, ..."""
    cache_share: float = 0.125
    """... or this share of the device's memory, if that is more; beyond it they are computed anew each time."""
    survey: bool = True
    """Whether a problem is surveyed for degeneracy before its first verdict."""
    reference_s: float = 300.0
    """For one answer of the reference on its own inputs, the oracle's runs included."""
    survey_s: float = 60.0
    """When so long has gone by, it asks the cases of the problem's own inputs alone."""
    chip: str = "M2"
    """The Apple GPU that estimates of hosted Metal kernels are for; see metal/chips.py."""
    time: bool = True
    """Whether what passes is timed."""
    session: SessionSettings = field(default_factory=SessionSettings)
