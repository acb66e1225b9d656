"""Which tensor instructions come of products: several in one where they share an operand or follow each other."""

import pytest

from kernelwright.simt.mma import multiplied

HEAD = ".visible .entry kernel(\n\t.param .b64 p\n)\n{\n\t.reg .b32 \t%r<99>;\n\n"


def half(after: str, first: str, second: str, before: str) -> str:
    after, before = (", ".join(f"%{name}{i}" for i in (0, 1)) for name in (after, before))
    return f"\tsimt.product.f16 {{{after}}}, {{%{first}}}, {{%{second}}}, {{{before}}};\n"


def single(after: str, first: str, second: str, before: str) -> str:
    after, before = (", ".join(f"%{name}{i}" for i in (0, 1)) for name in (after, before))
    first, second = (", ".join(f"%{name}{i}" for i in range(4)) for name in (first, second))
    return f"\tsimt.product.tf32 {{{after}}}, {{{first}}}, {{{second}}}, {{{before}}};\n"


def instructions(body: str) -> list[str]:
    text = multiplied(HEAD + body + "\tret;\n}\n")
    assert "simt.product" not in text
    return [line.strip().replace("\t", "") for line in text.splitlines() if "mma.sync" in line]


def test_a_product_alone_fills_half_an_instruction() -> None:
    (line,) = instructions(half("d", "a", "b", "c"))
    assert line.startswith("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 ")
    assert "{%d0, %d1, %simt_sum2, %simt_sum3}, {%a, %simt_zero}, {%b}, {%c0, %c1, %simt_zero, %simt_zero}" in line


def test_products_of_one_second_operand_share_an_instruction() -> None:
    (line,) = instructions(half("d", "a", "b", "c") + half("h", "e", "b", "g"))
    assert "{%d0, %d1, %h0, %h1}, {%a, %e}, {%b}, {%c0, %c1, %g0, %g1};" in line


def test_steps_share_an_instruction_where_nobody_sees_the_sum_between() -> None:
    steps = half("d", "a", "b", "c") + half("h", "e", "f", "d")
    (line,) = instructions(steps)
    assert ".m16n8k16." in line and "{%a, %simt_zero, %e, %simt_zero}, {%b, %f}, {%c0, %c1" in line
    assert len(instructions(steps + "\tst.global.b32 \t[%rd1], %d0;\n")) == 2
    assert len(instructions(steps + half("d", "a", "b", "c"))) == 3  # made twice: the registers of a loop


def test_a_block_of_a_gemm_takes_a_quarter_of_the_instructions() -> None:
    sums = [[f"s{i}{j}" for j in range(2)] for i in range(4)]
    first = "".join(half(f"t{i}{j}", f"a{i}", f"b{j}", sums[i][j]) for i in range(4) for j in range(2))
    second = "".join(half(f"u{i}{j}", f"e{i}", f"f{j}", f"t{i}{j}") for i in range(4) for j in range(2))
    lines = instructions(first + second)
    assert len(lines) == 4 and all(".m16n8k16." in line for line in lines)


@pytest.mark.parametrize(
    "between",
    [
        "\tadd.f32 \t%x, %d0, %d1;\n",
        "\tmov.b32 \t%a, %x;\n",
        "\tmov.b32 \t%c1, %x;\n",
        "\tmov.b32 \t%b, %x;\n",
        "$L1:\n",
    ],
    ids=["its sum is used", "an operand changes", "a sum changes", "the second operand changes", "a label"],
)
def test_products_stay_apart_where_the_first_cannot_wait(between: str) -> None:
    assert len(instructions(half("d", "a", "b", "c") + between + half("h", "e", "b", "g"))) == 2


def test_a_product_that_takes_the_other_does_not_share_its_rows() -> None:
    assert len(instructions(half("d", "a", "b", "c") + half("h", "e", "b", "d"))) == 1  # two steps
    assert len(instructions(half("d", "a", "b", "c") + half("d", "e", "b", "c"))) == 2


def test_floats_take_three_instructions_for_two_products_and_sums_are_added_outside() -> None:
    body = single("d", "a", "b", "c") + single("h", "e", "b", "g")
    low, mixed, high = instructions(body)
    assert "{%a2, %e2, %a3, %e3}, {%b0, %b1}" in low and "{%a0, %e0, %a1, %e1}, {%b2, %b3}" in mixed
    assert "{%a0, %e0, %a1, %e1}, {%b0, %b1}" in high
    text = multiplied(HEAD + body + "\tret;\n}\n")
    assert text.count("add.rn.f32") == 4 and "add.rn.f32 \t%simt_sum3, %g1, %simt_sum3;" in text
    assert len(instructions(single("d", "a", "b", "c"))) == 2
    assert len(instructions(single("d", "a", "b", "c") + single("h", "e", "f", "d"))) == 4  # steps are kept apart


def test_ptx_without_products_stays_as_it_is() -> None:
    assert multiplied(HEAD + "\tret;\n}\n") == HEAD + "\tret;\n}\n"
