"""kernelwright.njit: what a decorated function takes, answers and refuses."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from user_loops import axpy, divided, extremes, operands, shuffle_mul, shuffled, transpose_into

import kernelwright as kw
from kernelwright.functions import Function
from kernelwright.functions.function import _Slow

compiled = kw.njit(shuffle_mul)
shared = kw.njit(axpy)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many arguments each call had that went the slow way."""
    seen: list[int] = []
    call = _Slow.__call__

    def spy(self: _Slow, *arguments: Any, **keywords: Any) -> Any:
        seen.append(len(arguments) + len(keywords))
        return call(self, *arguments, **keywords)

    monkeypatch.setattr(_Slow, "__call__", spy)
    return seen


def test_the_founding_function(slow: list[int]) -> None:
    a, b, operator, res = operands(943)
    for _ in range(3):
        res[:] = 7
        assert compiled(a, b, operator, res) is None
        np.testing.assert_allclose(res, shuffled(a, b, operator), rtol=1e-13)
    assert slow == [4]  # the first compiled, the others never saw Python
    expected = np.zeros(127)
    compiled.py_func(a, b, operator, expected)
    np.testing.assert_array_equal(res, expected)
    assert compiled.signatures == ["(float64[::1], float64[::1], int64[:, ::1], float64[::1])"]


def test_it_looks_like_the_function() -> None:
    assert compiled.__name__ == "shuffle_mul" and compiled.__wrapped__ is shuffle_mul
    assert compiled.py_func is shuffle_mul and isinstance(compiled, Function)
    assert "shuffle_mul" in repr(compiled)


def test_what_is_decorated_already_is_decorated_anew() -> None:
    again = kw.njit(compiled)
    assert again is not compiled and again.py_func is shuffle_mul
    assert kw.njit(parallel=True)(compiled).py_func is shuffle_mul and kw.njit()(shuffle_mul).py_func is shuffle_mul


@pytest.mark.parametrize("kind", ("float64", "float32"))
@pytest.mark.parametrize("index", ("int64", "int32", "uint8"))
def test_overloads_by_dtype(kind: str, index: str) -> None:
    a, b, operator, _ = operands(200)
    a, b, operator = a.astype(kind), b.astype(kind), operator.astype(index)
    res = np.zeros(127, kind)
    compiled(a, b, operator, res)
    np.testing.assert_allclose(res, shuffled(a, b, operator), rtol=1e-12 if kind == "float64" else 1e-4, atol=1e-5)


def test_torch_tensors_are_used_where_they_are(slow: list[int]) -> None:
    a, b, operator, res = map(torch.from_numpy, operands(300))
    compiled(a, b, operator, res)
    slow.clear()
    res.zero_()
    compiled(a, b, operator, res)
    assert not slow
    np.testing.assert_allclose(res.numpy(), shuffled(a.numpy(), b.numpy(), operator.numpy()), rtol=1e-13)
    compiled(a, b.numpy(), operator, res.numpy())  # mixed
    assert not slow


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x[3:9, 1:],
        lambda x: x.T,
        lambda x: np.asfortranarray(x),
        lambda x: x[:0],
        lambda x: np.broadcast_to(x[0], (4, 8)),
    ],
)
def test_strides(view: Callable[[np.ndarray], np.ndarray]) -> None:
    function = kw.njit(transpose_into)
    x = view(np.arange(96.0).reshape(12, 8))
    for tensor in (False, True):
        out = np.zeros(x.shape[::-1])
        if tensor and any(stride <= 0 for stride in x.strides):
            continue
        for _ in range(2):
            function(torch.from_numpy(x) if tensor else x, out)
            np.testing.assert_array_equal(out, x.T)
    wide = np.zeros((2 * x.shape[1], 2 * x.shape[0]))
    function(x, wide[1::2, ::-2])
    np.testing.assert_array_equal(wide[1::2, ::-2], x.T)
    assert not wide[::2].any()


def test_defaults_keywords_and_results() -> None:
    function = kw.njit(axpy)
    x, y = np.ones(4), np.zeros(4)
    function(x, y)
    function(x=x, y=y, alpha=1.0)
    function(x, alpha=0.5, y=y)
    assert y.tolist() == [3.5] * 4
    both = kw.njit(extremes)
    for kind in ("float64", "float32", "int16"):
        for _ in range(2):
            answer = both(np.array([3, -1, 7], kind))
            assert answer == (-1, 7, 3) and type(answer[0]) is (int if kind == "int16" else float)


def test_errors_name_array_axis_place_and_value() -> None:
    a, b, operator, res = operands(50)
    operator[20] = (3, 99, 4, 1)
    for _ in range(2):
        with pytest.raises(
            IndexError, match=r"shuffle_mul, user_loops\.py:10:\d+: index 99 is out of bounds for axis 0"
        ) as e:
            compiled(a, b, operator, res)
        assert "of 'b', whose size is 15" in str(e.value) and "stays written" in str(e.value)
    np.testing.assert_allclose(res, shuffled(a, b, operator[:20]), rtol=1e-13)
    operator[20] = (3, -1, 4, 1)  # from the end, as in Python
    compiled(a, b, operator, res)
    expected = np.zeros(127)
    shuffle_mul(a, b, operator, expected)
    np.testing.assert_array_equal(res, expected)
    with pytest.raises(ZeroDivisionError, match="divided, user_loops.py"):
        kw.njit(divided)(np.zeros(3, np.int64), 0)


