"""Builds are kept by content: made once, recalled, made again when a file they read has changed or they are damaged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelwright.simt import Entry, Parameter, Unit, build, store


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "home"))


def maker(read: list[Path], made: list[int]) -> Callable[[Path], Any]:
    def make(folder: Path) -> Any:
        made.append(1)
        (folder / "result").write_text("done")
        return {"answer": 42}, read

    return make


def test_made_once(tmp_path: Path) -> None:
    made: list[int] = []
    first = store.recall_or("ab" * 32, maker([], made))
    second = store.recall_or("ab" * 32, maker([], made))
    assert (first.cached, second.cached, len(made)) == (False, True, 1)
    assert second.record["answer"] == 42 and (second.folder / "result").read_text() == "done"


def test_a_file_that_changed_makes_it_stale(tmp_path: Path) -> None:
    made: list[int] = []
    header = tmp_path / "header.h"
    for text in ("one", "one", "two"):
        header.write_text(text)
        store.recall_or("cd" * 32, maker([header], made))
    assert len(made) == 2


def test_damage_is_repaired(tmp_path: Path) -> None:
    made: list[int] = []
    first = store.recall_or("ef" * 32, maker([], made))
    (first.folder / "record.json").write_text("{")
    assert not store.recall_or("ef" * 32, maker([], made)).cached
    assert store.recall_or("ef" * 32, maker([], made)).cached


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> Any:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        store.recall_or("01" * 32, fail)
    assert not list((tmp_path / "home").rglob(".building-*"))


def test_included_files_count(tmp_path: Path) -> None:
    (tmp_path / "value.h").write_text("#define VALUE 1\n")
    parameters = (Parameter("y", "buffer", 0, "int *"), Parameter("i", "builtin", 0, "u32", builtin="thread_in_grid"))
    text = '#include "simt.hpp"\n#include "value.h"\nstatic void set(int* y, simt::u32 i) { y[i] = VALUE; }\n'
    unit = Unit(text, (Entry("set", "set", parameters),), (str(tmp_path),))
    assert not build(unit, ["set"]).cached
    assert build(unit, ["set"]).cached
    (tmp_path / "value.h").write_text("#define VALUE 2\n")
    assert not build(unit, ["set"]).cached
