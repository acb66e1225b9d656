import json
import zipfile
from pathlib import Path

import pytest

from kernelwright.app.judge import read_candidate
from kernelwright.errors import UsageError
from kernelwright.records import Problem, Signature
from kernelwright.writers.replay import candidate_of

PROBLEM = Problem("net", "class Model: ...", Signature((), '{"dict": {"args": [], "kwargs": {"dict": {}}}}'))


def test_a_candidate_is_the_file_and_what_it_names_beside_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import kernelwright, shapes\nfrom reference import Model\n"
        'class ModelNew(Model):\n    lib = kernelwright.compile(kernelwright.source("k.cpp"), language="cpp")\n'
    )
    (tmp_path / "shapes.py").write_text("import deeper\n")
    (tmp_path / "deeper.py").write_text("n = 3\n")
    (tmp_path / "k.cpp").write_text("kernel void k() {}\n")
    (tmp_path / "unrelated.py").write_text("raise SystemExit\n")
    candidate = read_candidate(tmp_path / "mine.py", PROBLEM, "cpu")
    files = {file.path: file.text for file in candidate.sources}
    assert next(iter(files)) == "model.py" and candidate.target == "cpp@cpu" and candidate.label == "mine"
    assert set(files) == {"model.py", "shapes.py", "deeper.py", "k.cpp", "reference.py"}
    assert files["reference.py"] == PROBLEM.source


def test_plain_torch_is_a_candidate_too(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("class ModelNew:\n    pass\n")
    candidate = read_candidate(tmp_path / "model.py", PROBLEM, "cpu")
    assert candidate.target == "torch@cpu" and [file.path for file in candidate.sources] == ["model.py"]


def test_a_candidate_written_for_a_mac_is_metal(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text('lib = torch.mps.compile_shader("...")\nclass ModelNew:\n    pass\n')
    assert read_candidate(tmp_path / "model.py", PROBLEM, "metal").target == "metal@metal"
    assert candidate_of(tmp_path / "model.py", "metal").target == "metal@metal"


def test_what_is_no_candidate_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match="defines no class ModelNew"):
        read_candidate(tmp_path / "a.py", PROBLEM, "cpu")
    with pytest.raises(UsageError, match="cannot read the candidate"):
        read_candidate(tmp_path / "b.py", PROBLEM, "cpu")
    (tmp_path / "c.py").write_text("class ModelNew:\n  def\n")
    with pytest.raises(UsageError, match=r"c\.py, line 2: invalid syntax"):
        read_candidate(tmp_path / "c.py", PROBLEM, "cpu")


def test_a_survey_needs_no_candidate(call, net: Path) -> None:
    code, out, err = call("judge", f"{net}:Net", "--survey", "--target", "cpu", "--json", "-")
    assert code == 0, err
    told = json.loads(out)
    assert not told["degenerate"] and told["sentence"]
    assert {item["name"] for item in told["impostors"]} >= {"zeros", "a constant"}
    code, out, _ = call("judge", f"{net}:Net", "--survey", "--target", "cpu")
    assert code == 0 and "is rejected on" in out and "zeros" in out


def test_backward_judges_gradients_too(call, net: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("from reference import Model\n\n\nclass ModelNew(Model):\n    pass\n")
    line = ["judge", f"{net}:Net", str(mine), "--target", "cpu", "--backward", "--json", "-"]
    code, out, err = call(*line)
    told = json.loads(out)
    assert code == 0 and told["status"] == "PASSED" and "forward and backward" in told["labels"], err
    mine.write_text(
        "import torch\nfrom reference import Model\n\n\nclass ModelNew(Model):\n    def forward(self, x):\n"
        "        with torch.no_grad():\n            return super().forward(x)\n"
    )
    code, out, _ = call(*line)
    assert code == 1 and json.loads(out)["status"] == "RUNTIME_ERROR" and "detached" in out


def test_without_a_candidate_or_a_survey_there_is_nothing_to_do(call, net: Path) -> None:
    code, _, err = call("judge", f"{net}:Net", "--target", "cpu")
    assert code == 2 and "--survey" in err


def test_a_bundle_is_judged_again(call, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, bundle = tmp_path / "mine.py", tmp_path / "out.zip"
    mine.write_text(net.read_text().replace("class Net(", "class ModelNew("))
    code, _, err = call(
        "judge", f"{net}:Net", str(mine), "--target", "null", "--baselines", "", "--bundle", str(bundle)
    )
    assert code == 0, err
    with zipfile.ZipFile(bundle) as held:
        assert "shapes are fixed" in held.read("not_checked.txt").decode()
        assert held.read("artifact/sources/model.py").decode() == mine.read_text()
    code, out, err = call("judge", "--replay", str(bundle), "--target", "null", "--baselines", "")
    assert code == 0 and "the bundle says PASSED" in out, err
    verdict = json.loads(zipfile.ZipFile(bundle).read("artifact/artifact.json"))["verdict"]
    families = {case["family"] for case in verdict["cases"]}
    assert {"nominal", "signed", "sorted"} <= families and all(case["seed"] for case in verdict["cases"])
    assert f"on the bundle's own {len(verdict['cases'])} cases it is PASSED" in out
    code, out, err = call("judge", "--replay", str(bundle), "--target", "null", "--baselines", "", "--json", "-")
    assert json.loads(out)["replayed"] == {"cases": len(verdict["cases"]), "status": "PASSED", "reason": ""}
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "elsewhere"))
    code, _, err = call("judge", "--replay", str(bundle), "--target", "null", "--baselines", "")
    assert code == 2 and "--trust" in err
    code, _, _ = call("judge", "--replay", str(bundle), "--target", "null", "--baselines", "", "--trust")
    assert code == 0


@pytest.mark.parametrize("damage", ["packed", "signature", "cut"])
def test_a_damaged_bundle_is_told(call, net: Path, tmp_path: Path, damage: str) -> None:
    bundle = tmp_path / "out.zip"
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as held:
        held.writestr("artifact/artifact.json", json.dumps({"format": 1, "problem": []}))
        held.writestr("artifact/reference.py", net.read_text())
        held.writestr("artifact/signature", b"\xff\xfe" if damage == "signature" else b"0")
    if damage == "packed":
        data = bytearray(bundle.read_bytes())
        data[60:80] = bytes(20)
        bundle.write_bytes(data)
    code, _, err = call("judge", "--replay", str(bundle), *(["--trust"] if damage == "cut" else []))
    assert code == 2 and "out.zip" in err and "Traceback" not in err
