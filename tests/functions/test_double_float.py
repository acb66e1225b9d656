"""precision="double-float": float64 on Metal as pairs of float32, hosted on this machine's CPU."""

import math
import warnings

import numpy as np
import pytest
import torch
from user_loops import axpy, extremes, operands, shuffle_mul, shuffled

import kernelwright as kw
from kernelwright.errors import UsageError
from kernelwright.functions import pairs
from kernelwright.loops import UnsupportedError

DOUBLE = {"target": "metal", "precision": "double-float"}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def stencil(x, out):
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            out[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) - x[i, j] / 3


def polynomial(c, x, out):
    for i in range(x.shape[0]):
        total = 0.0
        for k in range(c.shape[0]):
            total = total * x[i] + c[k]
        out[i] = total


def n_body(place, mass, pull):
    for i in range(place.shape[0]):
        for axis in range(3):
            pull[i, axis] = 0.0
        for j in range(place.shape[0]):
            dx, dy, dz = place[j, 0] - place[i, 0], place[j, 1] - place[i, 1], place[j, 2] - place[i, 2]
            distance = math.sqrt(dx * dx + dy * dy + dz * dz + 0.01)
            force = mass[j] / (distance * distance * distance)
            pull[i, 0] += force * dx
            pull[i, 1] += force * dy
            pull[i, 2] += force * dz


def softplus(x, out):
    for i in range(x.shape[0]):
        out[i] = math.log(1 + np.exp(x[i]))


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize(
    ("python", "arguments"),
    [
        (axpy, (drawn(500), drawn(500, seed=1), 0.1)),
        (stencil, (drawn(20, 30), np.full((20, 30), np.nan))),
        (polynomial, (drawn(9), drawn(400, seed=1), np.zeros(400))),
        (softplus, (drawn(300), np.zeros(300))),
        (n_body, (drawn(40, 3), np.abs(drawn(40, seed=1)), np.zeros((40, 3)))),
    ],
    ids=["axpy", "stencil", "polynomial", "softplus", "n_body"],
)
def test_maps_have_fourteen_digits(python, arguments) -> None:
    wanted, found = ([np.array(one) if hasattr(one, "shape") else one for one in arguments] for _ in range(2))
    python(*wanted)
    kw.njit(**DOUBLE)(python)(*found)
    for x, y in zip(found, wanted, strict=True):
        scale = np.nanmax(np.abs(y))
        np.testing.assert_allclose(x, y, rtol=2e-14, atol=2e-14 * scale)


@pytest.mark.parametrize("plan", ["segmented", "folded"])
@pytest.mark.parametrize("length", [2000, 200_000])
def test_the_founding_function_by_plans(plan: str, length: int) -> None:
    a, b, operator, res = operands(length)
    constant = kw.constant(operator)
    function = kw.njit(plan=plan, **DOUBLE)(shuffle_mul)
    for scale in (1, 2):
        res[:] = np.nan
        function(a * scale, b, constant, res)
        wanted = shuffled(a * scale, b, operator)
        np.testing.assert_allclose(res, wanted, rtol=0, atol=1e-13 * np.abs(wanted).max())
    (choice,) = function.plans.values()
    assert choice.name == plan
    with pytest.raises(IndexError, match="out of bounds for axis 0 of 'a'"):
        function(a[: operator[:, 0].max()].copy(), b, constant, res)
    tensors = [torch.from_numpy(a), torch.from_numpy(b), constant, torch.zeros(127, dtype=torch.float64)]
    function(*tensors)
    np.testing.assert_allclose(tensors[3].numpy(), shuffled(a, b, operator), rtol=0, atol=1e-13 * np.abs(wanted).max())


def test_rows_that_may_change_are_refused() -> None:
    function = kw.njit(**DOUBLE)(shuffle_mul)
    with pytest.raises(UsageError, match=r"adds float64 numbers by atomics.* kw\.constant\(array\).* target='cpu'"):
        function(*operands(50))
    a, b, operator, res = operands(50)
    with pytest.raises(UsageError, match="adds float64 numbers by atomics"):
        function(kw.constant(a), b, operator, res)


