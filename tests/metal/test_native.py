"""On a Mac the call goes to torch.mps; held here to a fake of it."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.errors import CompileError, UsageError
from kernelwright.metal import compile_shader, native


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine where torch finds Metal; what is compiled is noted."""
    seen: list[str] = []

    def fake(source: str) -> Any:
        seen.append(source)
        if "broken" in source:
            raise SyntaxError("program_source:1:1: error: broken")
        return "library"

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "compile_shader", fake)
    return seen


def test_torch_compiles(mac: list[str]) -> None:
    assert compile_shader("kernel void k() {}") == "library"
    assert mac == ["kernel void k() {}"]


def test_macros_stand_before_the_source(mac: list[str]) -> None:
    compile_shader("text", defines=["N=4", "FAST"])
    assert mac == ["#define N 4\n#define FAST\n#line 1\ntext"]


def test_metals_words_come_back(mac: list[str]) -> None:
    with pytest.raises(CompileError, match=r"a\.metal does not compile\nprogram_source:1:1: error: broken"):
        compile_shader("broken", name="a.metal")


def test_torchs_own_headers_are_found_by_torch(mac: list[str]) -> None:
    text = "#include <c10/metal/utils.h>"
    compile_shader(text, include_dirs=[Path(torch.__file__).parent / "include"])
    assert mac == [text]


def test_what_torch_has_no_word_for(mac: list[str]) -> None:
    with pytest.raises(UsageError, match="function constants"):
        compile_shader("text", constants={0: True})
    with pytest.raises(UsageError, match="include folders"):
        compile_shader("text", include_dirs=["."])


def test_elsewhere_it_is_hosted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert not native.available()
