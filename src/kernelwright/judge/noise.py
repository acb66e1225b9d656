"""How far a kernel is found from itself on this machine, and what is remembered of it from quieter times."""

import json
import os
import time
from dataclasses import dataclass

from kernelwright.home import home

QUIET = 0.1
"""A floor above this is a neighbour's, not the machine's."""
UNKNOWN = 0.02
"""Before anything was measured."""


@dataclass(frozen=True)
class Noise:
    """One measurement: a baseline beside itself."""

    floor: float = 0.0
    disturbed: bool = True
    """Whether others used the processor meanwhile."""
    at_s: float = -1e9
    """By time.monotonic()."""

    @property
    def quiet(self) -> bool:
        """Whether it tells of the machine, so that it may decide and be kept."""
        return not self.disturbed and self.floor <= QUIET

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.at_s

    def remember(self, environment: str) -> None:
        """Keeps it in home() for the environment with this digest."""
        path = home() / "noise.json"
        made = path.with_suffix(f".{os.getpid()}.tmp")
        made.write_text(json.dumps({**_read(), environment: self.floor}))
        made.replace(path)

    @staticmethod
    def remembered(environment: str) -> float:
        """The newest quiet floor of the environment; UNKNOWN where there is none. Never above QUIET."""
        floor = _read().get(environment, UNKNOWN)
        return floor if isinstance(floor, float) and 0.0 < floor <= QUIET else UNKNOWN


def _read() -> dict[str, float]:
    try:
        found = json.loads((home() / "noise.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