def test_the_error_is_said_once() -> None:
    function = kw.njit(**DOUBLE)(axpy)
    with pytest.warns(
        UserWarning, match=r"double-float': largest error over the largest value: y (0\.0|\d\.\de-1[5-9])"
    ):
        function(drawn(100), drawn(100), 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(drawn(100), drawn(100), 0.3)


def sine(x, out):
    for i in range(x.shape[0]):
        out[i] = math.sin(x[i])


def sine_of_single(x, out):
    for i in range(x.shape[0]):
        out[i] = math.sin(np.float32(x[i]))


def far(x):
    for i in range(x.shape[0]):
        x[i] = x[i] * 1e300


def test_what_is_missing_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"double_float\.py:\d+: precision='double-float' has no function sin"):
        kw.njit(**DOUBLE)(sine)(drawn(4), np.zeros(4))
    x, out = drawn(4), np.zeros(4)
    kw.njit(**DOUBLE)(sine_of_single)(x, out)
    np.testing.assert_allclose(out, np.sin(x), rtol=1e-6)
    with pytest.raises(UnsupportedError, match="the range of float32, where 1e\\+300 does not fit"):
        kw.njit(**DOUBLE)(far)(drawn(4))
    with pytest.raises(UsageError, match="precision='double-float' is for Metal; target='cpu' has float64"):
        kw.njit(precision="double-float")(axpy)
    with pytest.raises(UsageError, match="declare it for float32"):
        kw.vectorize(["float64(float64)"], target="metal", precision="float32")


def test_numbers_that_do_not_fit_are_named() -> None:
    function = kw.njit(**DOUBLE)(axpy)
    x = drawn(5)
    x[2] = -1e39
    with pytest.raises(UsageError, match=r"axpy, argument 1, 'x': -1e\+39 does not fit precision='double-float'"):
        function(x, drawn(5), 0.5)
    with pytest.raises(UsageError, match=r"axpy, argument 3, 'alpha': 1e\+100 does not fit"):
        function(drawn(5), drawn(5), 1e100)
    out = np.full((4, 4), 1e200)  # nothing reads it, and the rim is not written
    stencil_of = kw.njit(**DOUBLE)(stencil)
    stencil_of(drawn(4, 4), out)
    assert out[0, 0] == 1e200 and abs(out[1, 1]) < 100


def every_operation(x, y, out):
    for i in range(x.shape[0]):
        out[i, 0] = x[i] + y[i]
        out[i, 1] = x[i] - y[i]
        out[i, 2] = x[i] * y[i]
        out[i, 3] = x[i] / y[i]
        out[i, 4] = np.sqrt(x[i])
        out[i, 5] = max(x[i], y[i])
        out[i, 6] = np.minimum(x[i], y[i])
        out[i, 7] = np.floor(x[i])
        out[i, 8] = np.ceil(x[i])
        out[i, 9] = np.trunc(x[i])
        out[i, 10] = np.rint(x[i])
        out[i, 11] = abs(x[i])
        out[i, 12] = np.sign(x[i])
        out[i, 13] = np.isnan(x[i]) + 2 * np.isinf(x[i]) + 4 * np.isfinite(x[i])
        out[i, 14] = (x[i] < y[i]) + 2 * (x[i] <= y[i]) + 4 * (x[i] == y[i]) + 8 * (x[i] != y[i]) + 16 * (x[i] >= y[i])
        out[i, 15] = -x[i] if x[i] > 0 else y[i]
        out[i, 16] = math.copysign(x[i], y[i])
        out[i, 17] = x[i] // y[i]
        out[i, 18] = x[i] % y[i]
        out[i, 19] = math.fmod(x[i], y[i])
        out[i, 20] = x[i] ** 3


def test_infinities_nan_and_zeros_pass() -> None:
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 0.375, 2.0**40 + 0.5, -(2.0**-30)])
    x, y = (grid.ravel() for grid in np.meshgrid(special, special))
    found, wanted = np.zeros((x.size, 21)), np.zeros((x.size, 21))
    kw.njit(**DOUBLE)(every_operation)(x, y, found)
    kw.njit(every_operation)(x, y, wanted)
    np.testing.assert_array_equal(np.signbit(found) & ~np.isnan(found), np.signbit(wanted) & ~np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=2e-14)


