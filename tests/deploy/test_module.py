"""A deployed kernel is the model it replaced, and runs only where it was proven."""

import copy
import pickle
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import kernelwright
from kernelwright.deploy import Deployed, drop_in, read_artifact
from kernelwright.errors import ArtifactError
from kernelwright.problems import load
from kernelwright.records import Candidate, Entry, Problem, SourceFile, Stage, Status, Timing, Verdict
from kernelwright.targets import environment

REFERENCE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.register_buffer("shift", torch.ones(width))

    def forward(self, x):
        return torch.relu(self.inner(x)) + self.shift


def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return [8]
"""

# Counts its calls, and folds the weights in prepare() so that a missed change of weights shows.
KERNEL = """
import torch

from reference import Model


class ModelNew(Model):
    def __init__(self, *args):
        super().__init__(*args)
        self.calls = []

    def prepare(self):
        self.table = self.inner.weight.T.contiguous()

    def forward(self, x):
        self.calls.append(1)
        return torch.relu(torch.addmm(self.inner.bias, x, self.table)) + self.shift
"""


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    (tmp_path / "net.py").write_text(REFERENCE)
    return load(f"{tmp_path / 'net.py'}:Net")


def entry(problem: Problem, text: str = KERNEL, stage: Stage = Stage.CONFIRM) -> Entry:
    candidate = Candidate(
        "hand", "torch@cpu", (SourceFile("model.py", text), SourceFile("reference.py", problem.source))
    )
    timing = Timing((1.0,), "made up: nothing here reads it")
    verdict = Verdict(
        candidate.digest, problem.digest, "torch@cpu", Status.PASSED, stage, environment("cpu"), timing=timing
    )
    return Entry(candidate, verdict)


class Net(nn.Module):
    """The user's own class, as in REFERENCE."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.register_buffer("shift", torch.ones(width))
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(x)) + self.shift


@pytest.fixture
def deployed(problem: Problem) -> Deployed:
    return drop_in(Net(), problem, entry(problem))


def calls(deployed: Deployed) -> int:
    return len(deployed.__dict__["_kernel"].module.calls)


def runs_kernel(deployed: Deployed, x: torch.Tensor) -> bool:
    before = calls(deployed)
    with torch.no_grad():
        torch.testing.assert_close(deployed(x), deployed.original(x))
    return calls(deployed) > before


X = torch.randn(4, 8)


def test_same_state_and_same_result(deployed: Deployed) -> None:
    original = deployed.original
    assert list(deployed.state_dict()) == list(original.state_dict())
    assert list(map(id, deployed.parameters())) == list(map(id, original.parameters()))
    assert runs_kernel(deployed, X)


@pytest.mark.parametrize(
    "change",
    [
        lambda net: net.inner.weight.mul_(2),
        lambda net: setattr(net.inner, "weight", nn.Parameter(torch.randn(8, 8))),
        lambda net: net.load_state_dict({key: value * 3 for key, value in net.state_dict().items()}),
        lambda net: setattr(net, "shift", torch.zeros(8)),
    ],
    ids=["in place", "replaced", "loaded", "buffer"],
)
@pytest.mark.parametrize("of", ["original", "deployed"])
def test_changed_weights_are_seen(deployed: Deployed, change, of: str) -> None:
    assert runs_kernel(deployed, X)
    with torch.no_grad():
        change(deployed.original if of == "original" else deployed)
    assert runs_kernel(deployed, X)


@pytest.mark.parametrize(
    "x", [torch.randn(5, 8), torch.randn(8, 4).T, torch.randn(4, 9)[:, 1:]], ids=["shape", "strided", "offset"]
)
def test_other_layouts_run_and_other_shapes_fall_back(deployed: Deployed, x: torch.Tensor) -> None:
    assert runs_kernel(deployed, x) == (x.shape == X.shape)


def test_weights_changed_in_inference_mode_are_seen(deployed: Deployed) -> None:
    with torch.inference_mode():
        deployed.load_state_dict({key: value * 3 for key, value in deployed.state_dict().items()})
        assert runs_kernel(deployed, X)
        deployed.load_state_dict({key: value * 3 for key, value in deployed.state_dict().items()}, assign=True)
        assert runs_kernel(deployed, X)
        deployed.inner.weight.mul_(3)  # counts no versions
        assert runs_kernel(deployed, X)


def test_hooks_run_with_the_original(deployed: Deployed) -> None:
    handle = deployed.original.inner.register_forward_hook(lambda module, given, result: result * 0)
    assert not runs_kernel(deployed, X)
    handle.remove()
    assert runs_kernel(deployed, X)


def test_a_parametrized_weight_runs_the_original(deployed: Deployed) -> None:
    nn.utils.parametrizations.weight_norm(deployed.inner)
    assert not runs_kernel(deployed, X)


def test_falls_back_outside_the_contract(deployed: Deployed) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert not runs_kernel(deployed, X)
    deployed.train()
    assert deployed.original.training and not runs_kernel(deployed, X)
    deployed.eval()
    deployed.original.inner.train()
    assert not runs_kernel(deployed, X)
    deployed.eval()
    deployed.original.inner = nn.Sequential(nn.Linear(8, 8)).eval()
    assert not runs_kernel(deployed, X)


def test_gradients_run_the_original_and_are_said_once(deployed: Deployed) -> None:
    with pytest.warns(RuntimeWarning, match="gradients enabled"):
        deployed(X).sum().backward()
    assert deployed.original.inner.weight.grad is not None and calls(deployed) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        deployed(X)
    with torch.inference_mode():
        torch.testing.assert_close(deployed(X), deployed.original(X))
    assert calls(deployed) == 1


