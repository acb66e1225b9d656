"""The judge from end to end, on the null device and in sandboxed children."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernelwright import problems
from kernelwright.errors import CompileError, ProblemError, UsageError
from kernelwright.judge import JUDGE_VERSION, Gate, Judge, Settings, ledger, noise, reference, scratch
from kernelwright.judge.building import Building
from kernelwright.judge.noise import QUIET, UNKNOWN, Noise
from kernelwright.judge.session import SessionSettings
from kernelwright.records import Build, BuildRequest, Candidate, Case, Problem, SourceFile, Stage, Status, Weight
from kernelwright.targets import groups
from kernelwright.toolchain import clang


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine make small tensors a hundred times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


SETTINGS = Settings(
    rounds=3, confirm_rounds=5, trial_rounds=2, window_us=500.0, session=SessionSettings(call_s=5.0, threads=1)
)
NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(48, 32)
    def forward(self, x):
        return torch.tanh(self.inner(x))

def get_inputs():
    return [torch.randn(16, 48)]

def get_init_inputs():
    return []
"""


def write(folder: Path, text: str, **options: object) -> Problem:
    path = folder / "net.py"
    path.write_text(text)
    return problems.load(f"{path}:Net", **options)  # type: ignore[arg-type]


def eager(problem: Problem, device: str = "cpu", baseline: bool = True) -> Candidate:
    text = f"{problem.source}\n\nModelNew = Model\n"
    return Candidate("eager", f"torch@{device}" if device != "null" else "null@null",
                     (SourceFile("model.py", text),), baseline=baseline)  # fmt: skip


def variant(problem: Problem, old: str, new: str, label: str = "") -> Candidate:
    text = f"{problem.source}\n\nModelNew = Model\n"
    assert old in text
    return Candidate("test", "torch@cpu", (SourceFile("model.py", text.replace(old, new)),), label=label)


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return write(tmp_path_factory.mktemp("net"), NET)


@pytest.fixture(scope="module")
def judge(problem: Problem) -> Iterator[Judge]:
    with Judge(problem, "cpu", settings=SETTINGS, gate=Gate(None)) as made:
        yield made


def test_null_device_passes_without_a_time(problem: Problem) -> None:
    with Judge(problem, "null", settings=SETTINGS, gate=Gate(None)) as made:
        verdict = made.submit(eager(problem, "null"))
        assert verdict.status is Status.PASSED and verdict.stage is Stage.VERIFY
        assert verdict.timing is None and not verdict.native and verdict.judge == JUDGE_VERSION
        wrong = replace(variant(problem, "torch.tanh(", "1.01 * torch.tanh("), target="null@null")
        assert made.submit(wrong).status is Status.WRONG_VALUES
        trials = made.trial([wrong, eager(problem, "null")], Case("nominal", 5))
        assert [trial.status for trial in trials] == [Status.WRONG_VALUES, Status.PASSED]


def test_a_candidate_is_timed_beside_what_is_held_and_confirmed(judge: Judge, problem: Problem) -> None:
    baseline = eager(problem)
    first = judge.submit(baseline)
    assert first.status is Status.PASSED and first.timing is not None and not first.comparisons
    judge.hold(baseline)
    judge.hold(baseline)
    rival = replace(variant(problem, "torch.tanh(self.inner(x))", "self.inner(x).tanh_()"), algorithmic=True)
    verdict = judge.submit(rival)
    assert "algorithmic" in verdict.labels and "algorithmic" not in first.labels
    assert verdict.status is Status.PASSED and verdict.stage is Stage.TIME, verdict.reason
    assert verdict.timing is not None and len(verdict.timing.samples_us) >= SETTINGS.rounds
    assert [item.baseline for item in verdict.comparisons] == ["eager"]
    assert verdict.comparisons[0].low <= verdict.comparisons[0].speedup <= verdict.comparisons[0].high
    assert "fixed shape" in verdict.labels and "degenerate problem" not in verdict.labels
    sure = judge.confirm(rival)
    assert sure.stage is Stage.CONFIRM and sure.confirmed, sure.reason
    assert sure.timing is not None and len(sure.timing.samples_us) >= SETTINGS.confirm_rounds
    assert not verdict.ledger and 0.99 < sum(share for _, share in sure.ledger) <= 1.0001
    assert any("addmm" in name for name, _ in sure.ledger[:3]), sure.ledger


