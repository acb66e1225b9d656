"""Members of a room are found by their file names."""

import sys
import textwrap
from pathlib import Path

import pytest

import kernelwright
from kernelwright import plugins
from kernelwright.errors import UnknownNameError


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "hammer.py").write_text(
        textwrap.dedent(
            """
            from pathlib import Path

            class HammerTool:
                name = "hammer"

            class Nail:
                name = "nail"
            """
        )
    )
    (folder / "saw.py").write_text("class SawTool:\n    name = 'saw'\n")
    monkeypatch.setattr(kernelwright, "__path__", [*kernelwright.__path__, str(tmp_path)])
    plugins.members.cache_clear()
    yield "tools"
    plugins.members.cache_clear()
    for name in [name for name in sys.modules if name.startswith("kernelwright.tools")]:
        del sys.modules[name]


def test_members_are_found_and_sorted(room: str) -> None:
    assert list(plugins.members(room, "Tool")) == ["hammer", "saw"]
    assert plugins.find(room, "Tool", "saw").__name__ == "SawTool"


def test_a_member_in_the_file_of_its_name_is_found_without_the_others(room: str) -> None:
    assert plugins.find(room, "Tool", "saw").__name__ == "SawTool"
    assert "kernelwright.tools.hammer" not in sys.modules


def test_an_unknown_name_gets_its_neighbours(room: str) -> None:
    with pytest.raises(UnknownNameError, match=r"no tool is called 'hamer'; did you mean hammer\?"):
        plugins.find(room, "Tool", "hamer")
