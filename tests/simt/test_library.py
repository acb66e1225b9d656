"""What a launch refuses, in a sentence that says what to do."""

import ctypes
from collections.abc import Mapping
from typing import Any

import pytest

from kernelwright.errors import CompileError, LaunchError, UnknownNameError, UsageError
from kernelwright.simt import Entry, Library, Parameter, Unit, build

PARAMETERS = (
    Parameter("y", "buffer", 0, "float *", writable=True),
    Parameter("tile", "group_memory", 1, "float *"),
    Parameter("i", "builtin", 0, "u32", builtin="thread_in_grid"),
)
TEXT = '#include "simt.hpp"\nstatic void fill(float* y, float* tile, simt::u32 i) { tile[0] = 1; y[i] = tile[0]; }\n'


@pytest.fixture(scope="module")
def library() -> Library:
    return build(Unit(TEXT, (Entry("fill", "fill", PARAMETERS, max_threads=64),)), ["fill"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arguments": {}}, "buffer 0 (y) is missing"),
        ({"arguments": {0: bytes(64)}}, "the kernel may write buffer 0 (y): no bytes"),
        ({"arguments": {0: (0, 0), 99: (0, 0)}}, "there is no buffer 99"),
        ({"group_memory": {}}, "group memory 1 (tile) needs a size"),
        ({"group_memory": {1: 1 << 20}}, "of group memory; at most"),
        ({"group_size": (65,)}, "a group of 65 threads is asked for; it may have 64"),
        ({"group_size": (0,)}, "group_size must be one to three numbers"),
        ({"threads": (1, 1, 1, 1)}, "threads must be one to three numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_is_refused(library: Library, change: Mapping[str, Any], words: str) -> None:
    y = ctypes.create_string_buffer(64)
    good = {"arguments": {0: (ctypes.addressof(y), 64)}, "threads": (4,), "group_size": (4,), "group_memory": {1: 64}}
    library.launch("fill", **good)
    with pytest.raises(LaunchError) as caught:
        library.launch("fill", **{**good, **change})
    assert words in str(caught.value) and str(caught.value).startswith("fill")


def test_unknown_kernels_and_hosts(library: Library) -> None:
    with pytest.raises(UnknownNameError, match="fill"):
        library.launch("fil", {}, threads=(1,), group_size=(1,))
    unit = Unit(TEXT, (Entry("fill", "fill", PARAMETERS),))
    with pytest.raises(UnknownNameError):
        build(unit, ["pour"])
    with pytest.raises(UsageError, match="no host is called 'tpu'"):
        build(unit, ["fill"], host="tpu")  # pyright: ignore[reportArgumentType]


def test_errors_keep_the_users_lines() -> None:
    text = '#include "simt.hpp"\n# 7 "own.kernel"\nstatic void wrong(float* y) { y[0] = missing; }\n'
    with pytest.raises(CompileError, match=r"own\.kernel:7:\d+: error: use of undeclared identifier 'missing'"):
        build(Unit(text, (Entry("wrong", "wrong", PARAMETERS[:1]),)), ["wrong"])


def test_an_unknown_builtin_is_named() -> None:
    odd = Parameter("i", "builtin", 0, "u32", builtin="moon_phase")
    with pytest.raises(CompileError, match="parameter i asks for 'moon_phase'"):
        build(Unit(TEXT, (Entry("fill", "fill", (odd,)),)), ["fill"])
