"""Metal kernels before the judge on a machine without Metal: right ones pass without a time, wrong ones are rejected
for the true reason. The candidates lie in metal/honest and metal/wrong; their first lines say for which problem of
tests/cheats they are, and a wrong one's by which status and check it is rejected."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelwright import problems
from kernelwright.judge import Judge, Settings, differentiated, differentiating
from kernelwright.judge.session import SessionSettings
from kernelwright.records import Candidate, Problem, SourceFile, Status, Verdict, Weight
from kernelwright.toolchain import clang

pytestmark = pytest.mark.skipif(
    clang.missing() is not None or sys.platform == "darwin", reason="no compiler, or a Mac, which runs them itself"
)

HERE = Path(__file__).parent / "metal"
PROBLEMS = HERE.parent.parent / "cheats" / "problems"
SETTINGS = Settings(
    pool_seeds=1, fresh_cases=1, survey=False, session=SessionSettings(call_s=20.0, memory_bytes=1 << 30, threads=1)
)
HONEST = sorted((HERE / "honest").glob("*.py"))
WRONG = sorted((HERE / "wrong").glob("*.py"))


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def header(path: Path) -> dict[str, str]:
    lines = [line[2:] for line in path.read_text().splitlines() if line.startswith("# ")]
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def load(name: str) -> Problem:
    return problems.load(f"{PROBLEMS / name}.py:Model")


@pytest.fixture(scope="module")
def judged() -> Iterator[dict[str, Judge]]:
    """One judge for each problem."""
    found = {name: Judge(load(name), "metal", settings=SETTINGS) for name in ("gemm", "norm", "softmax", "swish")}
    found["softmax backward"] = Judge(differentiated(load("softmax")), "metal", settings=SETTINGS)
    yield found
    for judge in found.values():
        judge.close()


def verdict(judged: dict[str, Judge], path: Path) -> Verdict:
    given = Candidate("test", "metal@metal", (SourceFile("model.py", path.read_text()),), label=path.stem)
    if "backward" in header(path):
        judge = judged[f"{header(path)['problem']} backward"]
        return judge.submit(differentiating(given, judge.problem))
    return judged[header(path)["problem"]].submit(given)


def found(verdict: Verdict, check: str) -> str:
    return next((finding.message for finding in verdict.findings if finding.check == check), "")


@pytest.mark.parametrize("path", HONEST, ids=lambda path: path.stem)
def test_a_right_kernel_passes_without_a_time(judged: dict[str, Judge], path: Path) -> None:
    result = verdict(judged, path)
    assert result.status is Status.PASSED, [(item.check, item.message) for item in result.findings if not item.ok]
    assert not result.native and result.timing is None and not result.comparisons and not result.confirmed
    ran = dict(result.ledger)
    if path.stem == "softmax_backward":
        assert {"forward_rows (hosted Metal)", "backward_rows (hosted Metal)"} <= set(ran)
        assert found(result, "kernel_faults").endswith("in 2 launches")
    elif path.stem == "library":
        assert header(path)["ledger"] in ran and not any("hosted Metal" in name for name in ran)
        assert not found(result, "kernel_faults") and not found(result, "estimate")
    else:
        assert f"{path.stem} (hosted Metal)" in ran, (ran, result.log)
        told = [(item.check, item.message) for item in result.findings]
        assert ("kernel_faults", "no race, no wrong index and no missed barrier in one launch") in told, told
        assert found(result, "estimate").startswith("estimate, not measured: its kernels take at least ")


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_a_wrong_kernel_is_rejected_for_the_true_reason(judged: dict[str, Judge], path: Path) -> None:
    result = verdict(judged, path)
    failed = [item for item in result.findings if not item.ok and item.weight is Weight.GATE]
    assert failed, f"{path.stem} was accepted"
    reason = f"{failed[0].status.value} by {failed[0].check}"
    assert result.status is failed[0].status
    assert reason in header(path)["rejected"].split(", "), failed[0].message
    said = header(path).get("says")
    assert not said or said in failed[0].message


def test_a_candidate_for_the_cpu_gets_no_hosted_kernel() -> None:
    """Its time would be that of a host."""
    text = (HERE / "honest" / "norm.py").read_text()
    with Judge(load("norm"), "cpu", settings=SETTINGS) as judge:
        result = judge.submit(Candidate("test", "metal@cpu", (SourceFile("model.py", text),)))
    assert result.status is Status.COMPILE_ERROR
    assert "kernels in metal run on metal, and this candidate is for cpu" in result.reason


def test_a_problem_in_float64_is_none_for_metal(tmp_path: Path) -> None:
    text = (PROBLEMS / "softmax.py").read_text().replace("torch.float32", "torch.float64")
    (tmp_path / "wide.py").write_text(text)
    with Judge(problems.load(f"{tmp_path / 'wide.py'}:Model"), "metal", settings=SETTINGS) as judge:
        given = Candidate("test", "torch@metal", (SourceFile("model.py", f"{text}\nModelNew = Model\n"),))
        result = judge.submit(given)
    assert result.status is Status.UNSUPPORTED and "Metal has no float64" in result.reason
