"""Neighbours in memory become one access where nothing can tell, behind a test of their addresses."""

import re

import pytest

from kernelwright.simt.wide import widened

HEAD = ".visible .entry kernel(\n\t.param .b64 p\n)\n{\n\t.reg .b32 \t%r<99>;\n\n"
Kind = tuple[str, str, int]
FLOATS, HALVES, BYTES, DOUBLES = ("r", "b32", 4), ("rs", "b16", 2), ("rs", "b8", 1), ("rd", "b64", 8)


def loads(
    base: str, kind: tuple[str, str, int] = FLOATS, count: int = 4, first: int = 10, space: str = "global"
) -> str:
    letter, bits, size = kind
    return "".join(f"\tld.{space}.{bits} \t%{letter}{first + i}, [%{base}+{size * i}];\n" for i in range(count))


def stores(
    base: str, kind: tuple[str, str, int] = FLOATS, count: int = 4, first: int = 10, space: str = "shared"
) -> str:
    letter, bits, size = kind
    return "".join(f"\tst.{space}.{bits} \t[%{base}+{size * i}], %{letter}{first + i};\n" for i in range(count))


def mixed(*parts: str) -> str:
    """Lines of several parts by turns."""
    return "".join(f"{line}\n" for lines in zip(*(part.splitlines() for part in parts), strict=True) for line in lines)


def text(body: str) -> str:
    return widened(HEAD + body + "\tret;\n}\n")


def wide(body: str) -> list[str]:
    """The wide accesses, in order."""
    return re.findall(r"\b(?:ld|st)\.\w+\.v[24]\.\w+", text(body))


def test_four_floats_become_one_access_behind_a_test() -> None:
    after = text(loads("rd1"))
    assert "\tld.global.v4.b32 \t{%r10, %r11, %r12, %r13}, [%rd1+0];\n" in after
    assert re.search(r"and\.b64 \t(%simt_wide0), \1, 15;\n\tsetp\.ne\.b64 \t(%simt_wide1), \1, 0;\n\t@\2 bra", after)
    assert loads("rd1") in after  # the narrow ones


@pytest.mark.parametrize(("kind", "count"), [(HALVES, 8), (BYTES, 16)], ids=["halves", "bytes"])
def test_a_copy_of_sixteen_bytes_goes_as_words(kind: Kind, count: int) -> None:
    copy = mixed(loads("rd1", kind, count), stores("rd2", kind, count))
    assert wide(copy) == ["ld.global.v4.b32", "st.shared.v4.b32"]
    words = re.search(r"ld\.global\.v4\.b32 \t(\{.*\}), ", text(copy))
    assert words and f"st.shared.v4.b32 \t[%rd2+0], {words[1]};" in text(copy)  # without being taken apart


def test_parts_of_words_are_taken_apart_and_put_together() -> None:
    after = text(loads("rd1", BYTES) + "\tadd.s16 \t%rs11, %rs11, 1;\n" + stores("rd2", BYTES))
    word = re.search(r"ld\.global\.b32 \t(%\w+), \[%rd1\+0\];\n\tmov\.b32 \t\{(%\w+), .*\}, \1;", after)
    assert word and f"cvt.u16.u8 \t%rs10, {word[2]};" in after
    assert re.search(
        r"cvt\.u8\.u16 \t%\w+, %rs11;\n(.*\n)*\tmov\.b32 \t(%\w+), \{.*\};\n\tst\.shared\.b32 \t.*\2;", after
    )


def test_a_word_is_not_stored_for_parts_that_changed() -> None:
    after = text(loads("rd1", HALVES) + loads("rd3", HALVES, first=11) + stores("rd2", HALVES))
    assert re.search(r"mov\.b32 \t%\w+, \{%rs10, %rs11\};", after)


def test_order_of_neighbours_does_not_matter() -> None:
    backwards = "".join(reversed(loads("rd1").splitlines(keepends=True)))
    assert wide(backwards) == ["ld.global.v4.b32"]


def test_longer_rows_are_cut_every_sixteen_bytes() -> None:
    assert wide(loads("rd1", count=8)) == ["ld.global.v4.b32"] * 2
    assert wide(loads("rd1", DOUBLES, count=6)) == ["ld.global.v2.b64"] * 3
    assert wide(loads("rd1", count=7)) == ["ld.global.v4.b32", "ld.global.v2.b32"]


def test_a_changed_base_begins_anew() -> None:
    step = "\tadd.s64 \t%rd1, %rd1, 16;\n"
    assert wide(loads("rd1") + step + loads("rd1", first=20)) == ["ld.global.v4.b32"] * 2
    half = loads("rd1", count=2) + step + loads("rd1", count=2, first=20)
    assert wide(half) == []


@pytest.mark.parametrize(
    "body",
    [
        loads("rd1", count=2),
        loads("rd1").replace("%r12", "%rd12"),
        loads("rd1").replace("%r13", "%r10"),
        loads("rd1").replace("\tld", "\t@%p1 ld"),
        loads("rd1").replace("+8", "+64"),
        loads("rd1", space="local"),
        mixed(loads("rd1"), stores("rd2", first=20, space="global")),
        mixed(stores("rd2", space="global"), loads("rd1", first=20)),
        loads("rd1", count=2) + "\tbar.sync \t0;\n" + loads("rd1", count=4)[len(loads("rd1", count=2)) :],
        loads("rd1", count=2) + "\tadd.s32 \t%r1, %r12, 1;\n" + loads("rd1", count=4)[len(loads("rd1", count=2)) :],
        mixed(stores("rd1"), *["\tadd.s32 \t%r10, %r10, 1;\n" * 4]),
    ],
    ids=[
        "too few",
        "one extends",
        "one register twice",
        "predicated",
        "a gap",
        "private memory",
        "stores that may reach them",
        "loads that may see them",
        "a barrier",
        "a register is used before",
        "a register changes before",
    ],
)
def test_what_stays_narrow(body: str) -> None:
    assert text(body) == HEAD + body + "\tret;\n}\n"


def test_loads_and_stores_do_not_pass_each_other_with_one_register() -> None:
    """Moved, the loads would overwrite what the stores still hold back."""
    keep = mixed(stores("rd2"), loads("rd1", first=20))
    assert wide(keep) == ["ld.global.v4.b32", "st.shared.v4.b32"]
    reused = mixed(stores("rd2"), loads("rd1"))
    assert len(wide(reused)) < 2
