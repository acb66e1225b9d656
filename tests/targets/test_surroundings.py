"""What is the whole process's: changes are seen, told in a sentence, and put back."""

import gc
import os
import random
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from torch.overrides import TorchFunctionMode

from kernelwright.targets.surroundings import Surroundings, kept


class Watching(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def replace_relu() -> None:
    torch.nn.functional.relu = torch.nn.functional.gelu  # type: ignore[assignment]


def shadow_add() -> None:
    torch.Tensor.add = lambda self, other: self  # type: ignore[method-assign]


def hook_all() -> None:
    torch.nn.modules.module.register_module_forward_hook(lambda *_: None)


def steer() -> None:
    os.environ["OMP_WAIT_POLICY"] = "ACTIVE"


def rewrite_softmax() -> None:
    torch.nn.functional.softmax.__code__ = (lambda input, dim=None, _stacklevel=3, dtype=None: input).__code__


def widen_layer_norm() -> None:
    torch.nn.functional.layer_norm.__defaults__ = (None, None, 0.5)


CHANGES: list[tuple[Callable[[], object], str]] = [
    (lambda: torch.set_num_threads(torch.get_num_threads() + 1), "torch.get_num_threads() was"),
    (
        lambda: torch.set_default_dtype(torch.float64),
        "torch.get_default_dtype() was torch.float32 and is torch.float64",
    ),
    (lambda: torch.set_default_device("meta"), "the default device was cpu and is meta"),
    (lambda: torch.set_grad_enabled(False), "torch.is_grad_enabled() was True and is False"),
    (lambda: torch.set_flush_denormal(True), "small numbers"),
    (lambda: torch.use_deterministic_algorithms(True), "deterministic algorithms"),
    (lambda: torch.set_float32_matmul_precision("medium"), "matmul"),
    (lambda: setattr(torch.backends.mkldnn, "enabled", False), "mkldnn_enabled was True and is False"),
    (lambda: torch.set_autocast_enabled("cpu", True), "autocast"),
    (lambda: torch.manual_seed(12345), "torch's random state"),
    (lambda: random.seed(12345), "Python's random state"),
    (lambda: sys.setswitchinterval(0.5), "sys.getswitchinterval()"),
    (lambda: Watching().__enter__(), "modes that catch every torch function was 0 and is 1"),
    (hook_all, "hooks on all modules was 0 and is 1"),
    (replace_relu, "torch.nn.functional.relu was replaced"),
    (shadow_add, "torch.Tensor.add was replaced"),
    (rewrite_softmax, "torch.nn.functional.softmax was given other code or defaults"),
    (widen_layer_norm, "torch.nn.functional.layer_norm was given other code or defaults"),
    (lambda: setattr(torch, "pi", 3.0), "torch.pi was replaced"),
    (lambda: setattr(torch, "float64", torch.float32), "torch.float64 was replaced"),
    (lambda: setattr(torch.autograd, "grad", print), "torch.autograd.grad was replaced"),
    (lambda: torch.backends.cuda.enable_flash_sdp(False), "torch.backends.cuda.flash_sdp_enabled() was True"),
    (lambda: numpy.random.seed(0), "NumPy's random state"),
    (lambda: numpy.seterr(over="raise"), "numpy.geterr()"),
    (lambda: signal.signal(signal.SIGINT, signal.SIG_IGN), "what Ctrl-C does"),
    (gc.disable, "gc.isenabled() was True and is False"),
    (steer, "variables that steer libraries changed: OMP_WAIT_POLICY"),
]


@pytest.fixture(autouse=True)
def one_by_one() -> Iterator[None]:
    with kept():
        yield


@pytest.mark.parametrize("change, told", CHANGES, ids=[told for _, told in CHANGES])
def test_a_change_is_told_and_put_back(change: Callable[[], object], told: str) -> None:
    before = Surroundings.now()
    change()
    found = before.changes()
    assert any(told in item.what and item.matters for item in found), found
    before.restore()
    assert not before.changes()


def test_what_a_kernel_does_to_its_own_result_is_no_change() -> None:
    before = Surroundings.now()
    layer = torch.nn.Linear(4, 4)
    torch.vmap(lambda row: torch.softmax(layer(row), 0))(torch.ones(3, 4))
    torch.jit.script(torch.nn.Softmax(0))
    assert [item.what for item in before.changes()] == ["torch's random state changed"]  # the layer's weights


def test_filters_of_warnings_and_other_variables_do_not_matter() -> None:
    before = Surroundings.now()
    warnings.simplefilter("ignore")
    os.environ["SOMEBODYS"] = "1"
    assert [item.matters for item in before.changes()] == [False, False]
    before.restore()
    assert "SOMEBODYS" not in os.environ and not before.changes()


def test_torchs_compiler_may_keep_functions_of_torch_from_itself() -> None:
    """It wraps those of the optimizers when it is used first, in a process that has not used it yet."""
    program = (
        "import torch\n"
        "from kernelwright.targets.names import Names\n"
        "before = Names.now()\n"
        "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(3))\n"
        "assert not before.changes(), before.changes()\n"
        "torch.optim.AdamW._init_group = torch.optim.SGD._init_group\n"
        "assert 'torch.optim.adamw.AdamW._init_group was replaced' in before.changes()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
