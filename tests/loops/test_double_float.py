"""templates/double_float.hpp beside exact numbers."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from kernelwright import loops
from kernelwright.metal import compile_shader

COUNT = 3000
UNIT = Fraction(1, 2**48)
"""The square of the unit of a float."""
OPERATIONS = {  # text, what it is, and how many units it may err
    "sum": ("x + y", lambda x, y: x + y, 3),
    "difference": ("x - y", lambda x, y: x - y, 3),
    "product": ("x * y", lambda x, y: x * y, 4),
    "quotient": ("x / y", lambda x, y: x / y, 15),
    "remainder": ("math::fmod(x, y)", lambda x, y: x - y * math.trunc(x / y), None),
    "floored": ("py::floored_div(x, y)", lambda x, y: Fraction(math.floor(x / y)), 1),
    "floor": ("math::floor(x)", lambda x, y: Fraction(math.floor(x)), 0),
    "ceil": ("math::ceil(x)", lambda x, y: Fraction(math.ceil(x)), 0),
    "whole": ("math::trunc(x)", lambda x, y: Fraction(math.trunc(x)), 0),
    "round": ("math::round(x)", lambda x, y: Fraction(round(x)), 0),
}
FUNCTIONS = {"root": "math::sqrt(x)", "exponential": "math::exp(x)", "logarithm": "math::log(x)"}


def drawn(seed: int) -> np.ndarray:
    """Pairs over some powers of ten, with halves, and neighbours that cancel."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(COUNT) * 10.0 ** rng.uniform(-3, 3, COUNT)
    x[:200] = np.arange(200) / 2 - 50
    x[200:400] = 1 + rng.integers(-9, 9, 200) * 2.0**-47
    high = x.astype(np.float32)
    return np.stack([high, (x - high).astype(np.float32)], axis=-1)


def exact(pairs: np.ndarray) -> list[Fraction]:
    return [Fraction(float(high)) + Fraction(float(low)) for high, low in pairs]


@pytest.fixture(scope="module")
def library():
    arguments = "device df64* out, device const df64* a, device const df64* b, uint i [[thread_position_in_grid]]"
    kernels = (
        f"kernel void {name}({arguments}) {{ const df64 x = a[i], y = b[i]; out[i] = {text}; }}"
        for name, text in [*((name, text) for name, (text, *_) in OPERATIONS.items()), *FUNCTIONS.items()]
    )
    made = compile_shader("\n".join([loops.msl_template(pairs=True), *kernels]))
    made.build()
    return made


def found(library, name: str, x: np.ndarray, y: np.ndarray) -> list[Fraction]:
    out = np.zeros_like(x)
    getattr(library, name)(out, x, y, threads=COUNT)
    np.testing.assert_array_equal(out[:, 0], (out[:, 0].astype(float) + out[:, 1]).astype(np.float32))
    return exact(out)


def decimals(numbers: list[Fraction]) -> list[Decimal]:
    return [Decimal(one.numerator) / Decimal(one.denominator) for one in numbers]


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_errs_by_so_many_units(name: str, library) -> None:
    _, truth, units = OPERATIONS[name]
    x, y = drawn(1), drawn(2)
    y[(y == 0).all(axis=1)] = 3
    for got, a, b in zip(found(library, name, x, y), exact(x), exact(y), strict=True):
        wanted = truth(a, b)
        # A remainder's error is beside what was divided.
        bound = 4 * UNIT * abs(b) + abs(a) / 2**66 if units is None else units * UNIT * abs(wanted)
        assert abs(got - wanted) <= bound, (a, b)


def test_a_root_errs_by_so_many_units(library) -> None:
    x = drawn(1)
    x[x[:, 0] < 0] *= -1
    for got, a in zip(found(library, "root", x, x), exact(x), strict=True):
        # got = root * (1 + e), of which the square is a * (1 + 2e) and very little
        assert abs(got * got - a) <= 2 * UNIT * Fraction(33, 10) * a, a


@pytest.mark.parametrize("name", ["exponential", "logarithm"])
def test_exp_and_log_have_thirteen_digits(name: str, library) -> None:
    x = drawn(1)
    # Of an exp below digits go with the range of float32.
    small, positive = x[np.abs(x[:, 0]) < 60], np.where(x[:, :1] < 0, -x, x)[x[:, 0] != 0]
    x = small if name == "exponential" else positive
    x = np.ascontiguousarray(np.resize(x, (COUNT, 2)))
    with localcontext() as context:
        context.prec = 40
        for got, a in zip(decimals(found(library, name, x, x)), decimals(exact(x)), strict=True):
            wanted = a.exp() if name == "exponential" else a.ln()
            assert abs(got - wanted) <= abs(wanted) * Decimal("1e-13"), a


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("exponential", [np.inf, -np.inf, np.nan, 0, 89, -200], [np.inf, 0, np.nan, 1, np.inf, 0]),
        ("logarithm", [np.inf, -1, np.nan, 0, -0.0, 1], [np.inf, np.nan, np.nan, -np.inf, -np.inf, 0]),
    ],
)
def test_exp_and_log_at_the_ends(name: str, given: list[float], wanted: list[float], library) -> None:
    x, out = np.zeros((6, 2), np.float32), np.zeros((6, 2), np.float32)
    x[:, 0] = given
    getattr(library, name)(out, x, x, threads=6)
    np.testing.assert_array_equal(out[:, 0].astype(float) + out[:, 1], wanted)
