"""Writers that need more than a name, as the command line names them."""

from pathlib import Path

import pytest

from kernelwright.app.choosing import Swarm, beside, choose, with_best
from kernelwright.archive import Archive
from kernelwright.errors import MissingError, UnknownNameError, UsageError
from kernelwright.records import (
    Beside,
    Candidate,
    Comparison,
    Environment,
    Facts,
    Problem,
    Signature,
    SourceFile,
    Stage,
    Status,
    Timing,
    Verdict,
)
from kernelwright.writers.inductor import InductorWriter
from kernelwright.writers.models import VENDORS
from kernelwright.writers.onnxruntime import OnnxRuntimeWriter
from kernelwright.writers.openvino import OpenVinoWriter

SERVER = "openai:http://127.0.0.1:9/v1#m"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for vendor in VENDORS.values():
        for key in vendor.keys:
            monkeypatch.delenv(key, raising=False)


def chosen(names: list[str] | None, swarm: Swarm, place: Path) -> dict[str, str | None]:
    return {writer.name: writer.missing("cpu") for writer in choose(names, swarm, "cpu", place / "a.sqlite")}


def test_models_are_asked_only_where_they_are_asked_for(tmp_path: Path) -> None:
    assert "set a key" in (chosen(None, Swarm(), tmp_path)["swarm"] or "")
    assert "waits for coding agents" in (chosen(None, Swarm(), tmp_path)["agent"] or "")
    assert chosen(None, Swarm(SERVER), tmp_path)["swarm"] is None
    assert "template" in chosen(None, Swarm(SERVER), tmp_path)
    assert set(chosen(["algebra"], Swarm(SERVER), tmp_path)) == {"eager", "algebra", "swarm"}
    assert "set a key" in (chosen(["swarm"], Swarm(), tmp_path)["swarm"] or "")


def test_an_environment_with_a_key_is_not_yet_a_wish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert chosen(None, Swarm(), tmp_path)["swarm"] is not None
    assert chosen(["swarm"], Swarm(), tmp_path)["swarm"] is None


def test_agents_people_and_folders(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "a.py").write_text("class ModelNew: ...\n")
    names = ["agent", f"human:{tmp_path / 'mine'}", f"replay:{tmp_path / 'given'}"]
    assert chosen(names, Swarm(), tmp_path) == {"eager": None, "agent": None, "human": None, "replay": None}
    assert "human:FOLDER" in (chosen(["human"], Swarm(), tmp_path)["human"] or "")


def test_baselines_are_those_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stock(names: list[str] | None, baselines: list[str] | None) -> tuple[list[str], set[str]]:
        found = choose(names, Swarm(), "cpu", tmp_path / "a.sqlite", baselines)
        return [item.name for item in found if item.baseline], {item.name for item in found if not item.baseline}

    monkeypatch.setattr(OnnxRuntimeWriter, "missing", lambda self, target: None)
    monkeypatch.setattr(InductorWriter, "missing", lambda self, target: None)
    monkeypatch.setattr(OpenVinoWriter, "missing", lambda self, target: "openvino is not installed")
    everybody = stock(None, None)
    assert everybody[0] == ["eager", "inductor"], "the others take part only where they are named"
    assert stock(None, ["inductor", "onnxruntime"]) == (["eager", "inductor", "onnxruntime"], everybody[1])
    assert stock(["template"], ["onnxruntime"]) == (["eager", "onnxruntime"], {"template"})
    assert stock(["template", "inductor"], None) == (["eager", "inductor"], {"template"})
    with pytest.raises(UsageError, match="template is none"):
        stock(None, ["template"])
    with pytest.raises(MissingError, match="openvino is not installed"):
        stock(None, ["openvino"])


@pytest.mark.parametrize(
    ("names", "swarm", "sentence"),
    [
        (["swarm"], Swarm("gpt"), "names no model"),
        (["swarm"], Swarm(SERVER, strategy="best"), "--strategy is one of best-of-swarm"),
        (["replay:2020"], Swarm(), "no run is called '2020'"),
        (["swarm"], Swarm(SERVER, resume="2020"), "no run is called '2020'"),
        (["swrm"], Swarm(SERVER), "did you mean swarm"),
    ],
)
def test_bad_usage(tmp_path: Path, names: list[str], swarm: Swarm, sentence: str) -> None:
    with pytest.raises((UsageError, UnknownNameError), match=sentence):
        chosen(names, swarm, tmp_path)


def test_what_is_given_beside_the_problem(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void f();")
    (tmp_path / "shot.png").write_bytes(b"\x89PNG")
    given = beside([f"cuda={tmp_path / 'k.cu'}"], [tmp_path / "k.cu"], [tmp_path / "shot.png"])
    assert (given.references[0].language, given.references[0].name) == ("cuda", "k.cu")
    assert given.profiles == (("k.cu", "__global__ void f();"),)
    assert (given.pictures[0].media_type, given.pictures[0].base64) == ("image/png", "iVBORw==")
    for references, pictures, sentence in (
        (["k.cu"], [], "write LANGUAGE=FILE"),
        (["cuda=nowhere.cu"], [], "cannot read nowhere.cu"),
        ([], [tmp_path / "k.cu"], "is no image by its name"),
        ([], [tmp_path / "no.png"], "cannot read"),
    ):
        with pytest.raises(UsageError, match=sentence):
            beside(references, [], pictures)


def test_a_run_is_judged_again_without_a_model(call, net: Path, tmp_path: Path, monkeypatch) -> None:
    from kernelwright.writers.eager import EagerWriter

    monkeypatch.setattr(EagerWriter, "missing", lambda self, target: None)
    (tmp_path / "given").mkdir()
    text = "from reference import Model\n\n\nclass ModelNew(Model):\n    def forward(self, x):\n        return {}\n"
    (tmp_path / "given" / "a.py").write_text(text.format("super().forward(x) + 0"))
    (tmp_path / "given" / "b.py").write_text(text.format("super().forward(x) + 1"))
    argv = ["optimize", f"{net}:Net", "--target", "null", "--archive", str(tmp_path / "a.sqlite")]
    argv += ["--out", str(tmp_path / "out"), "--budget", "60s", "--writers"]
    assert call(*argv, f"replay:{tmp_path / 'given'}")[0] == 0
    code, out, _ = call(*argv, "replay:last")
    assert code == 0 and out.count(" reused ") == 2


def test_the_archives_best_for_another_device_is_a_reference() -> None:
    found = Candidate("template", "cpp@cpu", (SourceFile("model.py", "m"), SourceFile("k.cpp", "the kernel")))
    problem = Problem("Net", "class Model: ...", Signature((), "{}"))
    here = Environment(Facts("cpu", "", ""), "", "", "", 1)
    beaten = (Comparison("eager", "d", Timing((20.0,), ""), 2.0, 1.9, 2.1),)
    verdict = Verdict(
        found.digest,
        problem.digest,
        "cpp@cpu",
        Status.PASSED,
        Stage.CONFIRM,
        here,
        (),
        Timing((10.0,), ""),
        None,
        beaten,
    )
    with Archive(None) as store:
        store.add_problem(problem)
        store.add_candidate(found)
        store.add_verdict(verdict)
        (reference,) = with_best(Beside(), problem, "metal", store).references
        assert with_best(Beside(), problem, "cpu", store).references == ()
    assert (reference.language, reference.name) == ("cpp", "template on cpu") and "the kernel" in reference.text
