"""math.hpp over the whole range of numbers, specials included: float32 against float64, float64 against more."""

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
import torch

FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    # name: (float64 truth, granted error in ulp)
    "exp": (np.exp, 2.0),
    "expm1": (np.expm1, 2.0),
    "log": (np.log, 2.0),
    "log1p": (np.log1p, 2.0),
    "tanh": (np.tanh, 2.0),
    "sigmoid": (lambda x: torch.sigmoid(torch.from_numpy(x)).numpy(), 2.5),
    "erf": (lambda x: torch.erf(torch.from_numpy(x)).numpy(), 2.0),
    "sqrt": (np.sqrt, 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5),
    "floor": (np.floor, 0.0),
    "ceil": (np.ceil, 0.0),
    "trunc": (np.trunc, 0.0),
    "round": (np.round, 0.0),
}
TEXT = "\n".join(
    f"""kernel void {name}_all(float* y, const float* x, int64 n) {{
#pragma clang loop vectorize(assume_safety) interleave_count(2)
    for (int64 i = 0; i < n; ++i) y[i] = math::{name}(x[i]);
}}"""
    for name in [*FUNCTIONS, "gelu", "exp_falling"]
)
EXTENDED = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant
WIDE_FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    # name: (truth in more than float64, granted error in ulp)
    "exp": (np.exp, 1.0),
    "expm1": (np.expm1, 2.0),
    "log": (np.log, 1.0),
    "log1p": (np.log1p, 2.0),
    "tanh": (np.tanh, 2.5),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 2.5),
}
WIDE_TEXT = "\n".join(
    f"""kernel void {name}_all(double* y, const double* x, int64 n) {{
#pragma clang loop vectorize(assume_safety)
    for (int64 i = 0; i < n; ++i) y[i] = math::{name}(x[i]);
}}"""
    for name in [*WIDE_FUNCTIONS, "exp_falling"]
)
TINY = float(np.finfo(np.float32).tiny)


def samples() -> np.ndarray:
    """Every 1009th bit pattern, a dense grid where the functions bend, and the specials."""
    patterns = np.arange(0, 2**32, 1009, dtype=np.uint64).astype(np.uint32).view(np.float32)
    grid = np.concatenate([np.linspace(-s, s, 400_001, dtype=np.float32) for s in (1e-3, 1.0, 12.0, 110.0)])
    specials = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, TINY, -TINY, 1e-45, -1e-45, -1.0, 1.0, 88.72284, 88.73])
    return np.concatenate([patterns, grid, specials.astype(np.float32)])


def run(library: ctypes.CDLL, name: str, x: np.ndarray) -> np.ndarray:
    y = np.empty_like(x)
    function = getattr(library, f"{name}_all")
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    function(y.ctypes.data, x.ctypes.data, x.size)
    return y


@pytest.mark.parametrize("flags", [(), ("-mavx2", "-mf16c")], ids=["resolved", "without fused multiply-add"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_in_ulp(build: Callable[..., ctypes.CDLL], name: str, flags: tuple[str, ...]) -> None:
    truth_of, granted = FUNCTIONS[name]
    x = samples()
    got = run(build(TEXT, *flags), name, x)
    with np.errstate(all="ignore"):
        truth = truth_of(x.astype(np.float64))
        expected = truth.astype(np.float32)
        ulp = np.spacing(np.maximum(np.abs(expected), np.float32(TINY))).astype(np.float64)
        error = np.abs(got.astype(np.float64) - truth) / ulp
    plain = np.isfinite(expected) & np.isfinite(got)
    odd = ~plain & ~((np.isnan(got) & np.isnan(expected)) | (got == expected))
    # A result that rounds to infinity may come out as the largest number, and the other way round.
    odd &= ~((np.abs(truth) > 3.4028e38) & (np.abs(got) > 3.4028e38))
    assert not odd.any(), (x[odd][:5], got[odd][:5], expected[odd][:5])
    worst = int(np.argmax(np.where(plain, error, 0)))
    if not flags:
        assert error[plain].max() <= granted, (x[worst], got[worst], truth[worst], error[worst])
    else:
        assert error[plain].max() <= granted + 1.5, (x[worst], got[worst], truth[worst], error[worst])


def test_gelu(build: Callable[..., ctypes.CDLL]) -> None:
    """2.5 ulp where it grows; in the tail on the left the error is measured by what torch's own has there."""
    x = samples()
    got, own = run(build(TEXT), "gelu", x), torch.nn.functional.gelu(torch.from_numpy(x)).numpy()
    with np.errstate(all="ignore"):
        truth = x * torch.special.ndtr(torch.from_numpy(x.astype(np.float64))).numpy()
        error, own_error = np.abs(got - truth), np.abs(own - truth)
        ulp = np.spacing(np.abs(truth.astype(np.float32)))
    assert np.array_equal(np.isnan(got), np.isnan(x) | (x == -np.inf))
    assert got[x == np.inf] == np.inf
    right, left = (x > 0) & (x < np.inf), (x < 0) & (x > -np.inf)
    assert (error / ulp)[right].max() <= 2.5
    for low, high in [(-1, 0), (-3, -1), (-np.inf, -3)]:
        part = left & (x >= low) & (x < high)
        assert error[part].max() <= max(1.5 * own_error[part].max(), 1e-8)


def test_exp_falling(build: Callable[..., ctypes.CDLL]) -> None:
    x = np.concatenate([samples(), np.linspace(-87.5, -87.2, 4001, dtype=np.float32)])
    x = x[~(x > 0)]
    got = run(build(TEXT), "exp_falling", x)
    with np.errstate(all="ignore"):
        truth = np.exp(x.astype(np.float64))
    assert np.array_equal(np.isnan(got), np.isnan(x))
    plain = truth >= TINY
    assert (np.abs(got - truth)[plain] / np.spacing(truth[plain].astype(np.float32))).max() <= 2
    assert got[~plain & ~np.isnan(x)].max() <= TINY
    assert got[x == -np.inf] == 0


def wide_samples() -> np.ndarray:
    """Bit patterns at random, dense grids where the functions bend, and the specials."""
    patterns = np.random.default_rng(0).integers(0, 2**64, 400_000, dtype=np.uint64).view(np.float64)
    grid = np.concatenate([np.linspace(-s, s, 200_001) for s in (1e-5, 1.0, 25.0, 750.0)])
    near_one = 1 + np.linspace(-1e-3, 1e-3, 20_001)
    specials = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 2.3e-308, 5e-324, -5e-324, 709.78271289338397, 709.79])
    return np.concatenate([patterns, grid, near_one, specials, -specials])