def counted(n, x, half, whole):
    for i in range(n.shape[0]):
        n[i] = n[i] * 3 + 1
        x[i] = n[i]
        half[i] = n[i] / 2
        whole[i] = int(x[i] + 0.75)


def test_integers_stay_exact() -> None:
    n = np.array([0, -1, 7, 2**31, 2**45 + 1, -(2**45) - 3, 2**62 + 1], np.int64)
    found = [n.copy(), np.zeros(7), np.zeros(7), np.zeros(7, np.int64)]
    kw.njit(**DOUBLE)(counted)(*found)
    triple = n * 3 + 1
    np.testing.assert_array_equal(found[0], triple)
    np.testing.assert_array_equal(found[1][:6], triple[:6])
    np.testing.assert_allclose(found[1], triple, rtol=2.0**-48)
    np.testing.assert_array_equal(found[2][:6], triple[:6] / 2)
    np.testing.assert_array_equal(found[3][:6], (triple[:6] + 0.75).astype(np.int64))


def test_what_is_returned_and_what_is_not_written() -> None:
    x = drawn(30)
    low, high, size = kw.njit(**DOUBLE)(extremes)(x)
    np.testing.assert_allclose([low, high], [x.min(), x.max()], rtol=2.0**-48)
    assert size == 30
    kept = x.copy()
    x[0] = -5.0

    def clip(x):
        for i in range(x.shape[0]):
            if x[i] < -3:
                x[i] = -3.0

    kw.njit(**DOUBLE)(clip)(x)
    assert x[0] == -3
    np.testing.assert_array_equal(x[1:], np.where(kept < -3, -3, kept)[1:])  # bit for bit


def test_single_floats_beside_double_ones() -> None:
    def mixed(x, y, total):
        for i in range(x.shape[0]):
            x[i] += y[i]
            total[i] = x[i] * 0.1

    single, double, total = drawn(50).astype(np.float32), drawn(50, seed=1), np.zeros(50)
    wanted = (single + double).astype(np.float32)
    kw.njit(**DOUBLE)(mixed)(single, double, total)
    np.testing.assert_array_equal(single, wanted)
    np.testing.assert_allclose(total, wanted.astype(float) * 0.1, rtol=2e-14)


def test_batches() -> None:
    signature = "void(float64[:], float64[:], int64[:,:], float64[:])"
    function = kw.guvectorize([signature], "(n),(n),(l,q)->(k)", **DOUBLE)(shuffle_mul)
    a, b, operator, _ = operands(300)
    many = np.stack([a * factor for factor in range(1, 7)]).reshape(2, 3, 15)
    for rows in (operator, kw.constant(operator)):
        res = np.zeros((2, 3, 127))
        assert function(many, b, rows, res) is res
        for place in np.ndindex(2, 3):
            wanted = shuffled(many[place], b, operator)
            np.testing.assert_allclose(res[place], wanted, rtol=0, atol=1e-13 * np.abs(wanted).max())
    many[1, 2, 3] = 1e50
    with pytest.raises(UsageError, match=r"shuffle_mul, argument 1, 'a': 1e\+50 does not fit"):
        function(many, b, operator, res)


def quotient(x, n):
    return np.hypot(x / n, 0.1)


def test_functions_of_numbers() -> None:
    function = kw.vectorize(["float64(float64, int64)"], **DOUBLE)(quotient)
    x, n = drawn(2, 3), np.array([-1, 2, 3])
    with pytest.warns(UserWarning, match=r"largest error over the largest value: output 1 "):
        found = function(x, n)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, np.hypot(x / n, 0.1), rtol=1e-13)


def test_pairs_are_words() -> None:
    x = np.array([[0.1, -0.0, np.inf], [np.nan, -3e38, 2.0**-140]])
    words = pairs.split(x, "x")
    assert words.dtype == np.int64 and words.shape == (2, 3) and words.flags.c_contiguous
    back = pairs.joined(words)
    np.testing.assert_allclose(back, x, rtol=2.0**-48)
    assert np.signbit(back[0, 1]) and not np.signbit(back[0, 0])
    assert pairs.split(np.float64(0.5), "x").shape == ()
    assert pairs.split(np.zeros((0, 4)), "x").shape == (0, 4)
