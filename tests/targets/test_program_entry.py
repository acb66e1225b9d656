"""The entry of a loop program, on C++ written by hand: what it takes, what it hands on, what it answers."""

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import kernelwright
from kernelwright.targets.entry import program
from kernelwright.targets.entry.program import Entry, Slot, written

SUM = """
struct KwError { int32 kind, line, column, argument, axis, set; int64 index, size; };
extern "C" int32 total(const int64* const* arrays, const void* const* scalars, void* results, KwError* error) {
    const int64* x = arrays[0];
    const int64* out = arrays[1];
    double sum = 0;
    for (int64 i = 0; i < x[1]; i++) for (int64 j = 0; j < x[2]; j++)
        sum += double(((const TYPE*)x[0])[i * x[3] + j * x[4]]);
    int64 at = *(const int64*)scalars[0];
    if (uint64(at) >= uint64(out[1])) { *error = {1, 7, 3, 1, 0, 0, at, out[1]}; return 1; }
    ((double*)out[0])[at] = sum;
    *(double*)results = sum;
    ((int64*)results)[1] = x[1] * x[2];
    *((bool*)results + 16) = sum > 0;
    return 0;
}
"""
DTYPES = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


def entry_for(dtype: str, *, contiguous: bool = True) -> Entry:
    slots = (Slot("array", dtype, 2, contiguous), Slot("array", "float64", 1, written=True), Slot("scalar", "int64"))
    return Entry("total", slots, (("argument", 0), ("argument", 1)), (2,), ("float64", "int64", "bool"))


def loaded(entry: Entry, dtype: str) -> Any:
    text = SUM.replace("TYPE", program.SCALARS[dtype])
    return kernelwright.compile(text, language="program", entries=written(entry))["total"]


class Call:
    """An entry whose next one answers ("next", arguments) and whose failures raise IndexError."""

    def __init__(self, entry: Entry, dtype: str = "float64", words: tuple[int, ...] = ()) -> None:
        self.following = lambda *arguments, **names: ("next", len(arguments), names)
        self.failing = self._fail
        self.memory = bytearray(8 * entry.words)
        cells = (ctypes.c_int64 * entry.words).from_buffer(self.memory)
        cells[:] = [id(self.following), id(self.failing), *words]
        self.call = loaded(entry, dtype).bound(self.memory)

    def _fail(self, address: int) -> None:
        kind, line, column, argument, axis, _ = (ctypes.c_int32 * 6).from_address(address)
        index, size = (ctypes.c_int64 * 2).from_address(address + 24)
        raise IndexError(kind, line, column, argument, axis, index, size)

    def __call__(self, *arguments: Any, **names: Any) -> Any:
        return self.call(*arguments, **names)


@pytest.mark.parametrize("dtype", ("float32", "int8", "uint16", "uint64", "bool"))
def test_arrays_of_a_dtype_are_taken_and_no_others(dtype: str) -> None:
    call = Call(entry_for(dtype), dtype)
    out = np.zeros(3)
    for kind in DTYPES:
        x = np.ones((2, 3), kind)
        answer = call(x, out, 1)
        assert answer == ((6.0, 6, True) if kind == dtype else ("next", 3, {}))
        assert call(torch.from_numpy(x), torch.from_numpy(out), 1) == answer
    assert out.tolist() == [0, 6, 0]


def test_what_does_not_fit_is_handed_on() -> None:
    call = Call(entry_for("float64"))
    x, out = np.ones((2, 3)), np.zeros(3)
    read_only = out.copy()
    read_only.flags.writeable = False

    class Subclass(np.ndarray): ...  # fmt: skip

    tensor = torch.from_numpy(x)
    wrong = [
        (x, out),
        (x, out, 1.0),
        (x, out, True),
        (x, out, 2**63),
        (x[0], out, 1),
        (x.T, out, 1),
        (x.astype(">f8"), out, 1),
        (x, read_only, 1),
        (x.view(Subclass), out, 1),
        (x, [0.0] * 3, 1),
        (torch._neg_view(tensor), out, 1),
        (torch.nn.Parameter(tensor), out, 1),
        (torch.zeros(2, 3, dtype=torch.float64, device="meta"), out, 1),
    ]
    for arguments in wrong:
        assert call(*arguments) == ("next", len(arguments), {})
    assert call(x, out, at=1) == ("next", 2, {"at": 1})
    with torch.no_grad():
        assert call(torch.nn.Parameter(tensor), out, 1) == (6.0, 6, True)


def test_strides_are_passed_on_where_asked_for_and_contiguous_arrays_are_not() -> None:
    call = Call(entry_for("float64", contiguous=False))
    out = np.zeros(3)
    x = np.arange(24.0).reshape(4, 6)
    for view in (x.T, x[::-1], x[:, ::2], x[1:, 1:], np.broadcast_to(x[0, :2], (3, 2))):
        assert call(view, out, 0) == (view.sum(), view.size, True)
    tensor = torch.from_numpy(x)
    assert call(tensor.t(), out, 0) == (x.sum(), 24, True)
    assert call(x, out, 0)[0] == "next"
    field = np.zeros((3, 4), [("a", "f8"), ("b", "i4")])["a"]  # elements of 8 bytes, 12 bytes apart
    assert call(field, out, 0)[0] == "next"


def test_a_failure_raises_what_the_program_said() -> None:
    with pytest.raises(IndexError) as raised:
        Call(entry_for("float64"))(np.ones((2, 3)), np.zeros(3), -1)
    assert raised.value.args == (1, 7, 3, 1, 0, -1, 3)


def test_an_int_is_a_float_where_the_types_were_declared() -> None:
    text = """struct KwError {};
extern "C" int32 twice(const int64* const*, const void* const* scalars, void* results, KwError*) {
        *(double*)results = 2 * *(const double*)scalars[0]; return 0; }"""
    for exact in (True, False):
        entry = Entry("twice", (Slot("scalar", "float64", exact=exact),), (), (0,), ("float64",))
        memory = bytearray(8 * entry.words)
        following = lambda *arguments: "next"
        (ctypes.c_int64 * entry.words).from_buffer(memory)[0] = id(following)
        call = kernelwright.compile(text, language="program", entries=written(entry))["twice"].bound(memory)
        assert call(1.5) == 3.0
        assert call(2) == ("next" if exact else 4.0)


def test_guards_and_overlaps_are_checked() -> None:
    entry = replace(entry_for("float64"), guards=((0, 1), (1, 0)), apart=((0, 1),))
    call = Call(entry, words=(2, 1))  # axis 1 of the first above 2, axis 0 of the second above 1
    memory = np.ones(20)
    x, out = memory[:6].reshape(2, 3), memory[6:8]
    assert call(x, out, 0) == (6.0, 6, True)
    assert call(x[:, :2].copy(), out, 0)[0] == "next"
    assert call(x, out[:1], 0)[0] == "next"
    assert call(x, memory[5:7], 0)[0] == "next"
    assert memory[5] == 1