@pytest.mark.skipif(not EXTENDED, reason="this machine's long double is float64")
@pytest.mark.parametrize("flags", [(), ("-mavx2", "-mf16c")], ids=["resolved", "without fused multiply-add"])
@pytest.mark.parametrize("name", WIDE_FUNCTIONS)
def test_error_of_float64(build: Callable[..., ctypes.CDLL], name: str, flags: tuple[str, ...]) -> None:
    truth_of, granted = WIDE_FUNCTIONS[name]
    x = wide_samples()
    got = run(build(WIDE_TEXT, *flags), name, x)
    with np.errstate(all="ignore"):
        truth = truth_of(x.astype(np.longdouble))
        expected = truth.astype(np.float64)
        ulp = np.spacing(np.maximum(np.abs(expected), np.finfo(np.float64).tiny)).astype(np.longdouble)
        error = np.abs(got.astype(np.longdouble) - truth) / ulp
    plain = np.isfinite(expected) & np.isfinite(got)
    odd = ~plain & ~((np.isnan(got) & np.isnan(expected)) | (got == expected))
    odd &= ~((np.abs(truth) > 1.7976931348623e308) & (np.abs(got) > 1.7976931348623e308))
    assert not odd.any(), (x[odd][:5], got[odd][:5], expected[odd][:5])
    worst = int(np.argmax(np.where(plain, error, 0)))
    assert error[plain].max() <= granted + (1.5 if flags else 0), (x[worst], got[worst], truth[worst], error[worst])


def test_exp_falling_of_float64(build: Callable[..., ctypes.CDLL]) -> None:
    x = np.concatenate([wide_samples(), np.linspace(-708.5, -708.2, 4001)])
    x = x[~(x > 0)]
    got = run(build(WIDE_TEXT), "exp_falling", x)
    plain = x > -708.3964
    assert np.array_equal(np.isnan(got), np.isnan(x))
    np.testing.assert_allclose(got[plain], np.exp(x[plain]), rtol=4 * np.finfo(np.float64).eps)
    assert not got[x < -708.3965].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_signs_of_zero(build: Callable[..., ctypes.CDLL], dtype: type) -> None:
    x = np.array([0.0, -0.0], dtype=dtype)
    names = ("tanh", "erf", "expm1", "log1p", "sqrt") if dtype is np.float32 else ("tanh", "expm1", "log1p")
    library = build(TEXT if dtype is np.float32 else WIDE_TEXT)
    for name in names:
        assert np.array_equal(np.signbit(run(library, name, x)), [False, True]), name


def test_bfloat16_rounds_as_torch(build: Callable[..., ctypes.CDLL]) -> None:
    library = build(
        """kernel void round_all(bfloat16* y, const float* x, int64 n) {
#pragma clang loop vectorize(assume_safety)
    for (int64 i = 0; i < n; ++i) y[i] = x[i];
}"""
    )
    x = torch.from_numpy(samples())
    y = torch.empty(x.shape, dtype=torch.bfloat16)
    library.round_all.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    library.round_all(y.data_ptr(), x.data_ptr(), x.numel())
    expected = x.to(torch.bfloat16)
    assert torch.equal(y.isnan(), expected.isnan())
    assert torch.equal(y[~y.isnan()], expected[~y.isnan()])
