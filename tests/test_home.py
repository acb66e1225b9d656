"""The folder for what outlives a run."""

from pathlib import Path

import pytest

from kernelwright.errors import UsageError
from kernelwright.home import home


def test_the_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "a" / "b"))
    assert home() == tmp_path / "a" / "b"
    assert home().is_dir()


def test_a_file_of_that_name_is_the_callers_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"KERNELWRIGHT_HOME names .*file, which is no folder"):
        home()
