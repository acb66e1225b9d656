"""Functions on Metal, hosted on this machine's CPU where there is no Metal device."""

import warnings

import numpy as np
import pytest
import torch
from user_loops import axpy, extremes, operands, shuffle_mul, shuffled

import kernelwright as kw
from kernelwright.errors import MissingError, UsageError
from kernelwright.targets.broker import language


def single(length: int):
    a, b, operator, res = operands(length)
    return a.astype(np.float32), b.astype(np.float32), operator.astype(np.int32), res.astype(np.float32)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def test_the_founding_function_on_metal() -> None:
    function = kw.njit(target="metal")(shuffle_mul)
    a, b, operator, res = single(300)
    for scale in (1, 2):
        function(a * np.float32(scale), b, operator, res)
        np.testing.assert_allclose(res, scale * shuffled(a, b, operator), rtol=1e-4, atol=1e-4)
    tensors = [torch.from_numpy(x) for x in (a, b, operator, np.zeros_like(res))]
    function(*tensors)
    np.testing.assert_allclose(tensors[3].numpy(), shuffled(a, b, operator), rtol=1e-4, atol=1e-4)
    strided = np.zeros(254, np.float32)[::2]
    function(a, b, operator, strided)
    np.testing.assert_allclose(strided, shuffled(a, b, operator), rtol=1e-4, atol=1e-4)
    operator[7, 0] = 40
    with pytest.raises(IndexError, match="index 40 is out of bounds for axis 0 of 'a', whose size is 15"):
        function(a, b, operator, res)


@pytest.mark.parametrize("plan", ["plain", "segmented", "folded"])
@pytest.mark.parametrize("length", [5, 20_000, 2_000_000])
def test_plans_on_metal(plan: str, length: int) -> None:
    a, b, operator, res = single(length)
    a[3] = np.inf  # reaches just the places it must reach
    constant = kw.constant(operator)
    function = kw.njit(target="metal", plan=plan)(shuffle_mul)
    if plan == "folded" and length == 5:
        with pytest.raises(UsageError, match="there is no plan 'folded' for these arrays; there are plain, segmented"):
            function(a, b, constant, res)
        return
    for scale in (1, 2):  # the second call finds all prepared
        res[:] = np.nan
        function(a * np.float32(scale), b, constant, res)
        wanted = shuffled(a.astype(float) * scale, b.astype(float), operator)
        np.testing.assert_array_equal(np.isfinite(res), np.isfinite(wanted))
        finite = np.isfinite(wanted)
        scale_of = max(1.0, float(abs(wanted[finite]).max(initial=0.0)))
        np.testing.assert_allclose(res[finite], wanted[finite], rtol=1e-3, atol=3e-5 * scale_of)
    (choice,) = function.plans.values()
    assert choice.name == plan
    with pytest.raises(IndexError, match="out of bounds for axis 0 of 'a'"):
        function(a[: operator[:, 0].max()].copy(), b, constant, res)


def test_a_plan_on_metal_is_chosen_by_measuring_and_goes_with_its_array() -> None:
    a, b, operator, res = single(30_000)
    function = kw.njit(target="metal", deterministic=True)(shuffle_mul)
    constant = kw.constant(operator)
    found = []
    for _ in range(3):
        function(a, b, constant, res)
        found.append(res.copy())
    np.testing.assert_allclose(res, shuffled(a, b, operator), rtol=1e-3, atol=1e-2)
    assert all(np.array_equal(found[0], other) for other in found)
    (choice,) = function.plans.values()
    assert choice.name in ("segmented", "folded") and set(choice.shortest_us) == {"segmented", "folded"}
    del constant
    assert not function.plans


def signed(a, b, rows, weights, out):
    for n in range(rows.shape[0]):
        out[rows[n, 1]] += weights[n] * a[rows[n, 0]] - b[rows[n, 0]]


def test_a_plan_for_sums_that_are_no_products_on_metal() -> None:
    random = np.random.default_rng(3)
    rows = np.stack([random.integers(0, 9, 5000), random.integers(2, 12, 5000)], axis=1)
    a, b, weights = (random.standard_normal(size).astype(np.float32) for size in (9, 9, 5000))
    wanted = np.zeros(12)
    signed(a.astype(float), b.astype(float), rows, weights, wanted)
    function, out = kw.njit(target="metal", plan="segmented")(signed), np.zeros(12, np.float32)
    function(a, b, kw.constant(rows), kw.constant(weights), out)
    np.testing.assert_allclose(out, wanted, rtol=1e-3, atol=1e-3)


