"""kernelwright.vectorize and guvectorize."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from user_loops import operands, shuffle_mul, shuffled

import kernelwright as kw
from kernelwright.errors import UsageError


def hypotenuse(x, y):
    return math.sqrt(x * x + y * y)


def halved(n):
    return n // 2


def row_sum(x, scale, out):
    out[0] = 0.0
    for i in range(x.shape[0]):
        out[0] += scale * x[i]


def test_numbers_become_arrays_and_broadcast() -> None:
    function = kw.vectorize(hypotenuse)
    x, y = np.linspace(0, 3, 12).reshape(3, 4), np.arange(4.0)
    np.testing.assert_array_equal(function(x, y), np.sqrt(x * x + y * y))
    np.testing.assert_array_equal(function(x[:, ::-1], y[::-1]), np.sqrt(x * x + y * y)[:, ::-1])
    assert function(3.0, 4.0) == 5.0 and isinstance(function(3.0, 4.0), np.float64)
    assert function(x.astype(np.float32), y.astype(np.float32)).dtype == np.float32
    out = np.zeros((4, 3)).T
    assert function(x, y, out=out) is out and out[2, 3] == math.hypot(3, 3)
    result = torch.zeros(3, 4, dtype=torch.float64)
    assert function(torch.from_numpy(x), torch.from_numpy(y), result) is result and result[2, 3] == math.hypot(3, 3)
    assert function(np.zeros((0, 4)), y).shape == (0, 4)
    assert function.py_func(3.0, 4.0) == 5.0


@pytest.mark.parametrize("parallel", [False, True])
def test_declared_types_convert(parallel: bool) -> None:
    function = kw.vectorize(["float32(float32, float32)", "float64(float64, float64)"], parallel=parallel)(hypotenuse)
    assert function(np.float32(3), np.float32(4)).dtype == np.float32
    assert function(np.int32(3), 4.0) == 5.0
    many = np.full(5000, 3.0, np.float32)
    assert (function(many, 4) == 5).all() and function(many, 4).dtype == np.float32
    with pytest.raises(TypeError, match="was declared for .* not for complex128"):
        function(1j, 2.0)
    whole = kw.vectorize([f"int{bits}(int{bits})" for bits in (32, 64)])(halved)
    assert whole(np.array([-3, 5], np.int16)).tolist() == [-2, 2]


@pytest.mark.parametrize("parallel", [False, True])
def test_the_founding_function_over_a_batch(parallel: bool) -> None:
    signature = "void(float64[:], float64[:], int64[:,:], float64[:])"
    function = kw.guvectorize([signature], "(n),(n),(l,q)->(k)", parallel=parallel)(shuffle_mul)
    a, b, operator, _ = operands(200)
    many = np.stack([a * factor for factor in range(6)]).reshape(2, 3, 15)
    res = np.full((2, 3, 127), 9.0)
    assert function(many, b, operator, res) is res
    for place in np.ndindex(2, 3):
        np.testing.assert_allclose(res[place], shuffled(many[place], b, operator), rtol=1e-12, atol=1e-12)
    strided = np.zeros((127, 2, 3)).transpose(1, 2, 0)
    function(many, b, operator, out=strided)
    np.testing.assert_array_equal(strided, res)
    with pytest.raises(TypeError, match="the size of axis k is known from no input"):
        function(many, b, operator)
    with pytest.raises(TypeError, match="argument 2: axis n has 14 elements here and 15 before"):
        function(many, b[1:], operator, res)
    with pytest.raises(TypeError, match="argument 3: 1 axes, and its core has"):
        function(many, b, operator[0], res)
    with pytest.raises(TypeError, match="output 1 has shape"):
        function(many, b, operator, res[0])
    operator[3, 0] = 77
    with pytest.raises(IndexError, match="index 77 is out of bounds for axis 0 of 'a'"):
        function(many, b, operator, res)


def test_numbers_in_a_layout_and_outputs_that_are_made() -> None:
    function = kw.guvectorize(["void(float64[:], float64, float64[:])"], "(n),()->()")(row_sum)
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(function(x, 2.0), 2 * x.sum(1))
    np.testing.assert_array_equal(function(x.T, np.arange(4.0)), np.arange(4) * x.sum(0))
    assert function(x[0], 1) == 6.0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: kw.guvectorize(["void(f8[:], f8[:])"], "(n)->n"), "is no layout"),
        (lambda: kw.guvectorize(["void(f8[:], f8[:])"], "(n),(n)->(n)")(halved), "the layout has 3 arguments"),
        (lambda: kw.vectorize(["f8(f8)"])(hypotenuse), "the layout has 2 arguments and signature .* has 1"),
    ],
)
def test_what_is_wrong_is_told(make: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        make()


def test_inputs_are_read_before_outputs_that_lie_in_them_are_written() -> None:
    function = kw.vectorize(hypotenuse)
    memory = np.arange(1.0, 7.0)
    expected = np.hypot(memory[:-1], memory[1:])
    function(memory[:-1], memory[1:], out=memory[1:])
    np.testing.assert_allclose(memory[1:], expected, rtol=1e-15)
    field = np.ones(3, [("a", "f8"), ("b", "i4")])["a"]
    assert (function(field, field) == np.sqrt(2.0)).all()
    with pytest.raises(UsageError, match="writes to its input 'x'"):
        kw.guvectorize(["void(f8[:], f8[:])"], "(n)->(n)")(_swapped)(np.ones(3))


def _swapped(x, out):
    x[0] = out[0]


def test_methods_of_ufuncs_are_refused_by_name() -> None:
    with pytest.raises(AttributeError, match="reduce of a ufunc is not supported"):
        _ = kw.vectorize(hypotenuse).reduce