def test_what_no_program_can_take_is_refused_in_a_sentence() -> None:
    a, b, operator, res = operands(5)
    read_only = res.copy()
    read_only.flags.writeable = False
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((a, b, operator), r"missing a required argument: 'res'"),
        ((a, b, operator, res, 1), "too many positional arguments"),
        (([1.0], b, operator, res), r"shuffle_mul, argument 1, 'a': a list is not supported; pass numpy.array"),
        (("a", b, operator, res), r"'a' \(str\) is neither an array nor a number"),
        ((a * 1j, b, operator, res), "dtype complex128 is not supported"),
        ((a.astype(">f8"), b, operator, res), "other order"),
        ((a.astype(object), b, operator, res), "dtype object is not supported"),
        ((np.ma.array(a), b, operator, res), "a MaskedArray is not supported"),
        ((1j, b, operator, res), "complex numbers are not supported"),
        ((2**64, b, operator, res), "does not fit into int64"),
        ((a, b, operator, read_only), "writes to 'res', but it is read-only"),
        ((torch.from_numpy(a).requires_grad_(), b, operator, res), "requires grad"),
        ((torch.zeros(15, device="meta"), b, operator, res), "a tensor on meta"),
    ]
    for arguments, sentence in cases:
        with pytest.raises(TypeError, match=sentence):
            compiled(*arguments)


def test_signatures_compile_ahead_and_convert_numbers(slow: list[int]) -> None:
    function = kw.njit(["void(f8[:], float64[:], double)", "void(f4[:], f4[:], f4)"])(axpy)
    assert len(function.signatures) == 2
    y = np.zeros(3)
    function(np.ones(3), y, 2)
    assert y.tolist() == [2] * 3
    z = np.zeros(3, np.float32)
    function(np.ones(3, np.float32), z, 2.5)
    function(np.ones(3, np.float32)[::-1], z, 2.5)
    assert z.tolist() == [5] * 3 and len(function.signatures) == 3
    with pytest.raises(TypeError, match=r"declared for \(float64\[::1\].* or .*not for \(int64\[::1\]"):
        function(np.ones(3, np.int64), y, 1.0)
    one = kw.njit("(float64[:], float64[:], float64)")(axpy)
    slow.clear()
    one(np.ones(3), y, 2)
    assert not slow
    with pytest.raises(TypeError, match="takes 3 arguments"):
        kw.njit("(float64[:],)")(axpy)


def test_threads() -> None:
    function, fixed = kw.njit(parallel=True)(shuffle_mul), kw.njit(parallel=True, deterministic=True)(shuffle_mul)
    a, b, operator, res = operands(300_000)
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for each in (function, fixed):
            for _ in range(2):
                res[:] = 1
                each(a, b, operator, res)
                np.testing.assert_allclose(res, shuffled(a, b, operator), rtol=1e-9, atol=1e-9)
        expected = np.zeros(127)
        compiled(a, b, operator, expected)
        np.testing.assert_array_equal(res, expected)  # deterministic: the bits of the plain loop
    torch.set_num_threads(before)
    memory = np.ones(40)
    adds = kw.njit(parallel=True)(axpy)
    adds(memory[:-1], memory[1:], 1.0)  # each element reads what the one before wrote
    np.testing.assert_array_equal(memory, np.arange(1.0, 41.0))
    operator[7, 1] = 15
    with pytest.raises(IndexError, match="index 15 is out of bounds for axis 0 of 'b'"):
        function(a, b, operator, res)


def test_without_bounds_checks_negative_indices_still_count_from_the_end() -> None:
    function = kw.njit(boundscheck=False)(shuffle_mul)
    a, b, operator, res = operands(60)
    operator[7, 1] = -2
    function(a, b, operator, res)
    expected = np.zeros(127)
    shuffle_mul(a, b, operator, expected)
    np.testing.assert_array_equal(res, expected)


def test_pickling_and_copying_are_by_import_path() -> None:
    assert copy.copy(compiled) is compiled and copy.deepcopy(compiled) is compiled
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(shared)  # found at its import path is the plain function
    text = (
        "import pickle, sys, types, kernelwright as kw\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import user_loops as module\n"
        "module.axpy = kw.njit(module.axpy)\n"
        "assert pickle.loads(pickle.dumps(module.axpy)) is module.axpy\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_threads_compile_once_and_run_together() -> None:
    function = kw.njit(axpy)
    results, failures = [np.zeros(1000) for _ in range(8)], []

    def work(y: np.ndarray) -> None:
        try:
            for _ in range(50):
                function(np.ones(1000), y, 1.0)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(y,)) for y in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and all((y == 50).all() for y in results) and len(function.signatures) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_of_a_fork_compiles_and_calls() -> None:
    shared(np.ones(2), np.zeros(2))
    child = os.fork()
    if child == 0:
        y, z = np.zeros(3), np.zeros(3, np.float32)
        shared(np.ones(3), y)
        shared(np.ones(3, np.float32), z)
        os._exit(0 if y.sum() == 6 and z.sum() == 6 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_function_that_is_dropped_is_freed() -> None:
    def local(x):
        x[0] = 1.0

    function = kw.njit(local)
    function(np.zeros(2))
    watch = weakref.ref(function)
    del function
    gc.collect()
    assert watch() is None


def test_importing_it_loads_no_torch() -> None:
    text = "import sys, kernelwright; kernelwright.njit; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text]).returncode == 0
