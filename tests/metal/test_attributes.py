"""Attributes: what is in double brackets, and numbers written as sums."""

import pytest

from kernelwright.errors import CompileError
from kernelwright.metal import attributes
from kernelwright.metal.tokens import Tokens
from kernelwright.simt import BUILTINS


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("300 + 2", 302), ("(1 << 4) | 1", 17), ("7u", 7), ("010", 8), ("N", None), ("", None), ("1.5", None)],
)
def test_number(text: str, value: int | None) -> None:
    assert attributes.number(text) == value


def test_several_in_one_bracket() -> None:
    found, end = attributes.read(Tokens('[[host_name("a"), buffer(2 + 1)]] x'), 0)
    assert [(a.name, a.argument, a.number) for a in found] == [("host_name", '"a"', None), ("buffer", "2 + 1", 3)]
    assert end == len(split_up := Tokens('[[host_name("a"), buffer(2 + 1)]] x')) - 3 and split_up[end] == "]"


def test_other_compilers_attributes_say_nothing() -> None:
    assert attributes.read(Tokens("[[clang::unroll]]"), 0)[0] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [("[[buffr(0)]]", "unknown attribute"), ("[[texture(0)]]", "textures or graphics"), ("[[vertex_id]]", "graphics")],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        attributes.read(Tokens(text), 0)


def test_every_position_is_one_the_runtime_knows() -> None:
    assert set(attributes.BUILTINS.values()) <= set(BUILTINS)
