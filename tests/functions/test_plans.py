"""Plans for scatter loops over rows that cannot change."""

import gc
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from user_loops import operands, shuffle_mul, shuffled

import kernelwright as kw
from kernelwright.errors import UsageError
from kernelwright.functions.plans import choosing
from kernelwright.functions.plans.tables import distinct, packed
from kernelwright.home import home

PLANS = ("segmented", "factored", "folded", "plain")


@pytest.fixture(params=PLANS)
def forced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes one plan the fastest, and forgets what was remembered."""

    def shortest(overload: Any, plans: Any, arguments: Any) -> dict[str, float]:
        return {plan.name: float(plan.name != request.param) for plan in plans}

    monkeypatch.setattr(choosing, "_shortest_us", shortest)
    monkeypatch.setattr(choosing, "recall", lambda key: None)
    return request.param


def chosen(function: Any) -> list[str]:
    return [choice.name for choice in function.plans.values()]


def test_the_founding_function_by_each_plan(forced: str) -> None:
    function = kw.njit(shuffle_mul)
    a, b, operator, res = operands(20_000)
    constant = kw.constant(operator)
    for turn in range(3):
        res[:] = 5
        function(a + turn, b, constant, res)
        np.testing.assert_allclose(res, shuffled(a + turn, b, operator), rtol=1e-11)
    assert chosen(function) == [forced]
    single = [x.astype(np.float32) for x in (a, b, res)]
    for _ in range(2):
        function(single[0], single[1], constant, single[2])
        np.testing.assert_allclose(single[2], shuffled(a, b, operator), rtol=1e-3, atol=1e-2)
    with pytest.raises(IndexError, match="index 14 is out of bounds|index 1[0-4] is out of bounds for axis 0 of 'a'"):
        function(a[:10], b, constant, res)
    operator[:] = 0  # the constant is a copy
    res[:] = 0
    function(a, b, constant, res)
    assert abs(res).sum() > 0


def adds_onto(x, rows, weights, out):
    for n in range(rows.shape[0]):
        out[rows[n, 0], rows[n, 1]] += weights[n] * x[rows[n, 2]] - x[0]


def counts(codes, out):
    for n in range(len(codes)):
        out[codes[n] // 4 % 7] += 1


def scaled(x, rows, alpha, out):
    first = x[0]
    for n in range(rows.shape[0]):
        value = alpha * x[rows[n]]
        out[rows[n]] += value * first
    out[0] = -1.0


def test_other_loops_and_several_axes(forced: str) -> None:
    random = np.random.default_rng(3)
    rows = np.stack([random.integers(0, limit, 5000) for limit in (6, 9, 11)], axis=1).astype(np.int32)
    weights, x = random.standard_normal(5000), random.standard_normal(11)
    function, expected = kw.njit(adds_onto), np.ones((6, 9))
    adds_onto(x, rows, weights, expected)
    fixed = kw.constant(rows), kw.constant(weights)
    for _ in range(2):
        out = np.ones((6, 9))
        function(x, *fixed, out)
        np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-11)
    strided = np.ones((12, 18))[::2, ::-2]
    function(x, *fixed, strided)
    np.testing.assert_allclose(strided, expected, rtol=1e-11, atol=1e-11)

    codes = kw.constant(random.integers(0, 1000, 5000).astype(np.uint16))
    function, out = kw.njit(counts), np.zeros(7, np.int64)
    for turn in range(1, 4):
        function(codes, out)
        np.testing.assert_array_equal(out, turn * np.bincount(codes // 4 % 7, minlength=7))

    places = kw.constant(random.integers(0, 11, 3000))
    function = kw.njit(scaled)
    for alpha in (0.5, 2.0):
        out, expected = np.zeros(11), np.zeros(11)
        function(x, places, alpha, out)
        scaled(x, places, alpha, expected)
        np.testing.assert_allclose(out, expected, rtol=1e-11)


def test_what_is_not_finite_reaches_its_own_places_only(forced: str) -> None:
    function = kw.njit(shuffle_mul)
    a, b, operator, res = operands(20_000)
    operator = operator[(operator[:, 0] != 3) | (operator[:, 2] < 5)]
    constant = kw.constant(operator)
    function(a, b, constant, res)
    a[3] = np.inf
    function(a, b, constant, res)
    assert np.isfinite(res[5:]).all() and not np.isfinite(res[:5]).any()
    np.testing.assert_allclose(res[5:], shuffled(a, b, operator)[5:], rtol=1e-11)


def test_arrays_that_overlap_take_the_plain_loop(forced: str) -> None:
    def into(x, rows, out):
        for n in range(rows.shape[0]):
            out[rows[n]] += x[rows[n]] * 0.5

    function = kw.njit(into)
    rows = kw.constant(np.arange(400) % 8)
    function(np.ones(8), rows, np.zeros(8))
    memory, expected = np.ones(12), np.ones(12)
    function(memory[:8], rows, memory[2:10])
    into(expected[:8], rows, expected[2:10])
    np.testing.assert_array_equal(memory, expected)


def _written(x, rows, out):
    for n in range(rows.shape[0]):
        out[rows[n]] += out[0] + x[rows[n]]


def _conditional(x, rows, out):
    for n in range(rows.shape[0]):
        if x[rows[n]] > 0:
            out[rows[n]] += x[rows[n]]


def _indirect(x, rows, out):
    for n in range(rows.shape[0]):
        out[rows[int(x[n])]] += 1.0


def _carried(x, rows, out):
    last = 0.0
    for n in range(rows.shape[0]):
        last = last * 0.5 + x[rows[n]]
        out[rows[n]] += last


@pytest.mark.parametrize("loop", [_written, _conditional, _indirect, _carried])
def test_loops_that_may_not_be_reordered_are_left_alone(loop: Callable[..., None]) -> None:
    function = kw.njit(loop)
    random = np.random.default_rng(5)
    x, rows = abs(random.standard_normal(16)), random.integers(0, 8, 16)
    expected = np.zeros(8)
    loop(x, rows, expected)
    constant = kw.constant(rows)
    for _ in range(2):
        out = np.zeros(8)
        function(x, constant, out)
        np.testing.assert_array_equal(out, expected)
    assert chosen(function) == ["plain"]


def test_a_bad_first_call_keeps_no_plan_and_a_good_one_does() -> None:
    function = kw.njit(shuffle_mul)
    a, b, operator, res = operands(2000)
    constant = kw.constant(operator)
    with pytest.raises(IndexError):
        function(a[:4], b, constant, res)
    assert not function.plans
    function(a, b, constant, res)
    assert len(function.plans) == 1
    with pytest.raises(TypeError, match="writes to 'operator', but it is read-only"):
        kw.njit(_writes)(constant)


def _writes(operator):
    operator[0, 0] = 1


def test_the_choice_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, operator, res = operands(3000, seed=9)
    first, second = kw.njit(shuffle_mul), kw.njit(shuffle_mul)
    first(a, b, kw.constant(operator), res)

    def never(*arguments: Any) -> Any:
        raise AssertionError("measured again")

    held = kw.constant(operator)
    if next(iter(first.plans.values()), None) is None:  # its constant is gone already
        assert list((home() / "plans").glob("*.json"))
    monkeypatch.setattr(choosing, "_shortest_us", never)
    second(a, b, held, res)
    (choice,) = second.plans.values()
    assert choice.shortest_us == {}
    names = [json.loads(file.read_text())["plan"] for file in (home() / "plans").glob("*.json")]
    assert choice.name in names


def test_threads_give_the_bits_of_one() -> None:
    import torch

    a, b, operator, res = operands(200_000)
    constant, before = kw.constant(operator), torch.get_num_threads()
    for plan in PLANS[:2]:
        alone, together = kw.njit(plan=plan)(shuffle_mul), kw.njit(plan=plan, parallel=True)(shuffle_mul)
        alone(a, b, constant, res)
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            out = np.zeros(127)
            for _ in range(2):
                together(a, b, constant, out)
            np.testing.assert_array_equal(out, res)
        torch.set_num_threads(before)


def test_a_plan_can_be_asked_for() -> None:
    a, b, operator, res = operands(3000)
    constant = kw.constant(operator)
    for plan in PLANS[:2]:
        function = kw.njit(plan=plan)(shuffle_mul)
        function(a, b, constant, res)
        assert chosen(function) == [plan]
    with pytest.raises(UsageError, match="no plan 'dense' for these arrays; there are plain, segmented, factored"):
        kw.njit(plan="dense")(shuffle_mul)(a, b, constant, res)


def test_a_plan_goes_with_its_constant() -> None:
    function = kw.njit(shuffle_mul)
    a, b, operator, res = operands(500)
    constant = kw.constant(operator)
    function(a, b, constant, res)
    assert len(function.plans) == 1
    del constant
    gc.collect()
    assert not function.plans
    other = kw.constant(operator[::-1] * [1, 1, 1, 2])
    function(a, b, other, res)
    np.testing.assert_allclose(res, 2 * shuffled(a, b, operator), rtol=1e-11)


def test_a_constant_cannot_be_written_to() -> None:
    source = np.arange(12).reshape(3, 4)
    constant = kw.constant(source)
    source[:] = 0
    assert constant.tolist()[2] == [8, 9, 10, 11] and kw.constant(constant) is constant
    with pytest.raises(ValueError):
        constant[0, 0] = 1
    with pytest.raises(ValueError):
        constant.flags.writeable = True
    with pytest.raises(ValueError):
        constant[1:].flags.writeable = True
    assert type(constant + 1) is np.ndarray and type(constant[1]) is np.ndarray and type(constant.sum()) is np.int64
    assert kw.constant(3.5).shape == () and kw.constant(np.zeros((0, 4))).shape == (0, 4)
    with pytest.raises(TypeError, match="numbers, not of Python objects"):
        kw.constant([None])


def test_rows_are_packed_and_told_apart() -> None:
    for low, high, name in (
        (0, 255, "uint8"),
        (-1, 100, "int8"),
        (0, 256, "uint16"),
        (-200, 5, "int16"),
        (0, 1 << 40, "int64"),
    ):
        assert packed(np.array([low, high])).dtype == name
    assert packed(np.array([0.5])).dtype == "float64" and packed(np.zeros(0, int)).size == 0
    random = np.random.default_rng(1)
    for columns in (
        [random.integers(-5, 5, 999).astype("int8"), random.integers(0, 3, 999)],
        [random.integers(0, 1 << 62, 999) % 7 << 58, random.standard_normal(999).round(1)],
        [np.array([2**64 - 1, 2**64 - 2] * 9, np.uint64), np.arange(18) % 3],
    ):
        firsts, which = distinct(columns)
        for column in columns:
            np.testing.assert_array_equal(column[firsts][which], column)
        assert len(firsts) == len(set(zip(*(column.tolist() for column in columns), strict=True)))


@pytest.mark.timing
def test_a_call_of_the_founding_function() -> None:
    """Meaningless while other work runs. All checks are on; Numba takes about 2.65 us on the machine of the target."""
    import timeit

    a, b, operator, res = operands(943)
    constant, function = kw.constant(operator), kw.njit(shuffle_mul)
    function(a, b, constant, res)
    assert min(timeit.repeat(lambda: function(a, b, constant, res), number=2000, repeat=20)) / 2000 < 1.3e-6