@pytest.mark.parametrize(("slow_s", "alike"), [(0.0, True), (1e9, False)])
def test_where_answers_take_long_all_candidates_meet_the_same_hidden_cases(
    slow_s: float, alike: bool, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "_SLOW_S", slow_s)
    settings = replace(SETTINGS, time=False)
    with Judge(problem, "cpu", settings=settings, gate=Gate(None)) as made:
        met = [made.submit(eager(problem)).cases for _ in range(2)]
    fresh = settings.fresh_cases
    assert (met[0][:-fresh] == met[1][:-fresh]) is alike
    assert not set(met[0][-fresh:]) & set(met[1][-fresh:])


def test_an_earlier_verdicts_cases_are_asked_again(judge: Judge, problem: Problem) -> None:
    first = judge.submit(eager(problem))
    seeds = {case.seed for case in first.cases}
    assert len(first.cases) > 15 and first.cases[0].family == "nominal" and len(seeds) >= 4
    assert {"scaled", "permuted"} <= {case.weights for case in first.cases}
    wrong = variant(problem, "torch.tanh(self.inner(x))", "torch.tanh(self.inner(x)) * (1 if x.max() < 500 else 2)")
    failed = judge.submit(wrong)
    assert failed.status is Status.WRONG_VALUES and failed.cases[-1].family in failed.reason
    with Judge(problem, "cpu", settings=SETTINGS, gate=Gate(None)) as other:
        again = other.again(eager(problem), first.cases)
        assert again.status is Status.PASSED and again.cases == first.cases and again.timing is None
        assert other.again(wrong, failed.cases).reason == failed.reason


def test_the_floor_is_plausible_and_stands_for_a_minute(judge: Judge) -> None:
    floor = judge.noise_floor
    assert 0.01 <= floor <= QUIET and judge.unrest >= 0.01
    assert judge.noise_floor == floor


def test_a_disturbed_floor_is_neither_used_nor_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "home", lambda: tmp_path)
    assert Noise.remembered("here") == UNKNOWN
    assert not Noise(14.2, False).quiet and not Noise(0.02, True).quiet and not Noise().quiet
    (tmp_path / "noise.json").write_text('{"here": 1.09, "there": 0.03, "odd": "x"}')
    assert Noise.remembered("here") == Noise.remembered("odd") == UNKNOWN and Noise.remembered("there") == 0.03
    Noise(0.05, False).remember("here")
    assert Noise.remembered("here") == 0.05 and Noise.remembered("there") == 0.03
    (tmp_path / "noise.json").write_text("garbage")
    assert Noise.remembered("here") == UNKNOWN


def test_stages_tell_how_far_it_came(judge: Judge, problem: Problem) -> None:
    assert judge.submit(variant(problem, "ModelNew = Model", "Other = Model")).stage is Stage.BUILD
    screened = judge.submit(variant(problem, "torch.tanh(", "torch.sin("))
    assert (screened.status, screened.stage) == (Status.WRONG_VALUES, Stage.SCREEN)
    clipped = judge.submit(variant(problem, "torch.tanh(self.inner(x))", "torch.tanh(self.inner(x.clamp(-9, 9)))"))
    assert (clipped.status, clipped.stage) == (Status.WRONG_VALUES, Stage.VERIFY)
    assert not any(str(seed) in finding.message for seed in judge._pool.seeds for finding in clipped.findings)


def test_a_trial_rejects_and_times(judge: Judge, problem: Problem) -> None:
    slow = variant(problem, "torch.tanh(self.inner(x))", "[torch.tanh(self.inner(x)) for _ in range(40)][0]", "slow")
    broken = variant(problem, "torch.tanh(self.inner(x))", "1 / 0", "broken")
    quick, worse, none = judge.trial([eager(problem), slow, broken], Case("nominal", 11))
    assert none.status is Status.RUNTIME_ERROR and "ZeroDivisionError" in none.message and none.median_us is None
    assert quick.median_us is not None and worse.median_us is not None


def test_another_devices_candidate_is_unsupported(judge: Judge, problem: Problem) -> None:
    verdict = judge.submit(replace(eager(problem), target="cuda@cuda"))
    assert verdict.status is Status.UNSUPPORTED and "cuda@cuda" in verdict.reason


