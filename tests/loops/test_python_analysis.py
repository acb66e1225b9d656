"""What is said of loops: free where that is shown, serial with a reason where it is not."""

from typing import Any

import numpy as np
import pytest

from kernelwright import loops
from kernelwright.loops import ArrayType, Kind, ScalarType

F64, I64 = ScalarType.FLOAT64, ScalarType.INT64
X, K, M = ArrayType(F64, 1), ArrayType(I64, 1), ArrayType(F64, 2)


def prange(n):
    return range(n)


def copy_with_a_gap(x, y):
    for i in range(len(x) - 1):
        y[i + 1] = x[i]


def recurrence(x, n):
    for i in range(1, n):
        x[i] = x[i - 1] * 0.5


def shifted(x, n):
    for i in range(n):
        x[i] = x[i + 1]


def from_the_end(x, n):
    for i in range(-n, n):
        x[i] = 1.0


def below_zero(x, n):
    for i in range(n):
        x[i - 1] = 1.0


def every_other(x, n):
    for i in range(n):
        x[2 * i] = x[2 * i] + 1.0


def pairs(x, n):
    for i in range(n):
        x[2 * i] = x[2 * i + 1]


def through_an_index(x, k):
    for i in range(len(k)):
        x[k[i]] = 1.0


def asserted(x, k):
    for i in prange(len(k)):
        x[k[i]] = 1.0


def one_place(x, n):
    for i in range(n):
        x[0] = i


def read_back(x, k):
    for i in range(len(k)):
        x[k[i]] += x[0]


def two_ways(x, k):
    for i in range(len(k)):
        x[k[i]] += 1.0
        x[k[i]] *= 2.0


def last_value(x):
    last = 0.0
    for i in range(len(x)):
        last = x[i]
    return last


def own_variable(x, y):
    for i in range(len(x)):
        if x[i] > 0:  # noqa: SIM108
            z = x[i]
        else:
            z = -x[i]
        y[i] = z


def left_over(x, y):
    z = 0.0
    for i in range(len(x)):
        if x[i] > 0:
            z = x[i]
        y[i] = z


def minus(x):
    total = 0.0
    for i in range(len(x)):
        total -= x[i]
    return total


def smallest(x):
    best = x[0]
    for i in range(len(x)):
        best = min(best, x[i])
    return best


def reversed_difference(x):
    total = 0.0
    for i in range(len(x)):
        total = x[i] - total
    return total


def early(x):
    for i in range(len(x)):
        if x[i] < 0:
            return i
    return -1


def stopped(x, y):
    for i in range(len(x)):
        if x[i] < 0:
            break
        y[i] = x[i]


def skipping(x, y):
    for i in range(len(x)):
        if x[i] < 0:
            continue
        y[i] = x[i]


def own_array(x, y):
    for i in range(len(x)):
        w = np.zeros(3)
        for k in range(3):
            w[k] = x[i] * k
        y[i] = w[1]


def shared_array(x, y):
    w = np.zeros(3)
    for i in range(len(x)):
        for k in range(3):
            w[k] = x[i] * k
        y[i] = w[1]


def rows(m, n):
    for i in range(n):
        for j in range(m.shape[1]):
            m[i, j] = m[i, j] * 2.0


def index_after(x, y):
    i = 0
    for i in range(len(x)):
        y[i] = x[i]
    return i


CASES: list[tuple[Any, tuple[Any, ...], Kind, str]] = [
    (copy_with_a_gap, (X, X), Kind.PARALLEL, "no iteration writes"),
    (recurrence, (X, I64), Kind.SERIAL, "meet at one element of x"),
    (shifted, (X, I64), Kind.SERIAL, "meet at one element of x"),
    (from_the_end, (X, I64), Kind.SERIAL, "meet"),
    (below_zero, (X, I64), Kind.SERIAL, "meet"),
    (every_other, (X, I64), Kind.PARALLEL, "no iteration"),
    (pairs, (X, I64), Kind.SERIAL, "meet"),
    (through_an_index, (X, K), Kind.SERIAL, "meet"),
    (asserted, (X, K), Kind.PARALLEL, "prange says"),
    (one_place, (X, I64), Kind.SERIAL, "meet"),
    (read_back, (X, K), Kind.SERIAL, "meet"),
    (two_ways, (X, K), Kind.SERIAL, "meet"),
    (last_value, (X,), Kind.SERIAL, "last carries a value"),
    (own_variable, (X, X), Kind.PARALLEL, "no iteration"),
    (left_over, (X, X), Kind.SERIAL, "z carries a value"),
    (minus, (X,), Kind.REDUCTION, "total only adds up"),
    (smallest, (X,), Kind.REDUCTION, "best"),
    (reversed_difference, (X,), Kind.SERIAL, "total carries"),
    (early, (X,), Kind.SERIAL, "return"),
    (stopped, (X, X), Kind.SERIAL, "break"),
    (skipping, (X, X), Kind.PARALLEL, "no iteration"),
    (own_array, (X, X), Kind.PARALLEL, "no iteration"),
    (shared_array, (X, X), Kind.SERIAL, "element of w"),
    (rows, (M, I64), Kind.PARALLEL, "no iteration"),
    (index_after, (X, X), Kind.SERIAL, "i carries"),
]


@pytest.mark.parametrize(("function", "types", "kind", "reason"), CASES, ids=[case[0].__name__ for case in CASES])
def test_the_outermost_loop(function: Any, types: tuple[Any, ...], kind: Kind, reason: str) -> None:
    loops_found = loops.analyse(loops.parse(function, types)).loops
    plan = next(plan for plan in loops_found if plan.where.column == 5)
    if function is shared_array:  # its first loop fills the array
        plan = loops_found[1]
    assert plan.kind is kind
    assert reason in plan.reason


def test_a_plan_can_be_read() -> None:
    lines = loops.analyse(loops.parse(minus, (X,))).lines()
    line = minus.__code__.co_firstlineno + 2
    assert lines == [f"line {line}: reduction: total only adds up"]
