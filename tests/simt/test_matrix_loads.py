"""Loads of matrices become ldmatrix where it gives every thread the same words: carried out on random memory."""

import re

import numpy as np
import numpy.typing as npt
import pytest

from kernelwright.simt.matrix_loads import gathered

HEAD = ".shared .align 16 .b8 tile[65536];\n.visible .entry kernel(\n\t.param .b64 p\n)\n{\n\t.reg .b32 \t%r<99>;\n\n"
THREADS = np.arange(64)
MEMORY = np.random.default_rng(0).integers(0, 2**16, 8192, dtype=np.uint16)
Words = npt.NDArray[np.int64]


def base(stride: int, warp: int = 1024, column: int = 4) -> str:
    """Where a thread reads its word: `stride` bytes between eight rows, four pairs of columns in each."""
    return (
        "\tshr.u32 \t%r2, %r1, 5;\n\tshr.u32 \t%r3, %r1, 2;\n\tand.b32 \t%r4, %r3, 7;\n\tand.b32 \t%r5, %r1, 3;\n"
        f"\tmul.lo.s32 \t%r6, %r2, {warp};\n\tmad.lo.s32 \t%r7, %r4, {stride}, %r6;\n"
        f"\tmad.lo.s32 \t%r8, %r5, {column}, %r7;\n\tcvt.u64.u32 \t%rd1, %r8;\n"
        f"\tmov.b64 \t%rd2, tile;\n\tadd.s64 \t%rd3, %rd2, %rd1;\n"
    )


def loads(offsets: list[int], names: str = "a", at: str = "%rd3") -> str:
    return "".join(f"\tld.shared.b32 \t%{names}{i}, [{at}+{offset}];\n" for i, offset in enumerate(offsets))


def turns(count: int, names: str = "a", into: str = "t") -> str:
    turn = "movmatrix.sync.aligned.m8n8.trans.b16"
    return "".join(f"\t{turn} %{into}{i}, %{names}{i};\n" for i in range(count))


def uses(count: int, names: str) -> str:
    product = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
    return "".join(
        f"\t{product} \t{{%f0, %f1, %f2, %f3}}, {{%{names}{i}, %z}}, {{%b}}, {{%f0, %f1, %f2, %f3}};\n"
        for i in range(count)
    )


def kernel(body: str) -> str:
    return HEAD + "\tmov.u32 \t%r1, %tid.x;\n" + body + "\tret;\n}\n"


def matrices(text: str) -> list[str]:
    return re.findall(r"ldmatrix\.sync\.aligned\.m8n8\.(\S+)\.shared\.b16", text)


