"""Calling a kernel: what is accepted on the fast way, and what is refused, in which words."""

import copy
import pickle
import subprocess
import sys
import threading
import time
import timeit
from typing import Any

import numpy as np
import pytest
import torch

import kernelwright
from kernelwright.errors import LaunchError
from kernelwright.targets.entry import table
from kernelwright.targets.entry.call import SlowCall

TEXT = """
kernel void copy(float* out, const float* x, int64 n) { for (int64 i = 0; i < n; i++) out[i] = x[i]; }
kernel void all(float* f, double* d, int64* l, int32* i, uint8* u, bool* b, half* h, bfloat16* q) {
    f[0] = 1; d[0] = 2; l[0] = 3; i[0] = 4; u[0] = 1; b[0] = true; h[0] = 7.0f; q[0] = 8.0f;
}
kernel void scalars(double* out, int64 l, int32 i, float f, double d, bool b) {
    out[0] = l; out[1] = i; out[2] = f; out[3] = d; out[4] = b;
}
kernel void nothing() {}
kernel void wait(int64* flag, int64 n) {
    for (int64 i = 0; i < n && !__atomic_load_n(flag, 2); i++) {}
    flag[1] = flag[0];
}
kernel void split(int32* seen, int64 n) {
    parallel_for(n, 1, [&](int64 b, int64 e) { for (int64 i = b; i < e; i++) seen[i] = int32(b); });
}
"""


@pytest.fixture(scope="module")
def library() -> Any:
    return kernelwright.compile(TEXT)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels whose calls went the slow way."""
    seen: list[str] = []
    call = SlowCall.__call__

    def spy(self: SlowCall, *arguments: Any, **keywords: Any) -> None:
        seen.append(self.signature.name)
        call(self, *arguments, **keywords)

    monkeypatch.setattr(SlowCall, "__call__", spy)
    return seen


def test_both_kinds_of_arrays_are_fast_here() -> None:
    assert table.fast() == ("numpy", "torch")


def test_every_dtype_goes_the_fast_way(library: Any, slow: list[str]) -> None:
    names = ("float32", "float64", "int64", "int32", "uint8", "bool", "float16", "bfloat16")
    tensors = [torch.zeros(2, dtype=getattr(torch, name)) for name in names]
    library.all(*tensors)
    assert [float(tensor[0]) for tensor in tensors] == [1, 2, 3, 4, 1, 1, 7, 8]
    arrays = [np.zeros(2, name) for name in names[:-1]]
    library.all(*arrays, tensors[-1])
    assert [float(array[0]) for array in arrays] == [1, 2, 3, 4, 1, 1, 7]
    assert not slow


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(4),
        lambda: torch.nn.Parameter(torch.zeros(4), requires_grad=False),
        lambda: torch.zeros(0),
        lambda: torch.zeros(2, 2).t().t(),
        lambda: torch.zeros(10)[3:7],
        lambda: torch.zeros(4).detach(),
        lambda: np.zeros(4, np.float32),
        lambda: np.zeros((2, 2), np.float32),
        lambda: np.zeros(0, np.float32),
    ],
)
def test_what_fits_goes_the_fast_way(library: Any, slow: list[str], make: Any) -> None:
    x = make()
    library.copy(make(), x, len(x))
    with torch.inference_mode():
        y = make()
        library.copy(y, x, len(x))
    assert not slow


def test_a_parameter_is_fast_without_grad_and_refused_with(library: Any, slow: list[str]) -> None:
    parameter = torch.nn.Parameter(torch.ones(4))
    out = torch.zeros(4)
    with torch.no_grad():
        library.copy(out, parameter, 4)
    assert out.tolist() == [1] * 4 and not slow
    with pytest.raises(LaunchError, match=r"copy: argument 2, 'x': .* requires grad"):
        library.copy(out, parameter, 4)


class _Subclass(torch.Tensor):
    pass


def _read_only() -> Any:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    return array


def _freed() -> torch.Tensor:
    tensor = torch.zeros(4)
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch.zeros(4, dtype=torch.float64), "float64 tensor"),
        (lambda: torch.zeros(8)[::2], "contiguous"),
        (lambda: torch._neg_view(torch.zeros(4)), "resolve_neg"),
        (lambda: torch.zeros(4, device="meta"), "on meta"),
        (lambda: torch.zeros(4).to_sparse(), "layout"),
        (lambda: torch.zeros(4).as_subclass(_Subclass), "_Subclass"),
        (_freed, "storage was freed"),
        (lambda: np.zeros(4), "float64 array"),
        (lambda: np.zeros(8, np.float32)[::2], "strides"),
        (lambda: np.zeros(4, ">f4"), "array"),
        (_read_only, "read-only"),
        (lambda: [0.0] * 4, "got a list"),
        (lambda: None, "got None"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(library: Any, make: Any, words: str) -> None:
    with pytest.raises(LaunchError, match=r"copy: argument 1, 'out': expected a contiguous float32") as caught:
        library.copy(make(), torch.zeros(4), 4)
    assert words in str(caught.value)


def test_tracing_never_reaches_a_kernel(library: Any) -> None:
    from torch._subclasses import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    plain, out = torch.zeros(4), torch.zeros(4)
    refused = []

    def call(x: torch.Tensor) -> torch.Tensor:
        with pytest.raises(LaunchError) as caught:
            library.copy(out, x, 4)
        refused.append(str(caught.value))
        return x * 1 if torch._C._functorch.is_functorch_wrapped_tensor(x) else x

    with FakeTensorMode() as mode:
        call(mode.from_tensor(plain))
        call(plain)
    with TorchDispatchMode():
        call(plain)
    torch.func.vmap(call)(torch.zeros(2, 4))
    torch.func.grad(lambda x: call(x).sum())(torch.zeros(4))
    torch.func.functionalize(call)(torch.zeros(4))
    torch.func.jvp(call, (plain,), (plain,))
    assert len(refused) == 7
    library.copy(out, plain, 4)


def test_scalars(library: Any, slow: list[str]) -> None:
    out = np.zeros(5)
    library.scalars(out, -(2**63), -(2**31), 0.5, 2, True)
    assert out.tolist() == [-(2.0**63), -(2.0**31), 0.5, 2, 1]
    assert not slow
    library.scalars(out, np.int64(3), np.int32(4), np.float32(0.25), np.float64(1.5), np.bool_(False))
    assert out.tolist() == [3, 4, 0.25, 1.5, 0]
    assert slow == ["scalars"]


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (1, 2**63, "does not fit"),
        (2, 2**31, "does not fit"),
        (1, 1.5, "1.5 (float)"),
        (3, "1", "'1'"),
        (3, None, "None"),
        (3, torch.ones(()), "as .item() gives"),
        (4, 10**400, "does not fit"),
        (5, 1, "a bool"),
    ],
)
def test_scalars_that_do_not_fit(library: Any, place: int, value: Any, words: str) -> None:
    arguments = [np.zeros(5), 1, 2, 3.0, 4.0, True]
    arguments[place] = value
    with pytest.raises(LaunchError, match=rf"scalars: argument {place + 1}, ") as caught:
        library.scalars(*arguments)
    assert words in str(caught.value)


def test_the_number_of_arguments_is_told(library: Any) -> None:
    with pytest.raises(LaunchError, match=r"copy\(out, x, n\) takes 3 arguments, got 1"):
        library.copy(torch.zeros(1))
    with pytest.raises(TypeError, match="unexpected keyword"):
        library.nothing(rows=3)
    library.nothing()
    library.nothing(threads=(4, 1), group_size=(2, 1))
    with pytest.raises(AttributeError, match="no kernel is called 'copi'; this library has copy, all"):
        _ = library.copi


def test_a_kernel_outlives_its_library_and_travels(library: Any) -> None:
    import gc

    kernel = kernelwright.compile(TEXT + "// another").copy
    gc.collect()
    out = torch.zeros(2)
    kernel(out, torch.ones(2), 2)
    assert out.tolist() == [1, 1]
    assert copy.deepcopy(library) is library
    assert pickle.loads(pickle.dumps(library)) is library


def test_the_interpreter_runs_on_while_a_kernel_does(library: Any) -> None:
    flag = torch.zeros(2, dtype=torch.int64)
    thread = threading.Thread(target=library.wait, args=(flag, 2**40))
    thread.start()
    time.sleep(0.02)
    flag[0] = 5
    thread.join(timeout=20)
    assert flag.tolist() == [5, 5]


def test_many_threads_call_at_once(library: Any) -> None:
    wrong = []

    def work(k: int) -> None:
        x, out = torch.full((1000,), float(k)), torch.zeros(1000)
        seen = torch.full((5000,), -1, dtype=torch.int32)
        for _ in range(200):
            library.copy(out.zero_(), x, 1000)
            library.split(seen.fill_(-1), 5000)
            if not torch.equal(out, x) or int(seen.min()) < 0:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_follow_torch(library: Any) -> None:
    def teams() -> int:
        seen = torch.full((1000,), -1, dtype=torch.int32)
        library.split(seen, 1000)
        return len(seen.unique())

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert teams() == 1
        torch.set_num_threads(2)
        assert teams() == 2
    finally:
        torch.set_num_threads(before)


def test_after_a_fork_kernels_still_run_in_parallel() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"""
import os, numpy as np, torch, kernelwright
library = kernelwright.compile('''{TEXT}''')
torch.set_num_threads(2)
big = torch.ones(1000, 1000)
def teams():
    seen = np.full(1000, -1, np.int32)
    library.split(seen, 1000)
    (big * 2).sum()
    return len(set(seen.tolist()))
