"""What Ray takes from its workers is given back to a judge. Needs no Ray."""

import os
import subprocess
import sys

import pytest

WORKER = """
import os
from kernelwright.search.executors.ray import _undo_handicap
os.environ.setdefault("OMP_NUM_THREADS", "1")  # as Ray does in a worker that is running already
os.nice(15)
_undo_handicap()
print(os.environ.get("OMP_NUM_THREADS"), os.getpriority(os.PRIO_PROCESS, 0))
"""


def told(**extra: str) -> list[str]:
    kept = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    return subprocess.run(
        [sys.executable, "-c", WORKER], env=kept | extra, capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Ray's workers are judges on Linux alone")
def test_threads_and_priority_are_given_back_and_the_users_own_wish_stays() -> None:
    unset, wished = told(), told(OMP_NUM_THREADS="3")
    assert (unset[0], wished[0]) == ("None", "3")
    if os.geteuid() == 0:
        assert unset[1] == wished[1] == "0"
