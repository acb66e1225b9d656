"""A source is translated once for its content, that of its includes, and its constants."""

from pathlib import Path

import pytest

from kernelwright import sandbox
from kernelwright.errors import CompileError, UsageError
from kernelwright.metal import frontend


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "home"))


TEXT = '#include "part.h"\nkernel void k(device int* a [[buffer(0)]]) { a[0] = N; }\n'


def test_recalled_until_an_include_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = tmp_path / "part.h"
    header.write_text("#define N 1\n")
    given = frontend.source(TEXT, include_dirs=[tmp_path])
    first = frontend.module(given)
    assert "a[0] = 1" in first.unit.text
    with monkeypatch.context() as patch:
        patch.setattr(frontend, "preprocess", lambda *_: pytest.fail("preprocessed again"))
        assert frontend.module(given) == first
    header.write_text("#define N 2\n")
    assert "a[0] = 2" in frontend.module(given).unit.text


def test_includes_beside_the_source(tmp_path: Path) -> None:
    (tmp_path / "part.h").write_text("#define N 3\n")
    assert "a[0] = 3" in frontend.module(frontend.source(TEXT, name=str(tmp_path / "k.metal"))).unit.text


def test_defines_and_constants_are_part_of_the_content() -> None:
    text = "constant int n [[function_constant(0)]];\nkernel void k(device int* a) { a[0] = n + N; }\n"
    made = [
        frontend.module(frontend.source(text, defines=[f"N={n}"], constants={"n": value})).unit.text
        for n, value in ((1, 1), (2, 1), (1, 2))
    ]
    assert len(set(made)) == 3


def test_a_missing_header_is_named() -> None:
    with pytest.raises(CompileError, match=r"shader\.metal:1:10: fatal error: 'part\.h' file not found"):
        frontend.module(frontend.source(TEXT))


@pytest.mark.skipif(sandbox.missing() is not None, reason="no sandbox keeps the compiler from files here")
def test_an_include_from_outside_has_to_be_meant(tmp_path: Path) -> None:
    (tmp_path / "part.h").write_text("#define N 4\n")
    (tmp_path / "kernels").mkdir()
    name = str(tmp_path / "kernels" / "k.metal")
    text = TEXT.replace("part.h", "../part.h")
    with pytest.raises(CompileError, match=rf"part\.h may not be read.*make {tmp_path} one \(-I, include_dirs=\)"):
        frontend.module(frontend.source(text, name=name))
    assert "a[0] = 4" in frontend.module(frontend.source(text, name=name, include_dirs=[tmp_path])).unit.text


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="include folder .* is not there"):
        frontend.module(frontend.source(TEXT, include_dirs=[tmp_path / "none"]))