for _ in range(3):  # each time the parent has helpers that the child has not
    assert teams() == 2
    child = os.fork()
    if child == 0:
        os._exit(teams() + teams())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
"""],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_slow_way_alone_is_right(library: Any) -> None:
    """Another torch, another Python: no layout probes, and all calls are checked in Python."""
    done = subprocess.run(
        [sys.executable, "-c", f"""
from kernelwright.targets.entry import table
table._plain_python = lambda: False
import numpy as np, torch, kernelwright
library = kernelwright.compile('''{TEXT}''')
assert table.fast() == ()
for out, x in ((torch.zeros(3), torch.ones(3)), (np.zeros(3, np.float32), np.ones(3, np.float32))):
    library.copy(out, x, 3)
    assert out.tolist() == [1, 1, 1]
out = np.zeros(5)
library.scalars(out, 1, 2, 3.0, 4, True)
assert out.tolist() == [1, 2, 3, 4, 1]
try:
    library.copy(torch.zeros(3), torch.ones(3).double(), 3)
except kernelwright.errors.LaunchError as error:
    assert 'float64' in str(error)
else:
    raise SystemExit('accepted')
"""],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.timing
def test_a_call_costs_less_than_a_microsecond(library: Any) -> None:
    four = kernelwright.compile("kernel void four(float* a, const float* b, const float* c, const float* d) {}").four
    for make in (lambda: torch.zeros(64), lambda: np.zeros(64, np.float32)):
        arguments = [make() for _ in range(4)]
        best = (
            min(
                timeit.repeat(
                    "four(a, b, c, d)",
                    globals={"four": four, **dict(zip("abcd", arguments, strict=True))},
                    number=20_000,
                    repeat=5,
                )
            )
            / 20_000
        )
        assert best < 1e-6
