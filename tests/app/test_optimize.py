"""Whole verbs on the null device: everything but the child process and the clock is real."""

import json
from pathlib import Path

import pytest

from kernelwright.writers.eager import EagerWriter


@pytest.fixture(autouse=True)
def eager_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The null device runs nothing of PyTorch; here the reference stands for itself."""
    monkeypatch.setattr(EagerWriter, "missing", lambda self, target: None)


def test_optimize_leaves_a_report_and_its_json_alone_on_stdout(call, tmp_path: Path, net: Path) -> None:
    net.write_text("print('loud at import')\n" + net.read_text())
    archive, out = str(tmp_path / "a.sqlite"), tmp_path / "out"
    argv = ["optimize", f"{net}:Net", "--target", "null", "--budget", "60s", "--archive", archive, "--out", str(out)]
    code, printed, told = call(*argv, "--json", "-")
    assert code == 0
    summary = json.loads(printed)
    assert summary["best"] is None and summary["artifact"] is None
    assert [row["writer"] for row in summary["candidates"]] == ["eager"]
    assert summary["candidates"][0]["status"] == "PASSED"
    assert "carry no time" in summary["reason"] and "carry no time" in told
    page = Path(summary["report"])
    assert page.parent.parent == out and page.name == "report.html" and "<html" in page.read_text()
    assert json.loads((page.parent / "outcome.json").read_text()) == summary
    assert "loud at import" not in printed

    code, printed, _ = call("report", "last", "--archive", archive, "--out", str(tmp_path / "r.html"))
    assert code == 0 and "eager" in printed and (tmp_path / "r.html").is_file()
    code, printed, _ = call("report", "--list", "--archive", archive, "--json", "-")
    assert code == 0 and [row["problem"] for row in json.loads(printed)] == ["Net"]


def test_judge_says_passed_or_failed_by_its_exit_code(call, tmp_path: Path, net: Path) -> None:
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    text = "from reference import Model\n\n\nclass ModelNew(Model):\n    def forward(self, x):\n        return {}\n"
    right.write_text(text.format("super().forward(x).clone()"))
    wrong.write_text(text.format("super().forward(x) + 1"))
    code, printed, _ = call("judge", f"{net}:Net", str(right), "--target", "null", "--json", "-")
    assert (code, json.loads(printed)["status"]) == (0, "PASSED")
    code, printed, _ = call("judge", f"{net}:Net", str(wrong), "--target", "null", "--json", "-")
    verdict = json.loads(printed)
    assert (code, verdict["status"], verdict["timing"]) == (1, "WRONG_VALUES", None)
    assert any(not finding["ok"] and finding["check"] == "values" for finding in verdict["findings"])
    code, printed, _ = call("judge", f"{net}:Net", str(wrong), "--target", "null")
    assert code == 1 and "FAILED" in printed and "WRONG_VALUES at stage" in printed


def test_what_a_finding_quotes_is_shown_as_it_is(call, tmp_path: Path, net: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("class ModelNew:\n    def __init__(self):\n        raise ValueError('out[i] [/f32]')\n")
    code, printed, _ = call("judge", f"{net}:Net", str(mine), "--target", "null")
    assert code == 1 and "ValueError: out[i] [/f32]" in printed.partition(" at stage ")[0]


def test_a_sweep_goes_on_where_it_was_stopped(call, tmp_path: Path, net: Path) -> None:
    level = tmp_path / "bench" / "KernelBench" / "level1"
    level.mkdir(parents=True)
    text = net.read_text().replace("Net", "Model")
    (level / "1_First.py").write_text(text)
    (level / "2_Second.py").write_text(text.replace("relu", "tanh"))
    (level / "3_Broken.py").write_text(text + "raise RuntimeError('boom')\n")
    argv = ["bench", f"kernelbench:{tmp_path / 'bench'}", "--target", "null", "--budget-per-problem", "60s"]
    argv += ["--archive", str(tmp_path / "a.sqlite"), "--json", "-"]
    code, printed, told = call(*argv, "--problems", "1")
    assert code == 0 and "judged" in told and len(json.loads(printed)["rows"]) == 1
    code, printed, told = call(*argv)
    found = json.loads(printed)
    assert [row["problem"].split("/")[-1] for row in found["rows"]] == ["1", "2", "3"]
    assert "boom" in found["rows"][2]["reason"] and found["rows"][2]["result"] == "unsupported"
    assert found["summaries"][0]["level"] == "level 1" and found["summaries"][0]["problems"] == 3
    assert told.count(" judged ") == 1, "only the second problem is searched"


def test_a_sweep_asks_models_too(call, tmp_path: Path, net: Path) -> None:
    level = tmp_path / "bench" / "KernelBench" / "level1"
    level.mkdir(parents=True)
    (level / "1_First.py").write_text(net.read_text().replace("Net", "Model"))
    argv = ["bench", f"kernelbench:{tmp_path / 'bench'}", "--target", "null", "--writers", "eager"]
    argv += ["--archive", str(tmp_path / "a.sqlite"), "--budget-per-problem", "10m"]
    code, told, _ = call(*argv, "--models", "openai:http://127.0.0.1:9/v1#nobody", "--max-tokens", "10")
    assert code == 0 and "is out: another question to openai:nobody" in told and "might pass 10 tokens" in told
    assert call(*argv, "--strategy", "best")[0] == 2


def test_what_is_too_large_for_the_machine_is_unsupported_and_no_bad_usage(call, tmp_path: Path, net: Path) -> None:
    net.write_text(net.read_text().replace("4, 8)", "1 << 40, 8)"))
    mine = tmp_path / "mine.py"
    mine.write_text("class ModelNew: ...\n")
    code, printed, told = call("optimize", f"{net}:Net", "--target", "null", "--json", "-")
    summary = json.loads(printed)
    assert code == 1 and "Net is too large" in summary["reason"] and "UNSUPPORTED: Net is too large" in told
    assert [row["status"] for row in summary["candidates"]] == ["UNSUPPORTED"] and summary["best"] is None
    code, printed, _ = call("judge", f"{net}:Net", str(mine), "--target", "null", "--json", "-")
    verdict = json.loads(printed)
    assert code == 1 and verdict["status"] == "UNSUPPORTED" and "too large" in verdict["findings"][0]["message"]
