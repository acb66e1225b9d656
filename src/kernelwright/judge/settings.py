"""How thorough the judge is, and the version of its rules."""

from dataclasses import dataclass, field

from kernelwright.judge.session import SessionSettings

JUDGE_VERSION = "1"
"""Raised whenever a rule changes that could change a verdict: older verdicts then no longer stand."""


@dataclass(frozen=True)
class Settings:
    """Numbers of cases and rounds. The defaults are those of every published verdict."""

    pool_seeds: int = 3
    """Hidden cases a problem keeps of each family; a candidate meets one of them, the next candidate the next."""
    fresh_cases: int = 2
    """Cases drawn after a candidate was submitted."""
    rounds: int = 11
    """Timing rounds of a submission."""
    confirm_rounds: int = 25
    trial_rounds: int = 3
    window_us: float = 2000.0
    """About how long a timed window is."""
    kept_calls: int = 2
    """Timed calls verified in a submission; a confirmation verifies `confirm_kept_calls`."""
    confirm_kept_calls: int = 4
    cache_bytes: int = 1 << 30
    """What inputs and oracle results of the pool may occupy; beyond it they are computed again."""
    survey: bool = True
    """Whether a problem is surveyed for degeneracy before its first verdict."""
    time: bool = True
    """Whether what passes is timed."""
    session: SessionSettings = field(default_factory=SessionSettings)
