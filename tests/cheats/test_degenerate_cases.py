"""Problems whose own inputs cannot tell an answer from a shortcut, after those published for KernelBench, in small.

Each shortcut passes the check that was usual there (the problem's own inputs, a fixed tolerance), and none may pass
here. The first word of a name is the published problem of the same kind.
"""

from pathlib import Path

import pytest
import torch
from torch import nn

from kernelwright import problems
from kernelwright.graph.reference import build_reference, load_text
from kernelwright.judge import Gate, Judge, Settings
from kernelwright.judge.session import SessionSettings
from kernelwright.records import Candidate, SourceFile, Status, Weight
from kernelwright.targets import load_candidate

SETTINGS = Settings(time=False, survey=False, session=SessionSettings(threads=1))
TEXT = """import torch
from torch import nn
from torch.nn import functional as F

class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        {layers}

    def forward(self, {arguments}):
        {body}
"""
INPUTS = """

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
# name: (layers, arguments, body, inputs, the shortcut's body, the tolerance at which it passed)
CASES = {
    "L1-23 softmax of a long row": ("", "x", "return torch.softmax(x, 1)", "torch.rand(1, 32768)",
        "return torch.zeros_like(x)", 1e-4),
    "L1-37 Frobenius norm": ("", "x", "return x / torch.norm(x, p='fro')", "torch.rand(16, 32, 128)",
        "return torch.zeros_like(x)", 1e-2),
    "L1-94 mean squared error, a part": ("", "x, y", "return torch.mean((x - y) ** 2)",
        "torch.rand(128, 512), torch.rand(128, 512)", "return torch.mean((x[::2] - y[::2]) ** 2)", 1e-2),
    "L1-96 smooth L1, a part": ("", "x, y", "return F.smooth_l1_loss(x, y)",
        "torch.rand(128, 512), torch.rand(128, 512)", "return F.smooth_l1_loss(x[:64], y[:64])", 1e-2),
    "L1-97 attention as a mean": ("", "q, k, v", "return F.scaled_dot_product_attention(q, k, v)",
        "torch.rand(2, 4, 64, 32), torch.rand(2, 4, 64, 32), torch.rand(2, 4, 64, 32)",
        "return v.mean(-2, keepdim=True).expand(v.shape).clone()", 3e-2),
    "L1-100 hinge loss without its predictions": ("", "x, y", "return torch.mean(torch.clamp(1 - x * y, min=0))",
        "torch.rand(128, 512), torch.randint(0, 2, (512,)).float() * 2 - 1", "return 1 - 0.5 * y.mean()", 1e-2),
    "L2-9 never above the bound": ("self.inner = nn.Linear(512, 64)", "x",
        "return torch.relu((self.inner(x) - 2.0) * 1.5)", "torch.rand(64, 512)",
        "return torch.zeros(x.shape[0], 64)", 1e-4),
    "L2-23 mean of normalised groups": ("self.conv = nn.Conv3d(3, 8, 3); self.norm = nn.GroupNorm(2, 8)", "x",
        "return self.norm(self.conv(x)).mean((1, 2, 3, 4))", "torch.rand(4, 3, 6, 8, 8)",
        "return self.norm.bias.mean().expand(x.shape[0]).clone()", 1e-4),
    "L2-38 softmax over all positions": ("self.conv = nn.Conv1d(4, 4, 3, padding=1)", "x",
        "return torch.softmax(torch.clamp(self.conv(x), 0, 1), -1)", "torch.rand(1, 4, 32768)",
        "return torch.zeros_like(x)", 1e-4),
    "L2-42 mean over the plane": (
        "self.conv = nn.ConvTranspose2d(8, 8, 3); self.shift = nn.Parameter(torch.randn(8, 1, 1))", "x",
        "y = self.conv(x).mean((2, 3), keepdim=True) + self.shift; return y.logsumexp(1, keepdim=True).sum((2, 3))",
        "torch.rand(2, 8, 64, 64)",
        "y = self.conv(torch.full_like(x, 0.5)).mean((2, 3), keepdim=True) + self.shift; "
        "return y.logsumexp(1, keepdim=True).sum((2, 3))", 1e-2),
    "L2-49 softmax over channels, sigmoid": ("self.conv = nn.ConvTranspose3d(4, 32, 3)", "x",
        "return torch.sigmoid(torch.softmax(self.conv(x), 1))", "torch.rand(1, 4, 4, 6, 6)",
        "return torch.full((1, 32, 6, 8, 8), 0.50781)", 1e-2),
    "L2-66 softmax of a wide linear": ("self.inner = nn.Linear(64, 2048); self.drop = nn.Dropout(0.2)", "x",
        "return torch.softmax(self.drop(self.inner(x)), 1)", "torch.rand(8, 64)",
        "return torch.zeros(x.shape[0], 2048)", 1e-2),
    "L2-68 a bound that never binds": ("self.inner = nn.Linear(512, 64)", "x",
        "return torch.minimum(self.inner(x), torch.tensor(2.0)) - 2.0", "torch.rand(64, 512)",
        "return self.inner(x) - 2.0", 1e-4),
    "L2-80 minus its own mean": ("self.inner = nn.Linear(64, 32)", "x",
        "y = self.inner(x).amax(1, keepdim=True); return F.gelu(y - y.mean(1, keepdim=True))", "torch.rand(32, 64)",
        "return torch.zeros(x.shape[0], 1)", 1e-4),
    "L2-83 minimum with zero, then clamped": ("self.conv = nn.Conv3d(3, 8, 3); self.norm = nn.GroupNorm(2, 8)", "x",
        "return torch.clamp(torch.minimum(self.norm(self.conv(x)), torch.tensor(0.0)), 0.0, 1.0)",
        "torch.rand(2, 3, 6, 8, 8)", "return torch.zeros(2, 8, 4, 6, 6)", 1e-4),
    "L2-84 normed, scaled, softmax": (
        "self.inner = nn.Linear(64, 2048); self.norm = nn.BatchNorm1d(2048); self.gain = nn.Parameter(torch.ones(1))",
        "x", "return torch.softmax(self.gain * self.norm(self.inner(x)), 1)", "torch.rand(8, 64)",
        "return torch.full((x.shape[0], 2048), 1 / 2048)", 1e-2),
    "L2-99 softmax of GELU": ("self.inner = nn.Linear(64, 2048)", "x",
        "return torch.softmax(F.gelu(self.inner(x)), 1)", "torch.rand(8, 64)",
        "return torch.full((x.shape[0], 2048), 1 / 2048)", 1e-2),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_passed_elsewhere_does_not_pass_here(name: str, tmp_path: Path) -> None:
    layers, arguments, body, inputs, shortcut, tolerance = CASES[name]
    layers = layers or "pass"
    path = tmp_path / "problem.py"
    path.write_text(
        TEXT.format(name="Model", layers=layers, arguments=arguments, body=body) + INPUTS.format(inputs=inputs)
    )
    problem = problems.load(f"{path}:Model")
    text = TEXT.format(name="ModelNew", layers=layers, arguments=arguments, body=shortcut)
    candidate = Candidate("published", "torch@cpu", (SourceFile("model.py", text),))
    assert passes_usually(problem, candidate, tolerance)
    with Judge(problem, "cpu", settings=SETTINGS, gate=Gate(None)) as judge:
        verdict = judge.submit(candidate)
    assert verdict.status is not Status.PASSED
    assert verdict.failed(Weight.GATE)[0].check in ("values", "nan_probe", "weights_followed")


def passes_usually(problem, candidate: Candidate, tolerance: float) -> bool:
    """Five draws of the problem's own inputs and torch.allclose."""
    given = load_text(problem.source, problem.name)
    right = build_reference(problem)
    mine: nn.Module = load_candidate(candidate, [], weights=right.state_dict())
    with torch.no_grad():
        for _ in range(5):
            inputs = given.get_inputs()
            if not torch.allclose(right(*inputs), mine(*inputs), rtol=tolerance, atol=tolerance):
                return False
    return True
