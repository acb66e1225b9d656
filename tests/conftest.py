"""Every test run has a home of its own, so that it neither reads nor disturbs the user's archive and caches."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_HOME = tempfile.TemporaryDirectory(prefix="kernelwright-tests-")
# Set at import, before any test module looks; child processes inherit it.
os.environ["KERNELWRIGHT_HOME"] = _HOME.name


@pytest.fixture(scope="session", autouse=True)
def clean_home() -> Iterator[Path]:
    yield Path(_HOME.name)
    _HOME.cleanup()
