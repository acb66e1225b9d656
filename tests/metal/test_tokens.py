"""Tokens join to the text they came from, brackets find each other, places are the user's."""

import pytest

from kernelwright.errors import CompileError
from kernelwright.metal.tokens import Tokens, separated, split

TEXT = """# 1 "a.metal"
kernel void k(device float* a [[buffer(0)]]) {
# 7 "b.h"
  a[0] = f<vec<float, 2>>(1.0e-3, 'x', "s\\"t") >> 2;
}
"""


def test_nothing_is_lost() -> None:
    assert "".join(split(TEXT)) == TEXT


def test_place_follows_line_markers() -> None:
    tokens = Tokens(TEXT)
    at = {token: str(tokens.place(i)) for i, token in enumerate(tokens.items)}
    assert at["kernel"] == "a.metal:1:1"
    assert at["f"] == "b.h:7:10"


def test_brackets() -> None:
    tokens = Tokens("a(b[c{d}])<e<f>, (g > h)>")
    assert tokens[tokens.closing(1)] == ")" and tokens.closing(1) == tokens.items.index(")")
    angle = tokens.items.index("<")
    assert tokens.closing_angle(angle) == len(tokens) - 1


def test_a_comparison_opens_no_arguments() -> None:
    tokens = Tokens("<typename T, enable_if_t<sizeof(T) < 8, bool> = true> x")
    assert tokens.closing_angle(0) == len(tokens) - 3


def test_what_is_never_closed_is_told_with_its_place() -> None:
    tokens = Tokens('# 3 "a.metal"\nf(1;')
    with pytest.raises(CompileError, match=r"a\.metal:3:2: error: .*never closed"):
        tokens.closing(tokens.items.index("("))


def test_commas_between_parts() -> None:
    tokens = Tokens("device const pair<int, 2>* a, uint2 b [[x(1, 2)]], float c")
    parts = ["".join(tokens.items[a : b + 1]).strip() for a, b in separated(tokens, 0, len(tokens) - 1)]
    assert parts == ["device const pair<int, 2>* a", "uint2 b [[x(1, 2)]]", "float c"]


def test_blanking_keeps_the_lines() -> None:
    tokens = Tokens("a\nb\nc")
    tokens.blank(0, len(tokens) - 1)
    assert tokens.joined() == "\n\n"
