"""Types as Numba writes them, and its options."""

import re
from pathlib import Path
from typing import Any

import pytest
from user_loops import axpy

import kernelwright as kw
from kernelwright.errors import MissingError, UnknownNameError, UsageError
from kernelwright.functions.options import MISSING_TARGETS, REFUSED, WITHOUT_EFFECT
from kernelwright.functions.signatures import read_signatures


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("void(float64[:], int32[:,:], float32)", ["(float64[::1], int32[:, ::1], float32)"]),
        ("(f8[:, ::1], i8)", ["(float64[:, ::1], int64)"]),
        ("float64(u1, b1, intp)", ["(uint8, bool, int64)"]),
        (["f4(f4)", "f8(f8)"], ["(float32)", "(float64)"]),
        (("float64[:]", "int64"), ["(float64[::1], int64)"]),
        ("(Array(float64, 2, 'C', False, aligned=True), int64) -> none", ["(float64[:, ::1], int64)"]),
        ("void()", ["()"]),
        (None, []),
    ],
)
def test_signatures(given: Any, read: list[str]) -> None:
    assert [str(signature) for signature in read_signatures(given)] == read


def test_a_result_is_read() -> None:
    assert [str(item.result) for item in read_signatures(["f4(f4)", "void(f4)"])] == ["ScalarType.FLOAT32", "None"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("float64[:]", "is no signature"),
        ("void(complex128[:])", "complex numbers are not supported"),
        ("void(string)", "no such type is known; known: bool"),
        ("void(float64[::1, :])", "the last may be '::1'"),
        ("void(float64[3])", "axes are ':'"),
    ],
)
def test_a_wrong_signature_is_told(given: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=re.escape(sentence)):
        read_signatures(given)


def test_targets_that_are_not_there_say_what_is_missing() -> None:
    for target, sentence in MISSING_TARGETS.items():
        with pytest.raises(MissingError, match=re.escape(sentence)):
            kw.njit(target=target)(axpy)
    with pytest.raises(UnknownNameError, match="did you mean cuda"):
        kw.njit(target="cudaa")(axpy)


def test_numba_options_are_without_effect_or_refused_by_name() -> None:
    kw.njit(nopython=True, nogil=True, cache=True, fastmath=True, error_model="numpy", inline="always")(axpy)
    for name, reason in REFUSED.items():
        with pytest.raises(UsageError, match=re.escape(f"{name}=True is not supported: {reason}")):
            kw.njit(**{name: True})(axpy)
    with pytest.raises(UsageError, match="no object mode"):
        kw.njit(nopython=False)(axpy)
    with pytest.raises(UsageError, match="error_model='python'"):
        kw.njit(error_model="python")(axpy)
    with pytest.raises(UnknownNameError, match="did you mean parallel"):
        kw.njit(paralel=True)(axpy)


def test_the_page_has_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "loops.md").read_text()
    for name, reason in (*WITHOUT_EFFECT.items(), *REFUSED.items()):
        assert re.search(rf"\| `{name}`.*{re.escape(reason)}", page), f"docs/loops.md lacks the row of {name}"
