"""The user's face: torch.mps.compile_shader's convention, on tensors and arrays of this machine."""

from pathlib import Path

import numpy as np
import pytest
import torch

from kernelwright import simt
from kernelwright.errors import CompileError, LaunchError, UnknownNameError
from kernelwright.metal import Library, compile_shader

SOURCE = """
#include <metal_stdlib>
using namespace metal;
constant int step_of [[function_constant(0)]];
kernel void scale(device float* out, device const float* x, constant float& a, uint i [[thread_position_in_grid]]) {
  out[i] = a * x[i] + step_of;
}
[[max_total_threads_per_threadgroup(64)]] kernel void numbers(
    device float* out, constant int* a, constant half* b, constant uchar& c, device const float* d [[buffer(4)]],
    uint2 g [[thread_position_in_grid]], uint2 size [[threads_per_grid]]) {
  out[g.y * size.x + g.x] = a[0] + a[1] + float(b[0]) + c;
}
template <typename T> kernel void sum_of(device T* out, constant ulong* tables, uint i [[thread_position_in_grid]]) {
  out[i] = ((device const T*)tables[0])[i] + ((device const T*)tables[1])[i];
}
template [[host_name("sum_of float")]] kernel void sum_of<float>(device float*, constant ulong*, uint);
"""


@pytest.fixture(scope="module")
def library() -> Library:
    made = compile_shader(SOURCE, constants={0: 2})
    assert isinstance(made, Library)
    return made


def test_kernels_are_listed_by_name(library: Library) -> None:
    assert dir(library) == ["numbers", "scale", "sum_of float"]
    assert {c.name: c.number for c in library.constants} == {"step_of": 0}
    with pytest.raises(UnknownNameError, match="did you mean scale"):
        library.scal  # noqa: B018


def test_a_kernel_tells_its_limits(library: Library) -> None:
    assert library.numbers.max_threads_per_threadgroup == 64
    assert library.scale.max_threads_per_threadgroup == 1024 and library.scale.thread_execution_width == 32


TILES = """
#include <metal_stdlib>
using namespace metal;
struct Pair { half4 a; float3 b; };
constant bool wide [[function_constant(0)]];
template <typename T, int N> void swap_through(device T* out, uint i) {
  threadgroup T tile[N];
  tile[i] = out[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = tile[N - 1 - i];
}
template <typename T> kernel void turn(device T* out, uint i [[thread_position_in_threadgroup]]) {
  if (wide) swap_through<T, 64>(out, i); else swap_through<T, 32>(out, i);
}
template [[host_name("turn_float")]] kernel void turn<float>(device float*, uint);
template [[host_name("turn_half")]] kernel void turn<half>(device half*, uint);
kernel void odd(device float* out, uint i [[thread_position_in_threadgroup]]) {
  threadgroup char c;
  threadgroup Pair pairs[3];
  if (i == 0) { c = 1; pairs[2].b = float3(2); }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = c + pairs[2].b.x;
}
kernel void none(device float* out, threadgroup float* tile [[threadgroup(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = i;
}
"""


@pytest.mark.parametrize(("wide", "lanes"), [(False, 32), (True, 64)])
def test_threadgroup_memory_is_what_a_kernel_declares(wide: bool, lanes: int) -> None:
    """A pair takes 32 bytes and begins at a multiple of 16; memory that the launch sizes does not count."""
    tiles = compile_shader(TILES, constants={0: wide})
    assert isinstance(tiles, Library)
    expected = {"none": 0, "odd": 16 + 3 * 32, "turn_float": 4 * lanes, "turn_half": 2 * lanes}
    assert {entry.name: entry.group_memory_bytes for entry in tiles.measured()} == expected
    assert tiles.turn_half.static_thread_group_memory_length == 2 * lanes
    (turn,) = tiles.measured(["turn_float"])
    assert turn.group_memory_bytes == 4 * lanes


def test_kernels_compiled_together_are_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = compile_shader(TILES, constants={0: False})
    assert isinstance(tiles, Library)
    tiles.build(["turn_float", "turn_half"])
    monkeypatch.setattr(simt, "build", lambda *_, **__: pytest.fail("compiled again"))
    out = np.arange(32, dtype=np.float16)
    tiles.turn_half(out, threads=32, group_size=32)
    assert out.tolist() == list(range(31, -1, -1))
    with pytest.raises(pytest.fail.Exception, match="compiled again"):
        tiles.none.build()


