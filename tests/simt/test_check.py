"""The check build tells of what is wrong, and of nothing that is right."""

import numpy as np
import pytest

from kernelwright import simt
from kernelwright.simt import Entry, Fault, Parameter, Unit

TEXT = r"""
#include "simt.hpp"
# 1 "kernels"
using namespace simt;
void barrier_between(float* a, u32 t) {
  SIMT_GROUP float tile[128];
  tile[t] = a[t];
  group_barrier(2);
  a[t] = tile[127 - t];
}
void simd_barrier_between(float* a, u32 t) {
  SIMT_GROUP float tile[128];
  tile[t] = a[t];
  simd_barrier(2);
  a[t] = tile[t ^ 31];
}
void exchange_between(float* a, u32 t) {
  SIMT_GROUP float part[4];
  float sum = reduce<Sum>(a[t]);
  if (t % 32 == 0) part[t / 32] = sum;
  a[t] = shuffle(sum, 0) + part[t / 32];
}
void atomics_alone(float* a, u32 t) {
  SIMT_GROUP int count;
  if (t == 0) atomic_store(&count, 0);
  group_barrier(2);
  atomic_fetch_add(&count, 1);
  group_barrier(2);
  a[t] = count;
}
void all_write_the_same(float* a, u32 t) {
  SIMT_GROUP float flag;
  flag = 3;
  group_barrier(2);
  a[t] = flag;
}
void unwritten_but_unused(float* a, u32 t) {
  SIMT_GROUP float tile[128];
  if (t < 64) tile[t] = a[t];
  group_barrier(2);
  float v = tile[t];
  a[t] = t < 64 ? v : 0;
}
void own_array(float* a, u32 t) {
  float mine[16];
  for (u32 i = 0; i < 16; i++) mine[i] = a[t] + i;
  u32 at = u32(a[t]) % 16;
  a[t] = mine[at];
}
void neighbours_in_bytes(float* a, u32 t) {
  SIMT_GROUP unsigned char tile[128];
  tile[t] = 1;
  group_barrier(2);
  a[t] = tile[t ^ 1];
}
void exchange_in_a_branch(float* a, u32 t) {
  if (t % 2) a[t] = reduce<Sum>(a[t]);
}
void through_a_pointer(float* a, u32 t) {
  float** list = (float**)a;
  list[0][t] = t;
}
void same_memory(float* a, u32 t, const float* b) {
  if (t == 0 && a == b) a[1] = 7;
}
// Wrong ones.
void race_of_two(float* a, u32 t) {
  SIMT_GROUP float tile[128];
  tile[t] = a[t];
  a[t] = tile[t ^ 64];
}
void outside(float* a, u32 t) {
  a[t * 2] = 1;
}
"""
GOOD = [
    "barrier_between",
    "simd_barrier_between",
    "exchange_between",
    "atomics_alone",
    "all_write_the_same",
    "unwritten_but_unused",
    "own_array",
    "neighbours_in_bytes",
    "exchange_in_a_branch",
]
POINTERS = ["through_a_pointer"]
WRONG = ["race_of_two", "outside"]
PARAMETERS = (
    Parameter("a", "buffer", 0, "float *", writable=True, element_bytes=4),
    Parameter("t", "builtin", 0, "u32", builtin="thread_in_grid"),
)


@pytest.fixture(scope="module")
def built() -> simt.Library:
    entries = [Entry(name, name, PARAMETERS) for name in GOOD + POINTERS + WRONG]
    entries.append(Entry("same_memory", "same_memory", (*PARAMETERS, Parameter("b", "buffer", 1, "const float *"))))
    return simt.build(Unit(TEXT, tuple(entries)), [entry.name for entry in entries], check=True)


def launched(built: simt.Library, name: str) -> tuple[np.ndarray, tuple[Fault, ...]]:
    a = np.arange(128, dtype=np.float32)
    report = built.launch(name, {0: (a.ctypes.data, a.nbytes)}, threads=[128], group_size=[128])
    return a, report.faults


@pytest.mark.parametrize("name", GOOD)
def test_right_kernels_are_silent(built: simt.Library, name: str) -> None:
    _, faults = launched(built, name)
    assert not faults, faults[0].message


def test_results_are_those_of_the_kernel(built: simt.Library) -> None:
    a, _ = launched(built, "barrier_between")
    np.testing.assert_array_equal(a, np.arange(127, -1, -1))


def test_a_race_names_both_sides(built: simt.Library) -> None:
    _, (fault,) = launched(built, "race_of_two")
    assert fault.kind is simt.FaultKind.RACE and fault.other is not None
    lines = TEXT.split('# 1 "kernels"\n')[1].splitlines()
    told = {lines[fault.place.line - 1].strip(), lines[fault.other.line - 1].strip()}
    assert told == {"tile[t] = a[t];", "a[t] = tile[t ^ 64];"}
    assert fault.memory == "group variable tile" and fault.times == 128


def test_a_wrong_index_names_the_element(built: simt.Library) -> None:
    _, (fault,) = launched(built, "outside")
    assert fault.kind is simt.FaultKind.OUT_OF_BOUNDS and fault.times == 64
    assert "element 128 of buffer 0 (a), which has 128 elements" in fault.message
    assert fault.thread == (64, 0, 0) and fault.place.function == "outside"


def test_memory_behind_an_address_in_a_buffer_is_the_callers(built: simt.Library) -> None:
    values = np.zeros(128, np.float32)
    table = np.array([values.ctypes.data, 0], np.uint64)
    memory = {0: (table.ctypes.data, table.nbytes)}
    report = built.launch("through_a_pointer", memory, threads=[128], group_size=[128])
    assert report.faults == () and values.tolist() == list(range(128))


def test_buffers_that_share_memory_share_it(built: simt.Library) -> None:
    a = np.zeros(128, np.float32)
    memory = {0: (a.ctypes.data, a.nbytes), 1: (a.ctypes.data, a.nbytes)}
    report = built.launch("same_memory", memory, threads=[128], group_size=[128])
    assert report.faults == () and a[1] == 7
    memory[1] = (a.ctypes.data + 64, 64)
    a[:] = 0
    built.launch("same_memory", memory, threads=[128], group_size=[128])
    assert a[1] == 0


def test_launches_are_independent(built: simt.Library) -> None:
    first = launched(built, "outside")[1]
    assert launched(built, "barrier_between")[1] == ()
    assert launched(built, "outside")[1] == first
