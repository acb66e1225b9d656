"""Compiled functions inside JAX and torch."""

import numpy as np
import pytest
import torch
from user_loops import axpy, extremes, operands, shuffle_mul, shuffled

import kernelwright as kw

compiled = kw.njit(shuffle_mul)


def test_torch_compile_keeps_it_as_one_operator() -> None:
    a, b, operator, res = map(torch.from_numpy, operands(100))
    expected = shuffled(a.numpy(), b.numpy(), operator.numpy())
    shuffle = compiled.torch_operator(a, b, operator, res)

    def model(a, b, operator, res):
        doubled = a * 2
        shuffle(doubled, b, operator, res)
        return res + 1

    targets = []

    def backend(graph, inputs):
        targets.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    for run in (model, torch.compile(model, backend=backend, fullgraph=True)):
        res.fill_(5)
        np.testing.assert_allclose(run(a, b, operator, res).numpy(), 2 * expected + 1, rtol=1e-12, atol=1e-12)
    assert any("shuffle_mul" in target for target in targets)
    out = torch.zeros(3)
    kw.njit(axpy).torch_operator(out, out)(torch.ones(3), out, 2.0)
    assert out.tolist() == [2, 2, 2]


def test_torch_is_told_that_there_are_no_gradients() -> None:
    x, out = torch.ones(3, requires_grad=True), torch.zeros(3)
    function = kw.njit(axpy).torch_operator(out, out, 1.0)
    with pytest.raises(TypeError, match="axpy: gradients are not supported: call it under torch.no_grad"):
        function(x, out, 1.0)
    with torch.no_grad():
        function(x, out, 1.0)
    assert out.tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="writes its results into arguments"):
        kw.njit(extremes).torch_operator(torch.ones(3))


def test_jax_jit_calls_it() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'kernelwright[jax]'")
    jax.config.update("jax_enable_x64", True)
    a, b, operator, res = operands(100)
    given = [jax.numpy.asarray(value) for value in (a, b, operator, res)]

    @jax.jit
    def model(a, b, operator, res):
        return compiled.in_jax(a * 2, b, operator, res) + 1

    np.testing.assert_allclose(model(*given), 2 * shuffled(a, b, operator) + 1, rtol=1e-12, atol=1e-12)
    assert given[3].sum() == 0
    y = kw.njit(axpy).in_jax(jax.numpy.ones(3), jax.numpy.zeros(3), 3.0)
    assert y.tolist() == [3, 3, 3]


def test_jax_arrays_are_read_where_they_are() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'kernelwright[jax]'")
    jax.config.update("jax_enable_x64", True)
    a, b, operator, res = operands(100)
    compiled(jax.numpy.asarray(a), jax.numpy.asarray(b), jax.numpy.asarray(operator), res)
    np.testing.assert_allclose(res, shuffled(a, b, operator), rtol=1e-12, atol=1e-12)
    with pytest.raises(TypeError, match="writes to 'res', but .* is only read; pass numpy.array of it"):
        compiled(a, b, operator, jax.numpy.asarray(res))


class Exported:
    """An array of some other library."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_whatever_speaks_dlpack_is_read_where_it_is() -> None:
    a, b, operator, res = operands(100)
    compiled(Exported(a), b, Exported(operator), res)
    np.testing.assert_allclose(res, shuffled(a, b, operator), rtol=1e-12, atol=1e-12)
    with pytest.raises(TypeError, match="Exported is only read"):
        compiled(a, b, operator, Exported(res))
