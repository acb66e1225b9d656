"""How long a search may take, as people write it and as the clock runs it down."""

import re
import time

from kernelwright.errors import UsageError

_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0}
_FORM = re.compile(r"(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m(?:in)?)?(?:(?P<s>\d+(?:\.\d+)?)s?)?")


def parse(text: str | float) -> float:
    """Seconds of a budget: "5m", "90s", "1h", "1m30s", "20" (seconds). Raises UsageError."""
    written = str(text).strip().lower().replace(" ", "")
    match = _FORM.fullmatch(written)
    seconds = 0.0
    if written and match:
        seconds = sum(float(number) * _UNITS_S[unit] for unit, number in match.groupdict().items() if number)
    if seconds <= 0:
        raise UsageError(f'the budget {str(text)!r} is not a time; write it as "90s", "5m", "1h" or "20" for seconds')
    return seconds


class Deadline:
    """A budget that runs from the moment it is made."""

    def __init__(self, budget_s: float) -> None:
        self.budget_s = budget_s
        self._start = time.monotonic()

    @property
    def spent_s(self) -> float:
        return time.monotonic() - self._start

    @property
    def left_s(self) -> float:
        """Never negative."""
        return max(0.0, self.budget_s - self.spent_s)