def test_what_cannot_fit_is_refused_before_any_work(problem: Problem) -> None:
    spec = replace(problem.signature.tensors[0], shape=(1 << 24, 1 << 20))
    huge = replace(problem, signature=replace(problem.signature, tensors=(spec,)))
    with Judge(huge, "cpu", settings=SETTINGS, gate=Gate(None)) as made:
        verdict = made.submit(eager(problem))
        assert verdict.status is Status.UNSUPPORTED and verdict.stage is Stage.BUILD and "GB" in verdict.reason


def test_a_reference_that_draws_random_numbers_has_no_right_answer(problem: Problem) -> None:
    dice = replace(problem, numerics=replace(problem.numerics, stochastic=True))
    with pytest.raises(ProblemError, match="random"):
        Judge(dice, "cpu")


REFERENCES = {
    "integers in, embedding": (
        "self.inner = nn.Embedding(50, 8)", "return self.inner(x).mean(1)", "torch.randint(0, 50, (6, 9))", {}
    ),
    "two results, nested": (
        "self.inner = nn.Linear(24, 8)", "return {'a': self.inner(x), 'b': (x > 0, x.argmax(-1))}",
        "torch.randn(6, 24)", {},
    ),
    "batch norm in training": (
        "self.inner = nn.BatchNorm1d(24)", "return self.inner(x)", "torch.randn(16, 24)", {"training": True}
    ),
    "autocast": ("self.inner = nn.Linear(24, 8)", "return torch.relu(self.inner(x))", "torch.randn(6, 24)",
                 {"autocast": "bfloat16"}),
    "logarithm of probabilities": ("pass", "return torch.log(x).sum(-1)", "torch.rand(6, 24)", {}),
    "hands its input on": ("pass", "return x, x.sum()", "torch.randn(6, 24)", {}),
    "variance": ("pass", "return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)", "torch.randn(6, 24)", {}),
    "cumulative product": ("pass", "return torch.cumprod(x, -1)", "torch.rand(6, 24)", {}),
    "an image, transposed": (
        "self.inner = nn.ConvTranspose2d(3, 4, 3, stride=2)", "return self.inner(x).permute(0, 2, 3, 1)",
        "torch.randn(2, 3, 7, 5)", {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCES)
def test_the_reference_itself_always_passes(name: str, tmp_path: Path) -> None:
    init, forward, inputs, options = REFERENCES[name]
    text = NET.replace("self.inner = nn.Linear(48, 32)", init).replace("return torch.tanh(self.inner(x))", forward)
    made = write(tmp_path, text.replace("torch.randn(16, 48)", inputs), **options)
    with Judge(made, "cpu", settings=replace(SETTINGS, time=False), gate=Gate(None)) as judge:
        for _ in range(2):
            verdict = judge.submit(eager(made, baseline=False))
            assert verdict.status is Status.PASSED, verdict.reason
            assert not verdict.failed(Weight.BAR)


def test_weights_given_are_the_weights_judged(problem: Problem) -> None:
    given = {"inner.weight": torch.full((32, 48), 0.5), "inner.bias": torch.arange(32.0)}
    with Judge(problem, "null", weights=given, settings=SETTINGS, gate=Gate(None)) as made:
        assert made.submit(eager(problem, "null")).status is Status.PASSED
        assert torch.equal(made._reference.weights()["inner.bias"], given["inner.bias"])


FOLDED = """
class ModelNew(Model):
    def prepare(self):
        held = float(self.inner.weight.sum())
        self.first = getattr(self, "first", held)
        if held != self.first:
            raise RuntimeError("the weights are folded")
"""


def test_a_baseline_that_refuses_other_weights_stays_one_and_cannot_win(judge: Judge, problem: Problem) -> None:
    folded = SourceFile("model.py", problem.source + FOLDED)
    verdict = judge.submit(Candidate("stock", "torch@cpu", (folded,), baseline=True))
    assert verdict.status is Status.PASSED and verdict.timing is not None, verdict.reason
    assert [finding.check for finding in verdict.failed(Weight.BAR)] == ["weights_followed"]
    assert "the weights are folded" in verdict.reason and not verdict.confirmed
    assert judge.submit(Candidate("test", "torch@cpu", (folded,))).status is Status.RUNTIME_ERROR


def test_a_baseline_that_cannot_run_says_that_it_was_not_measured(judge: Judge, problem: Problem) -> None:
    text = problem.source + '\nfrom kernelwright.errors import MissingError\nraise MissingError("there is no g++")\n'
    verdict = judge.submit(Candidate("stock", "torch@cpu", (SourceFile("model.py", text),), baseline=True))
    assert verdict.status is Status.UNSUPPORTED and verdict.reason.startswith("not measured: ")
    assert "no g++" in verdict.reason


def test_closing_ends_what_is_under_way(problem: Problem) -> None:
    endless = variant(problem, "return torch.tanh(self.inner(x))", "import time; time.sleep(60)")
    made = Judge(problem, "cpu", settings=replace(SETTINGS, session=SessionSettings(call_s=60)), gate=Gate.private())
    caught: list[BaseException] = []

    def submit() -> None:
        try:
            made.submit(endless)
        except UsageError as error:
            caught.append(error)

    thread = threading.Thread(target=submit)
    thread.start()
    time.sleep(3)
    made.close()
    thread.join(10)
    assert not thread.is_alive() and len(caught) == 1 and "closed" in str(caught[0])
    with pytest.raises(UsageError, match="closed"):
        made.submit(endless)


class Compiler:
    """A broker whose compilation takes a minute in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.process, self.began = folder, None, threading.Event()

    def build(self, request: BuildRequest) -> Build:
        process = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
        groups.started(process.pid)
        self.began.set()
        process.wait(60)
        raise CompileError(f"ended with {process.returncode}")


def test_a_long_compilation_steps_aside_and_ends_with_the_judge(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    compiler = Compiler(tmp_path)
    building = Building(compiler, gate)
    said: list[str] = []

    def hear() -> None:
        with gate.busy(), pytest.raises(CompileError) as caught:
            building.build(BuildRequest("inductor", ""))
        said.append(str(caught.value))

    thread = threading.Thread(target=hear)
    thread.start()
    assert compiler.began.wait(10)
    began = time.monotonic()
    with gate.quiet():
        assert time.monotonic() - began < 5
    building.end()
    thread.join(10)
    assert said == ["ended with -9"]
    with pytest.raises(CompileError, match="closed"):
        building.build(BuildRequest("inductor", ""))


def test_scratch_folders_of_dead_judges_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for owner in (dead.pid, os.getppid()):
        (tmp_path / f"kernelwright-scratch-{owner}-x").mkdir()
    made = Path(scratch.make())
    assert {path.name for path in tmp_path.iterdir()} == {made.name, f"kernelwright-scratch-{os.getppid()}-x"}


@pytest.mark.skipif(bool(clang.missing()), reason=clang.missing() or "")
def test_own_kernels_stand_in_the_ledger_by_name(judge: Judge, problem: Problem) -> None:
    loop = "for (int64 i = 0; i < n; ++i) out[i] = math::tanh(x[i]);"
    kernel = f"kernel void shrink(float* out, const float* x, int64 n) {{ {loop} }}"
    text = (
        "import torch, kernelwright\nfrom reference import Model\nclass ModelNew(Model):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.lib = kernelwright.compile(kernelwright.source('kernels.cpp'))\n"
        "    def forward(self, x):\n        y = self.inner(x)\n        out = torch.empty_like(y)\n"
        "        self.lib.shrink(out, y, y.numel())\n        return out\n"
    )
    sources = (("model.py", text), ("reference.py", problem.source), ("kernels.cpp", kernel))
    verdict = judge.confirm(Candidate("test", "cpp@cpu", tuple(SourceFile(*item) for item in sources)))
    assert verdict.confirmed, verdict.reason
    assert "shrink" in dict(verdict.ledger)
    assert any(finding.check == "ledger" and finding.ok for finding in verdict.findings)


def test_a_ledger_is_only_a_declaration() -> None:
    assert ledger.shares([["a", 3.0], ["b", 1], ["c", float("nan")]]) == (("a", 0.75), ("b", 0.25))
    assert ledger.shares("garbage") == ledger.shares(None) == ledger.shares([1]) == ledger.shares([]) == ()
    assert len(ledger.shares([["x" * 999, 1.0]] * 99)) == ledger.ENTRIES