def test_numbers_and_results_on_metal() -> None:
    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    kw.njit(target="metal")(axpy)(x, y, 0.5)
    assert y.tolist() == [1, 1.5, 2, 2.5, 3]
    assert kw.njit(target="metal")(extremes)(np.array([3, -1, 7], np.int32)) == (-1, 7, 3)


def test_float64_is_never_cast_silently() -> None:
    a, b, operator, res = operands(200)
    function = kw.njit(target="metal")(shuffle_mul)
    with pytest.warns(UserWarning, match="Metal has no float64, so it runs on the CPU"):
        function(a, b, operator, res)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(a, b, operator, res)  # said once
    np.testing.assert_allclose(res, shuffled(a, b, operator), rtol=1e-12, atol=1e-12)
    function = kw.njit(target="metal", precision="float32")(shuffle_mul)
    with pytest.warns(UserWarning, match=r"largest error over the largest value: res \d\.\de-0[6-9]"):
        function(a, b, operator, res)
    error = np.abs(res - shuffled(a, b, operator)).max()
    assert 0 < error < 1e-3
    with pytest.warns(UserWarning, match="there is no Metal device here|largest error"):
        kw.njit(target="metal", precision="float32")(shuffle_mul)(a, b, operator, res)


def test_what_a_device_cannot_promise_is_refused() -> None:
    with pytest.raises(UsageError, match="deterministic=True with target='metal': its scatter adds floating numbers"):
        kw.njit(target="metal", deterministic=True)(shuffle_mul)(*single(10))
    if language("cuda").missing():
        with pytest.raises(MissingError, match="target='cuda': "):
            kw.njit(target="cuda")(shuffle_mul)(*single(10))


def test_auto_runs_where_the_arrays_are() -> None:
    a, b, operator, res = operands(50)
    kw.njit(target="auto")(shuffle_mul)(a, b, operator, res)
    np.testing.assert_allclose(res, shuffled(a, b, operator), rtol=1e-12, atol=1e-12)


def test_batches_on_metal() -> None:
    signature = "void(float32[:], float32[:], int32[:,:], float32[:])"
    function = kw.guvectorize([signature], "(n),(n),(l,q)->(k)", target="metal")(shuffle_mul)
    a, b, operator, _ = single(80)
    many = np.stack([a * np.float32(factor) for factor in range(6)]).reshape(2, 3, 15)
    res = np.zeros((2, 3, 127), np.float32)
    assert function(many, b, operator, res) is res
    for place in np.ndindex(2, 3):
        np.testing.assert_allclose(res[place], shuffled(many[place], b, operator), rtol=1e-4, atol=1e-4)
    operator[7, 0] = 40
    with pytest.raises(IndexError, match="index 40 is out of bounds for axis 0 of 'a'"):
        function(many, b, operator, res)


def test_batches_by_rows_that_cannot_change_on_metal() -> None:
    signature = "void(float32[:], float32[:], int32[:,:], float32[:])"
    function = kw.guvectorize([signature], "(n),(n),(l,q)->(k)", target="metal")(shuffle_mul)
    a, b, operator, _ = single(900)
    many = np.stack([a * np.float32(factor) for factor in range(6)]).reshape(2, 3, 15)
    constant, res = kw.constant(operator), np.full((2, 3, 127), np.nan, np.float32)
    for _ in range(2):
        assert function(many, b, constant, res) is res
        for place in np.ndindex(2, 3):
            np.testing.assert_allclose(res[place], shuffled(many[place], b, operator), rtol=1e-3, atol=1e-3)
    with pytest.raises(IndexError, match="out of bounds for axis 0 of '[ab]'"):
        function(many[..., :-1], b[:-1], constant, res)


def mixed(x, n):
    if n < 0:
        return x
    return x * n + 1


def test_numbers_become_arrays_on_metal() -> None:
    function = kw.vectorize(["float32(float32, int32)"], target="metal")(mixed)
    x, n = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3), np.array([-1, 2, 3], np.int32)
    expected = np.where(n < 0, x, x * n + 1)
    found = function(x, n)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.warns(UserWarning, match="Metal has no float64, so it runs on the CPU; declare it for float32"):
        double = kw.vectorize(["float64(float64, int64)"], target="metal")(mixed)(x.astype(float), n)
    assert double.dtype == np.float64
