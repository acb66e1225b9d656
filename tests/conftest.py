"""Every test run has a home of its own, so that it neither reads nor disturbs the user's archive and caches."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_CHEATS = (
    ("exploits rejected", "test_an_exploit_is_rejected"),
    ("honest kernels accepted", "test_an_honest_kernel_is"),
)
_HOME = tempfile.TemporaryDirectory(prefix="kernelwright-tests-")
# Set at import, before any test module looks; child processes inherit it.
os.environ["KERNELWRIGHT_HOME"] = _HOME.name


@pytest.fixture(scope="session", autouse=True)
def clean_home() -> Iterator[Path]:
    yield Path(_HOME.name)
    _HOME.cleanup()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How the judge's own test stands: tests/cheats."""
    counted = []
    for title, test in _CHEATS:
        right, wrong = (
            sum(
                f"{test}" in report.nodeid
                for report in terminalreporter.stats.get(outcome, ())
                if report.when == "call"
            )
            for outcome in ("passed", "failed")
        )
        if right or wrong:
            counted.append(f"{right} of {right + wrong} {title}")
    if counted:
        terminalreporter.write_line("judge: " + ", ".join(counted))
