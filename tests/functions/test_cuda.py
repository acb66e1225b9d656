"""Loop functions of other people's kinds on an NVIDIA GPU, where there is one."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from user_loops import operands, shuffle_mul, shuffled

import kernelwright as kw
from kernelwright.targets.broker import language

WHY = language("cuda").missing()
pytestmark = pytest.mark.skipif(WHY is not None, reason=str(WHY))


def load(name: str) -> Any:
    """A module of the loops' tests, without their test runs of compilers."""
    path = Path(__file__).parent.parent / "loops" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"loops_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


functions = load("test_python_functions")


@pytest.mark.parametrize("real", ["float64", "float32"])
@pytest.mark.parametrize("name", functions.CASES)
def test_a_gpu_computes_what_python_does(name: str, real: str) -> None:
    found = functions.fresh(functions.arguments_of(name, real))
    wanted = functions.fresh(functions.arguments_of(name, real))
    result = kw.njit(target="cuda")(functions.CASES[name][0])(*found)
    returned = () if result is None else result if isinstance(result, tuple) else (result,)
    results = functions.plain(name, wanted)
    functions.same([*returned, *found], [*results, *wanted], real)


@pytest.mark.parametrize("plan", [None, "plain", "segmented", "folded"])
@pytest.mark.parametrize("length", [943, 300_000])
def test_plans_on_a_gpu(plan: str | None, length: int) -> None:
    a, b, operator, res = operands(length)
    a[3] = np.inf
    constant, wanted = kw.constant(operator), shuffled(a, b, operator)
    function = kw.njit(target="cuda", plan=plan)(shuffle_mul)
    for _ in range(2):
        res[:] = np.nan
        function(a, b, constant, res)
        np.testing.assert_allclose(res, wanted, rtol=1e-9, atol=1e-9)
    operator[7, 0] = 40
    with pytest.raises(IndexError, match="index 40 is out of bounds for axis 0 of 'a', whose size is 15"):
        kw.njit(target="cuda")(shuffle_mul)(a, b, operator, res)


@pytest.mark.parametrize("items", [1, 33, 1000])
@pytest.mark.parametrize("length", [5, 943])
def test_batches_on_a_gpu(length: int, items: int) -> None:
    """Few rows: a thread for each item; many: a group."""
    import torch

    _, b, operator, _ = operands(length)
    many = np.random.default_rng(2).standard_normal((items, 15))
    signature = "void(float64[:], float64[:], int64[:,:], float64[:])"
    function = kw.guvectorize([signature], "(n),(n),(l,q)->(k)", target="cuda")(shuffle_mul)
    wanted = np.stack([shuffled(row, b, operator) for row in many])
    for rows in (operator, kw.constant(operator)):
        res = np.full((items, 127), np.nan)
        function(many, b, rows, res)
        np.testing.assert_allclose(res, wanted, rtol=1e-10, atol=1e-10)
        there = torch.full((items, 127), torch.nan, dtype=torch.float64, device="cuda")
        tensors = [torch.from_numpy(item).cuda() for item in (many, b)]
        given = rows if rows is not operator else torch.from_numpy(operator).cuda()
        assert function(*tensors, given, there) is there
        np.testing.assert_allclose(there.cpu().numpy(), wanted, rtol=1e-10, atol=1e-10)
    operator[3, 1] = 15
    with pytest.raises(IndexError, match="index 15 is out of bounds for axis 0 of 'b'"):
        function(many, b, operator, np.zeros((items, 127)))


def serial(x, out):
    out[0] = x[0]
    for i in range(1, x.shape[0]):
        out[i] = 0.5 * out[i - 1] + x[i]


def test_a_batch_of_serial_loops_on_a_gpu() -> None:
    x = np.random.default_rng(1).standard_normal((100, 40))
    function = kw.guvectorize(["void(float64[:], float64[:])"], "(n)->(n)", target="cuda")(serial)
    wanted = np.zeros_like(x)
    for row, out in zip(x, wanted, strict=True):
        serial(row, out)
    np.testing.assert_allclose(function(x), wanted, rtol=1e-12)