def test_it_counts_who_answered_and_why(deployed: Deployed) -> None:
    with torch.no_grad():
        deployed(X)
        deployed(torch.randn(5, 8))
        deployed.train()(X)
        deployed.eval().inner.register_forward_hook(lambda module, given, result: None)
        deployed(X)
    assert deployed.answered.by_kernel == 1
    assert [why.split()[0] for why in deployed.answered.by_original] == ["outside", "the", "a"]
    assert "1 calls by the kernel; 1 by the original: outside the contract" in repr(deployed)
    assert "proven in eval mode" in repr(deployed)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_it_counts_gradients_and_a_disabled_kernel(deployed: Deployed) -> None:
    deployed(X)
    deployed.disable("tried")
    deployed(X)
    assert dict(deployed.answered.by_original) == {"gradients are enabled": 1, "the kernel is disabled": 1}


def test_weights_of_another_dtype_disable_it(deployed: Deployed) -> None:
    deployed.original.double()
    with pytest.raises(ArtifactError, match="proven for torch.float32"), torch.no_grad():
        deployed.__dict__["_kernel"].refresh(deployed._read())
    with pytest.warns(RuntimeWarning, match="hand of .* is disabled"), torch.no_grad(), pytest.raises(RuntimeError):
        deployed(X)  # the original itself refuses float32 inputs now
    with torch.no_grad():
        assert deployed(X.double()).dtype is torch.float64


def test_threads(deployed: Deployed) -> None:
    wrong = []

    def work() -> None:
        with torch.no_grad():
            for _ in range(50):
                if not torch.allclose(deployed(X), deployed.original(X), atol=1e-6):
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and calls(deployed) == deployed.answered.by_kernel == 200


def test_original_pickles_and_the_deployed_copies(deployed: Deployed) -> None:
    assert isinstance(pickle.loads(pickle.dumps(deployed.original)), Net)
    again = copy.deepcopy(deployed)
    assert again.original is not deployed.original and runs_kernel(again, X)


def test_only_confirmed_kernels_are_deployed(problem: Problem) -> None:
    with pytest.raises(ArtifactError, match="only a confirmed kernel"):
        drop_in(Net(), problem, entry(problem, stage=Stage.TIME))


def test_a_model_that_does_not_fit(problem: Problem) -> None:
    with pytest.raises(ArtifactError, match="'inner.weight'"):
        drop_in(nn.Linear(8, 8).eval(), problem, entry(problem))
    with pytest.raises(ArtifactError, match=r"\(9, 9\) .* \(8, 8\)"):
        drop_in(Net(9), problem, entry(problem))


def test_artifact_there_and_back(deployed: Deployed, tmp_path: Path) -> None:
    folder = deployed.save(tmp_path / "fast")
    problem, found = read_artifact(folder)
    assert (problem, found) == (deployed.problem, deployed.entry)
    again = kernelwright.load(folder, Net())
    assert runs_kernel(again, X)
    assert deployed.save(folder) == folder  # replaced as a whole


@pytest.mark.parametrize("change", ["sources/model.py", "artifact.json", "signature", "reference.py"])
def test_a_changed_artifact_is_refused(deployed: Deployed, tmp_path: Path, change: str) -> None:
    folder = deployed.save(tmp_path / "fast")
    file = folder / change
    text = file.read_text()
    file.write_text(("1" if text[0] == "0" else "0") + text[1:] if change == "signature" else text.replace("a", "b"))
    with pytest.raises(ArtifactError, match="not signed on this machine|trust=True"):
        kernelwright.load(folder, Net())
    if change != "signature":
        with pytest.raises(ArtifactError, match="damaged"):
            kernelwright.load(folder, Net(), trust=True)


def test_a_foreign_artifact_needs_trust(deployed: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = deployed.save(tmp_path / "fast")
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(ArtifactError, match="pass trust=True"):
        kernelwright.load(folder, Net())
    assert runs_kernel(kernelwright.load(folder, Net(), trust=True), X)


def test_a_moved_kernel_that_went_wrong_is_disabled(problem: Problem, tmp_path: Path, monkeypatch) -> None:
    from kernelwright.deploy import loading

    wrong = KERNEL.replace("+ self.shift", "+ self.shift * 1.001")
    folder = drop_in(Net(), problem, entry(problem, wrong)).save(tmp_path / "fast")
    assert not kernelwright.load(folder, Net()).disabled  # the same machine: the judge's word stands
    monkeypatch.setattr(loading, "environment", lambda device: replace(environment(device), system="an upgrade"))
    with pytest.warns(RuntimeWarning, match="kernel hand of .* is disabled: here its results"):
        moved = kernelwright.load(folder, Net())
    assert moved.disabled and not moved.answered.by_kernel and not runs_kernel(moved, X)


def test_a_kernel_that_does_not_compile_here_is_disabled(problem: Problem, tmp_path: Path) -> None:
    broken = "import kernelwright\nfrom reference import Model\n\n\nclass ModelNew(Model):\n" + (
        "    def __init__(self, *args):\n        super().__init__(*args)\n"
        '        self.lib = kernelwright.compile("kernel void f(float* x) { nonsense }", language="cpp")\n'
    )
    with pytest.warns(RuntimeWarning, match="is disabled: .*nonsense"):
        deployed = drop_in(Net(), problem, entry(problem, broken))
    with torch.no_grad():
        torch.testing.assert_close(deployed(X), deployed.original(X))