def carried_out(text: str) -> dict[str, Words]:
    """What the registers of two warps hold at the end: just the instructions of these kernels."""
    held: dict[str, Words] = {"%tid.x": THREADS, "tile": np.zeros(64, np.int64)}

    def operand(word: str) -> Words:
        return held[word] if word in held else np.full(64, int(word))

    def words(addresses: Words) -> Words:
        assert not (addresses % 4).any()
        return MEMORY[addresses // 2].astype(np.int64) | MEMORY[addresses // 2 + 1].astype(np.int64) << 16

    for line in text.partition("{\n")[2].splitlines():
        match = re.match(r"\t([\w.]+)\s+(\{[^}]*\}|[%\w]+), (.*);$", line)
        if not match or match[1].startswith("mma"):
            continue
        name, results, rest = match[1], re.findall(r"%\w+", match[2]), match[3]
        if name.startswith(("ld.", "ldmatrix")):
            place = re.match(r"\[(%\w+)\+(-?\d+)\]", rest)
            assert place
            addresses = held[place[1]] + int(place[2])
            if name.startswith("ld."):
                held[results[0]] = words(addresses)
                continue
            for number, result in enumerate(results):  # rows by threads 8 number to 8 number + 7 of each warp
                rows = addresses.reshape(2, 32)[:, 8 * number : 8 * number + 8]
                assert not (rows % 16).any()
                matrix = MEMORY[rows[:, :, None] // 2 + np.arange(8)].astype(np.int64)
                matrix = matrix.swapaxes(1, 2) if ".trans" in name else matrix
                held[result] = (matrix[:, :, ::2] | matrix[:, :, 1::2] << 16).reshape(64)
            continue
        given = [operand(word.strip()) for word in rest.split(",")]
        if name.startswith("movmatrix"):
            matrix = np.stack([given[0] & 0xFFFF, given[0] >> 16], -1).reshape(2, 8, 8).swapaxes(1, 2)
            held[results[0]] = (matrix[:, :, ::2] | matrix[:, :, 1::2] << 16).reshape(64)
        else:
            rule = {
                "shr": lambda x, n: x >> n,
                "and": lambda x, y: x & y,
                "mul": lambda x, y: x * y,
                "add": lambda x, y: x + y,
                "mad": lambda x, y, z: x * y + z,
                "bfe": lambda x, first, bits: x >> first & (1 << bits) - 1,
                "cvt": lambda x: x,
                "mov": lambda x: x,
            }[name.split(".")[0]]
            held[results[0]] = rule(*given)
    return held


def same(body: str, results: list[str], expected: list[str]) -> None:
    """Threads hold the same words, and the loads became `expected`."""
    before, after = kernel(body), gathered(kernel(body))
    assert matrices(after) == expected and "ld.shared" not in after
    was, now = carried_out(before), carried_out(after)
    for name in results:
        np.testing.assert_array_equal(now[name], was[name])


@pytest.mark.parametrize("stride", [16, 48, 144, 272])
@pytest.mark.parametrize("offsets", [[0, 768, 1536, 2304], [16, 0, 48, 32], [0, 160, 16, 176], [64, 32]])
def test_first_operands_are_read_together(stride: int, offsets: list[int]) -> None:
    count = len(offsets)
    body = base(stride) + "\tbar.sync \t0;\n" + loads(offsets) + uses(count, "a")
    same(body, [f"%a{i}" for i in range(count)], [f"x{count}"])


@pytest.mark.parametrize("offsets", [[0, 32, 64, 96], [96, 64, 32, 0], [0, 1152, 32, 1184], [0, 32], [160]])
def test_second_operands_are_turned_on_the_way(offsets: list[int]) -> None:
    count = len(offsets)
    body = base(144) + "\tbar.sync \t0;\n" + loads(offsets) + turns(count) + uses(count, "t")
    same(body, [f"%t{i}" for i in range(count)], [f"x{count}.trans"])
    assert "movmatrix" not in gathered(kernel(body))


def test_both_operands_of_a_step() -> None:
    second = base(144).replace("%rd", "%q").replace("%r", "%s").replace("%s1,", "%r1,")
    step = (
        loads([0, 768, 1536, 2304]) + loads([0, 32, 64, 96], "b", "%q3") + turns(4, "b") + uses(4, "a") + uses(4, "t")
    )
    same(base(48) + second + "\tbar.sync \t0;\n" + step, ["%a0", "%a3", "%t0", "%t3"], ["x4", "x4.trans"])


def test_what_makes_no_four_goes_in_twos() -> None:
    body = base(48) + "\tbar.sync \t0;\n" + loads([0, 16, 48, 128, 256, 512]) + uses(6, "a")
    same(body, [f"%a{i}" for i in range(6)], ["x2", "x2", "x2"])


@pytest.mark.parametrize(
    "start",
    [
        base(48).replace("%r1, 5", "%ctaid.x, 5") + "\tbar.sync \t0;\n",
        base(40) + "\tbar.sync \t0;\n",
        base(48, warp=1028) + "\tbar.sync \t0;\n",
        base(48, column=2) + "\tbar.sync \t0;\n",
        base(48).replace("\tadd.s64", "$L1:\n\tadd.s64 \t%rd3, %rd3, 16;\n\tadd.s64") + "\tbar.sync \t0;\n",
        base(48).replace("tile", "other") + "\tbar.sync \t0;\n",
        base(48),
        base(48) + "\tbar.sync \t0;\n$L2:\n",
    ],
    ids=["unknown", "rows off", "warps off", "columns", "written twice", "place", "not together", "after a label"],
)
def test_other_loads_stay(start: str) -> None:
    text = kernel(start + loads([0, 768, 1536, 2304]) + uses(4, "a"))
    assert gathered(text) == text


def test_offsets_off_sixteen_bytes_stay() -> None:
    text = kernel(base(48) + "\tbar.sync \t0;\n" + loads([8, 776, 1544, 2312]) + uses(4, "a"))
    assert gathered(text) == text


@pytest.mark.parametrize("between", ["\tst.shared.b32 \t[%rd9], %r1;\n", "\tbar.sync \t0;\n", "\tmembar.cta;\n"])
def test_no_load_passes_a_store_or_a_barrier(between: str) -> None:
    body = (
        base(48) + "\tbar.sync \t0;\n" + loads([0, 16]) + between + loads([32, 48], "c") + uses(2, "a") + uses(2, "c")
    )
    after = gathered(kernel(body))
    assert matrices(after) == ["x2", "x2"]
    assert after.index("ldmatrix") < after.rindex(between) < after.rindex("ldmatrix")


def test_a_wait_of_the_warp_orders_what_may_have_been_written() -> None:
    wait = "\tbar.warp.sync \t-1;\n"
    halves = loads([0, 16]) + wait + loads([32, 48], "c") + uses(2, "a") + uses(2, "c")
    quiet = base(48) + "\tbar.sync \t0;\n" + halves
    assert matrices(gathered(kernel(quiet))) == ["x4"]
    for before in ("\tst.shared.b32 \t[%rd9], %r1;\n", "$L1:\n" + uses(1, "z")):
        after = gathered(kernel(base(48) + "\tbar.sync \t0;\n" + before + halves))
        assert matrices(after) == ["x2", "x2"]
        assert after.index("ldmatrix") < after.index(wait) < after.rindex("ldmatrix")


def test_loads_ahead_of_what_brings_a_warp_together_move_behind_it() -> None:
    body = base(48) + loads([0, 768, 1536, 2304]) + uses(1, "z") + uses(4, "a")
    after = gathered(kernel(body))
    assert matrices(after) == ["x4"] and after.index("mma.sync") < after.index("ldmatrix") < after.index("{%a0, %z}")
    early = kernel(base(48) + loads([0, 768]) + uses(2, "a"))
    assert gathered(early) == early  # they are used where the warp comes together


def test_a_predicated_load_and_a_predicated_step_count_for_nothing() -> None:
    guarded = loads([0, 16]).replace("\tld", "\t@%p1 ld")
    text = kernel(base(48) + "\tbar.sync \t0;\n" + guarded + uses(2, "a"))
    assert gathered(text) == text
    text = kernel(base(48) + "\t@%p1 bar.sync \t0;\n" + loads([0, 16]) + uses(2, "a"))
    assert gathered(text) == text


def test_words_that_others_read_too_stay() -> None:
    seen = kernel(base(48) + "\tbar.sync \t0;\n" + loads([0, 16]) + "\tadd.s32 \t%r30, %a0, %a1;\n" + uses(2, "a"))
    assert gathered(seen) == seen
    turned = kernel(base(48) + "\tbar.sync \t0;\n" + loads([0]) + turns(1) + uses(1, "t") + "\tmov.b32 \t%r30, %a0;\n")
    assert gathered(turned) == turned
