"""One entry behind the other."""

from typing import Any

import numpy as np

import kernelwright
from kernelwright.functions.chain import Link
from kernelwright.targets.entry.program import Entry, Slot, written

SUM = """
struct KwError { int32 kind, line, column, argument, axis, set; int64 index, size; };
extern "C" int32 total(const int64* const* arrays, const void* const*, void* results, KwError*) {
    double sum = 0;
    for (int64 i = 0; i < arrays[0][1] * arrays[0][2]; i++) sum += ((const double*)arrays[0][0])[i];
    *(double*)results = sum;
    return 0;
}
"""


def total(slot: Slot, **own: Any) -> Any:
    source = ("table", 0) if slot.kind == "bound" else ("argument", 0)
    entry = Entry("total", (slot,), (source,), (), ("float64",), **own)
    return kernelwright.compile(SUM, language="program", entries=written(entry))["total"]


def fail(address: int) -> None:
    raise AssertionError(address)


def test_a_bound_array_is_known_by_itself_and_its_shape() -> None:
    x = np.ones((2, 3))
    bound = Link(total(Slot("bound", "float64", 2), tables=1), fail, constants=[x])
    plain = Link(total(Slot("array", "float64", 2)), fail)
    bound.set_next(plain.call)
    plain.set_next(lambda *arguments: "slow")
    x[:] = 2  # the plain one sees this, as the table does, which is x itself here
    assert bound.call(x) == 12.0 and bound.call(x.copy()) == 12.0 and bound.call([1]) == "slow"
    bound.set_next(lambda *arguments: "next")
    assert bound.call(x) == 12.0
    assert bound.call(x.copy()) == "next" and bound.call(x[:]) == "next"
    x.shape = (3, 2)
    assert bound.call(x) == "next"
    x.shape = (2, 3)
    assert bound.call(x) == 12.0
    bound.release()
    assert bound.call(x) == "next"


def test_what_a_link_is_bound_to_lives_as_long_as_it() -> None:
    link = Link(total(Slot("array", "float64", 2)), fail)
    link.set_next(lambda *arguments: "next")
    call = link.call
    assert call(np.ones((2, 2))) == 4.0 and call(1) == "next"
