"""Every test run has a home of its own, so that it neither reads nor disturbs the user's archive and caches."""

import fcntl
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_CHEATS = (
    ("exploits rejected", "test_an_exploit_is_rejected"),
    ("honest kernels accepted", "test_an_honest_kernel_is"),
)
# The home of the process that shares the tests out; None where there is but one.
_SHARED = Path(os.environ["KERNELWRIGHT_HOME"]) if "PYTEST_XDIST_WORKER" in os.environ else None
_HOME = tempfile.TemporaryDirectory(prefix="kernelwright-tests-")
# Set at import, before any test module looks; child processes inherit it.
os.environ["KERNELWRIGHT_HOME"] = _HOME.name


@pytest.fixture(scope="session", autouse=True)
def clean_home() -> Iterator[Path]:
    yield Path(_HOME.name)
    _HOME.cleanup()


@pytest.fixture(autouse=True)
def _turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where processes share the cores, tests that measure run alone, and the others with one thread of torch's each:
    two would wait for each other's turns."""
    if _SHARED is None:
        yield
        return
    alone = request.node.get_closest_marker("timing") is not None
    ignoring = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # what a process of its own has; xdist ignores it
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch and not alone else None
    with open(_SHARED / "door", "w") as door, open(_SHARED / "room", "w") as room:
        fcntl.flock(door, fcntl.LOCK_EX)  # who waits for an empty room lets nobody in meanwhile
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        if torch and threads:
            torch.set_num_threads(1)
        yield
        if torch and threads:
            torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, ignoring)


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