def test_threadgroup_memory_is_free_to_tell_where_there_is_none(library: Library) -> None:
    assert {entry.group_memory_bytes for entry in library.measured()} == {0}


def test_tensors_and_arrays(library: Library) -> None:
    x, out = torch.arange(8.0), torch.zeros(8)
    library.scale(out, x, 2.0)
    assert torch.equal(out, x * 2 + 2)
    library.scale(out[4:], x[2:], 1.0, threads=2, group_size=2)
    assert out.tolist() == [2, 4, 6, 8, 4, 5, 14, 16]
    array = np.zeros(8, np.float32)
    library.scale(array, x.numpy(), np.float32(3))
    assert array.tolist() == (x * 3 + 2).tolist()


def test_numbers_lists_and_casts(library: Library) -> None:
    out = torch.zeros(2, 3)
    casts = {1: "int32", 2: "fp16", 3: "uint8"}
    library.numbers(out, [3, 4], [0.5], 200, None, threads=(3, 2), group_size=(2, 2), arg_casts=casts)
    assert out.tolist() == [[207.5] * 3] * 2


def test_a_list_of_tensors_is_a_list_of_addresses(library: Library) -> None:
    out = torch.zeros(3)
    library["sum_of float"](out, [torch.ones(3), torch.arange(3.0)])
    assert out.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("text",), "argument 0 is 'text'"),
        ((torch.zeros(2, dtype=torch.float64),), "float64, which Metal does not have"),
        ((np.zeros(4, np.float32)[::2],), "not contiguous"),
        ((torch.zeros(2), []), "argument 1 is"),
        ((torch.zeros(2), torch.zeros(2)), r"buffer 2 \(a\) is missing"),
        ((torch.zeros(2, device="meta"),), "lies on meta"),
        ((1.0, 2.0, 3.0), "give threads="),
    ],
)
def test_what_does_not_fit(library: Library, arguments: tuple, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        library.scale(*arguments)


def test_groups_that_do_not_fit(library: Library) -> None:
    out = torch.zeros(4)
    with pytest.raises(LaunchError, match="threads has 1 numbers and group_size 2"):
        library.scale(out, out, 1.0, threads=4, group_size=(2, 2))
    with pytest.raises(LaunchError, match="it may have 64"):
        library.numbers(out, 1, 1.0, 1, None, threads=256, group_size=128)
    with pytest.raises(LaunchError, match="does not fit uint8"):
        library.scale(out, out, 300, arg_casts={2: "uint8"})
    with pytest.raises(LaunchError, match="arg_casts knows"):
        library.scale(out, out, 3, arg_casts="uint32")


def test_pytorchs_headers_and_reported_errors() -> None:
    source = """
    #include <c10/metal/error.h>
    #include <c10/metal/special_math.h>
    kernel void k(device float* out, constant float* x, device c10::metal::ErrorMessages* errors,
                  uint i [[thread_position_in_grid]]) {
      if (x[i] > 9) TORCH_REPORT_ERROR(errors, "x is ", int(x[i]), " at ", i);
      out[i] = c10::metal::erf(x[i]);
    }
    """
    kernel = compile_shader(source, include_dirs=[Path(torch.__file__).parent / "include"]).k
    x, out = torch.linspace(-2, 2, 64), torch.zeros(64)
    kernel(out, x, error_buf_idx=2)
    torch.testing.assert_close(out, x.erf())
    x[5] = 11
    with pytest.raises(LaunchError, match=r"k, shader\.metal:\d+: x is 11 at 5"):
        kernel(out, x, error_buf_idx=2)


def test_errors_show_the_users_line_and_caret() -> None:
    source = "#define WIDE 4.0\n\nkernel void k(device float* a, device half4* b) {\n\ta[0] = miss(WIDE); }\n"
    with pytest.raises(CompileError) as caught:
        compile_shader(source, name="mine.metal").k(torch.zeros(1), torch.zeros(4))
    assert str(caught.value).splitlines() == [
        "mine.metal:4:9: error: use of undeclared identifier 'miss'",
        "    \ta[0] = miss(WIDE); }",
        "    \t       ^",
        "1 error generated.",
    ]
