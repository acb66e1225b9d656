"""Lanes are made to wait for each other where all of a warp must come, and nowhere else."""

import pytest

from kernelwright.simt.convergence import converged, without_idle_waits

HEAD = ".visible .entry kernel(\n\t.param .b64 p\n)\n{\n\tmov.u32 \t%r1, %tid.x;\n\tmov.u32 \t%r2, %ctaid.x;\n"
ASK = "\tactivemask.b32 \t%r9;\n"
WAIT = "\tbar.warp.sync \t-1;\n"


def waits(body: str) -> bool:
    return WAIT + ASK in converged(HEAD + body + "\tret;\n}\n")


def branch(condition: str) -> str:
    return f"{condition}\t@%p1 bra \t$L1;\n{ASK}$L1:\n\tst.global.b32 \t[%rd1], %r1;\n"


def test_straight_code_waits() -> None:
    assert waits(ASK)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("\tsetp.lt.u32 \t%p1, %r1, 16;\n", False),
        ("\tsetp.lt.u32 \t%p1, %r2, 16;\n", True),
        ("\tshr.u32 \t%r3, %r1, 5;\n\tsetp.eq.b32 \t%p1, %r3, 0;\n", True),
        ("\tshr.u32 \t%r3, %r1, 4;\n\tsetp.eq.b32 \t%p1, %r3, 0;\n", False),
        ("\tand.b32 \t%r3, %r1, 992;\n\tsetp.eq.b32 \t%p1, %r3, 0;\n", True),
        ("\tand.b32 \t%r3, %r1, 31;\n\tsetp.eq.b32 \t%p1, %r3, 0;\n", False),
        ("\tld.global.b32 \t%r3, [%rd1];\n\tsetp.eq.b32 \t%p1, %r3, 0;\n", True),
        ("\tadd.s64 \t%rd2, %rd1, %r1;\n\tld.global.b32 \t%r3, [%rd2];\n\tsetp.eq.b32 \t%p1, %r3, 0;\n", False),
        ("\tshfl.sync.idx.b32 \t%r3, %r2, 0, 31, -1;\n\tsetp.eq.b32 \t%p1, %r3, 0;\n", False),
        ("\tatom.global.add.u32 \t%r3, [%rd1], 1;\n\tsetp.eq.b32 \t%p1, %r3, 0;\n", False),
    ],
    ids=[
        "lane",
        "group",
        "warp",
        "half warp",
        "warp by mask",
        "lane by mask",
        "same value",
        "own value",
        "shfl",
        "atom",
    ],
)
def test_within_a_branch_it_matters_who_decides(condition: str, expected: bool) -> None:
    assert waits(branch(condition)) == expected


def test_behind_a_branch_all_are_there_again() -> None:
    own = "\tsetp.lt.u32 \t%p1, %r1, 16;\n\t@%p1 bra \t$L1;\n\tst.global.b32 \t[%rd1], %r1;\n$L1:\n"
    assert waits(own + ASK)


def test_a_value_chosen_by_such_a_branch_is_a_lanes_own() -> None:
    chosen = "\tsetp.lt.u32 \t%p2, %r1, 16;\n\tmov.b32 \t%r4, 0;\n\t@%p2 bra \t$L2;\n\tmov.b32 \t%r4, 1;\n$L2:\n"
    assert not waits(chosen + branch("\tsetp.eq.b32 \t%p1, %r4, 0;\n"))


def test_lanes_that_ended_are_not_waited_for() -> None:
    assert waits("\tsetp.ge.u32 \t%p1, %r1, 100;\n\t@%p1 bra \t$L1;\n" + ASK + "$L1:\n")


def test_loops_that_lanes_leave_apart() -> None:
    loop = "$L1:\n{}\tsub.s32 \t%r5, %r5, 1;\n\tsetp.ne.s32 \t%p1, %r5, 0;\n\t@%p1 bra \t$L1;\n"
    loop += "\tst.global.b32 \t[%rd1], %r1;\n"
    assert not waits("\tmov.u32 \t%r5, %r1;\n" + loop.format(ASK))
    assert waits("\tmov.u32 \t%r5, %r2;\n" + loop.format(ASK))
    assert waits("\tmov.u32 \t%r5, %r1;\n" + loop.format("") + ASK)


def test_what_is_not_understood_adds_nothing() -> None:
    assert not waits("\tbrx.idx \t%r1, $T;\n" + ASK)


LOAD, STORE = "\tld.shared.b32 \t%r3, [%rd1];\n", "\tst.shared.b32 \t[%rd1], %r3;\n"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (WAIT + LOAD + WAIT + LOAD + WAIT, 2),
        (WAIT + STORE + WAIT + LOAD + WAIT, 3),
        (WAIT + LOAD + WAIT + STORE + WAIT, 3),
        (WAIT + LOAD + "\t@%p1 bra \t$L1;\n" + WAIT + LOAD + "$L1:\n" + WAIT, 3),
    ],
    ids=["only loads", "a store before", "a store behind", "other blocks"],
)
def test_waits_that_order_nothing_go(body: str, left: int) -> None:
    assert without_idle_waits(HEAD + body + "\tret;\n}\n").count(WAIT) == left
