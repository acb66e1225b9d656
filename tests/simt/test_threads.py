"""What threads compute of their numbers, against the same in Python."""

from collections.abc import Callable

import numpy as np
import pytest

from kernelwright.simt.threads import MOST, Threads, aligned_places

TID = "\tmov.u32 \t%r1, %tid.x;\n"
SHARED = ".weak .shared .align 16 .b8 tile[3072];\n.shared .align 4 .b8 small[64];\n"


def value(body: str, register: str) -> tuple[list[int], bool] | None:
    found = Threads((TID + body).splitlines(), aligned_places(SHARED)).value(register)
    return None if found is None else (found.parts.tolist(), found.somewhere)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("add.s32 \t%x, %r1, -5;", lambda t: (t - 5) % 2**32),
        ("sub.s16 \t%x, 3, %r1;", lambda t: (3 - t) % 2**16),
        ("mul.lo.s16 \t%x, %r1, 600;", lambda t: t * 600 % 2**16),
        ("mul.wide.u16 \t%x, %r1, 600;", lambda t: t * 600 % 2**32),
        ("mul.wide.s32 \t%x, %r1, -3;", lambda t: -3 * t % 2**64),
        ("mad.lo.s32 \t%x, %r1, 72, %r1;", lambda t: t * 73),
        ("mad.wide.s16 \t%x, %r1, -1, %r1;", lambda t: 0),
        ("and.b32 \t%x, %r1, 24;", lambda t: t & 24),
        ("or.b32 \t%x, %r1, 0x18;", lambda t: t | 24),
        ("xor.b64 \t%x, %r1, 5;", lambda t: t ^ 5),
        ("not.b16 \t%x, %r1;", lambda t: ~t % 2**16),
        ("shl.b16 \t%x, %r1, 8;", lambda t: (t << 8) % 2**16),
        ("shl.b32 \t%x, 1, %r1;", lambda t: (1 << t) % 2**32),
        ("shr.u32 \t%x, %r1, 3;", lambda t: t >> 3),
        ("shr.u32 \t%x, -1, %r1;", lambda t: (2**32 - 1) >> t),
        ("shr.u64 \t%x, -1, %r1;", lambda t: (2**64 - 1) >> t),
        ("cvt.u64.u32 \t%x, %r1;", lambda t: t),
        ("cvt.s32.s8 \t%x, %r1;", lambda t: ((t + 128) % 256 - 128) % 2**32),
        ("mov.b32 \t%x, -1;", lambda t: 2**32 - 1),
    ],
)
def test_instructions(instruction: str, expected: Callable[[int], int]) -> None:
    found = value(f"\t{instruction}\n", "%x")
    assert found is not None and not found[1]
    assert found[0] == [expected(thread) for thread in range(MOST)]


def test_shifts_of_negative_numbers_keep_the_sign() -> None:
    found = value("\tsub.s16 \t%rs1, 7, %r1;\n\tshr.s16 \t%x, %rs1, 2;\n", "%x")
    assert found is not None
    assert np.array(found[0], np.uint16).view(np.int16).tolist() == [(7 - thread) >> 2 for thread in range(MOST)]


def test_places_in_shared_memory_are_somewhere_and_stay_aligned() -> None:
    body = "\tmov.b64 \t%rd1, tile;\n\tmul.wide.u32 \t%rd2, %r1, 2;\n\tadd.s64 \t%rd3, %rd1, %rd2;\n"
    assert value(body, "%rd3") == ([2 * thread for thread in range(MOST)], True)
    launch = "\tmov.b64 \t%rd9, kernel_param_0;\n\tld.param.b32 \t%r2, [%rd9+260];\n\tcvt.u64.u32 \t%rd4, %r2;\n"
    assert value(body + launch + "\tadd.s64 \t%rd5, %rd3, %rd4;\n", "%rd5") == value(body, "%rd3")
    direct = "\tld.param.b32 \t%r2, [kernel_param_0+256];\n"
    assert value(direct, "%r2") == ([0] * MOST, True)


@pytest.mark.parametrize(
    "body",
    [
        "\tmov.u32 \t%x, %ctaid.x;\n",
        "\tld.param.b32 \t%x, [kernel_param_0+384];\n",
        "\tld.global.b32 \t%x, [%rd1];\n",
        "\tadd.f32 \t%x, %r1, %r1;\n",
        "\tmov.b32 \t%x, 0f00000000;\n",
        "\tadd.s32 \t%x, %x, 1;\n",
        "\tmov.b32 \t%x, 1;\n\tmov.b32 \t%x, 2;\n",
        "\t@%p1 mov.b32 \t%x, 1;\n",
        "\tadd.cc.s32 \t%x, %r1, 1;\n",
        "\tmul.hi.u32 \t%x, %r1, 1;\n",
        "\tcvt.rn.f32.u32 \t%x, %r1;\n",
        "\tmov.b64 \t%x, small;\n",
        "\tmov.b64 \t%rd1, tile;\n\tshl.b64 \t%x, %rd1, 1;\n",
        "\tmov.b64 \t%rd1, tile;\n\tsub.s64 \t%x, 8, %rd1;\n",
        "\tmov.b64 \t%rd1, tile;\n\tcvt.u16.u64 \t%x, %rd1;\n",
        "\tmov.b64 \t%rd1, tile;\n\tadd.cc.s64 \t%x, %rd1, %rd1;\n",
        "\tmov.b64 \t%rd1, tile;\n\tcvt.rn.f32.u64 \t%x, %rd1;\n",
        "\tcvt.s16.s8 \t%x, %r1;\n",
        "\tmov.b32 \t%x0, 0;\n"
        + "".join(f"\tadd.s32 \t%x{i + 1}, %x{i}, 1;\n" for i in range(4000))
        + "\tmov.b32 \t%x, %x4000;\n",
    ],
)
def test_what_hangs_on_more_is_not_known(body: str) -> None:
    assert value(body, "%x") is None
