"""The IR refuses what makes no sense, and prints C++ that says what it means."""

import pytest

from kernelwright.loops import (
    Apply,
    Buffer,
    Cast,
    Constant,
    For,
    Kernel,
    Let,
    Load,
    Op,
    ScalarType,
    Select,
    Store,
    Variable,
    print_cpp,
)
from kernelwright.loops.expressions import cost, index_of, plus, times
from kernelwright.loops.nest import check

F32, I64, BOOL = ScalarType.FLOAT32, ScalarType.INT64, ScalarType.BOOL
X, Y = Variable("x", F32), Variable("y", F32)


def one(value_of_element, type: ScalarType = F32) -> str:
    """The text of a kernel that stores one expression of x[0]."""
    out, source = Buffer("out", type, (4,), (1,)), Buffer("source", F32, (4,), (1,))
    i = index_of("i")
    body = (Let(X, Load(source, (i,))), Store(out, (i,), value_of_element))
    return print_cpp(Kernel("one", (out,), (source,), (), (For("i", Constant(0, I64), Constant(4, I64), body),)))


def test_types_are_checked() -> None:
    with pytest.raises(TypeError, match="add of float32, int64"):
        Apply(Op.ADD, (X, Constant(1, I64)))
    with pytest.raises(TypeError, match="select"):
        Select(X, X, X)
    with pytest.raises(TypeError):
        Let(X, Constant(1, I64))
    assert Apply(Op.LT, (X, Y)).type is BOOL
    assert Cast(ScalarType.BFLOAT16, X).type is F32


def test_unknown_names_are_refused() -> None:
    out = Buffer("out", F32, (4,), (1,))
    with pytest.raises(ValueError, match="read before"):
        check(Kernel("k", (out,), (), (), (Store(out, (index_of("i"),), X),)))
    with pytest.raises(ValueError, match="two parameters"):
        Kernel("k", (out,), (out,), (), ())


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Apply(Op.SUB, (X, Apply(Op.SUB, (X, X)))), "x - (x - x)"),
        (Apply(Op.MUL, (Apply(Op.ADD, (X, X)), X)), "(x + x) * x"),
        (Apply(Op.ADD, (Apply(Op.MUL, (X, X)), X)), "x * x + x"),
        (Apply(Op.NEG, (Constant(-1.5, F32),)), "-(-1.5f)"),
        (Select(Apply(Op.LT, (X, Constant(0.0, F32))), X, Constant(float("inf"), F32)), "x < 0.0f ? x : __builtin"),
        (Cast(ScalarType.BFLOAT16, Apply(Op.ADD, (X, X))), "(float)(bfloat16)(x + x)"),
        (Apply(Op.EXP, (X,)), "math::exp(x)"),
    ],
)
def test_expressions_keep_their_order(expression, text: str) -> None:
    assert text in one(expression)


def test_indices_fold() -> None:
    i = index_of("i")
    assert plus(Constant(2, I64), Constant(3, I64)) == Constant(5, I64)
    assert times(i, Constant(1, I64)) == i
    assert times(i, Constant(0, I64)) == Constant(0, I64)
    assert cost(Apply(Op.EXP, (X,))) > cost(Apply(Op.ADD, (X, X)))
