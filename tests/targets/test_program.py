"""A candidate's text becomes a module."""

import copy
import inspect
import pickle
import sys
import traceback

import pytest
import torch

import kernelwright
from kernelwright.errors import CompileError, UnknownNameError, UsageError
from kernelwright.records import Candidate, SourceFile
from kernelwright.targets import environment, load_candidate, prepare

REFERENCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(width))
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x * self.weight)
"""
MODEL = """
import kernelwright
import reference
import torch
from reference import Model
from .helpers import empty

class ModelNew(Model):
    def __init__(self, width):
        super().__init__(width)
        self.lib = kernelwright.compile(kernelwright.source("scale.cpp"))
        assert reference.Model is Model

    def prepare(self):
        assert not torch.is_grad_enabled()
        self.doubled = self.weight * 2

    def forward(self, x):
        out = empty(x)
        self.lib.scale(out, x, self.doubled, x.numel())
        return out
"""
SCALE = """
kernel void scale(float* out, const float* x, const float* w, int64 n) {
    for (int64 i = 0; i < n; i++) out[i] = x[i] * w[i];
}
"""


def candidate(model: str = MODEL, reference: str = REFERENCE, **more: str) -> Candidate:
    files = {
        "model.py": model,
        "reference.py": reference,
        "scale.cpp": SCALE,
        "helpers.py": "from torch import empty_like as empty",
    }
    return Candidate("test", "cpp@cpu", tuple(SourceFile(path, text) for path, text in (files | more).items()))


def test_a_candidate_runs_with_the_weights_it_is_given() -> None:
    weights = {"weight": torch.tensor([1.0, 2.0, 3.0])}
    module = load_candidate(candidate(), [3], weights=weights)
    with torch.no_grad():
        assert module(torch.ones(3)).tolist() == [2, 4, 6]
        module.load_state_dict({"weight": torch.ones(3)})
        prepare(module)
        assert module(torch.ones(3)).tolist() == [2, 2, 2]
    assert not module.training and load_candidate(candidate(), [3], training=True).training


def test_construction_is_under_seed_0_and_leaves_the_users_seed_alone() -> None:
    torch.manual_seed(7)
    expected = torch.randn(4)
    torch.manual_seed(7)
    first = load_candidate(candidate(), [3])
    torch.testing.assert_close(torch.randn(4), expected, rtol=0, atol=0)
    torch.manual_seed(0)
    torch.testing.assert_close(first.weight.detach(), torch.randn(3), rtol=0, atol=0)


def test_weights_are_strict() -> None:
    with pytest.raises(RuntimeError, match="Unexpected key"):
        load_candidate(candidate(), [3], weights={"weight": torch.ones(3), "bias": torch.ones(3)})


def test_two_candidates_do_not_see_each_other() -> None:
    other = REFERENCE.replace("x * self.weight", "x + self.weight")
    plain = "from reference import Model\n\nclass ModelNew(Model):\n    pass\n"
    first, second = (load_candidate(candidate(plain, text), [2]) for text in (REFERENCE, other))
    assert first(torch.zeros(2)).tolist() == [0, 0] != second(torch.zeros(2)).tolist()
    assert not {"reference", "model", "helpers"} & set(sys.modules)


def test_a_module_can_be_copied_pickled_and_read() -> None:
    module = load_candidate(candidate(), [3])
    x = torch.randn(3)
    with torch.no_grad():
        for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
            torch.testing.assert_close(other(x), module(x), rtol=0, atol=0)
    assert "self.lib.scale(out" in inspect.getsource(type(module))


def test_errors_point_into_the_candidates_own_lines() -> None:
    broken = "from reference import Model\n\nclass ModelNew(Model):\n    def forward(self, x):\n        return x.oops\n"
    module = load_candidate(candidate(broken), [3])
    with pytest.raises(AttributeError) as caught:
        module(torch.ones(3))
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.filename.endswith("/model.py") and (last.lineno, last.line) == (5, "return x.oops")
    with pytest.raises(SyntaxError) as syntax:
        load_candidate(candidate("import torch\nclass ModelNew(:\n"), [])
    assert (syntax.value.filename or "").endswith("/model.py") and syntax.value.lineno == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "defines no class ModelNew"),
        ("ModelNew = 3", "defines no class ModelNew"),
        ("class ModelNew: pass", "is no torch.nn.Module"),
    ],
)
def test_a_text_without_entry_is_refused(text: str, words: str) -> None:
    with pytest.raises(CompileError, match=words):
        load_candidate(candidate(text), [])


def test_the_first_file_must_be_python() -> None:
    with pytest.raises(CompileError, match="first file"):
        load_candidate(Candidate("test", "cpp@cpu", (SourceFile("k.cpp", ""), SourceFile("model.py", ""))), [])


def test_source_names_what_there_is() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean scale\.cpp"):
        load_candidate(candidate(MODEL.replace("scale.cpp", "scales.cpp")), [3])
    assert kernelwright.source("test_program.py").startswith('"""A candidate')
    with pytest.raises(UsageError, match=r"nowhere\.cpp: No such file"):
        kernelwright.source("nowhere.cpp")
    with pytest.raises(UsageError, match="no file"):
        exec("kernelwright.source('a.cpp')", {"kernelwright": kernelwright})


def test_a_file_that_fails_to_import_is_tried_again() -> None:
    bad = candidate("import reference\n1 / 0\n")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            load_candidate(bad, [])


def test_where_a_cache_lies_is_no_part_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch sets such a name once its compiler was used: what was judged before would be judged again."""
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    before = environment("null").digest
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/somewhere")
    assert environment("null").digest == before


def test_environment_names_what_a_time_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    first = environment("null")
    assert first.facts.device == "null" and first.torch == torch.__version__
    assert ("OMP_WAIT_POLICY", "passive") in first.settings
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert environment("null").digest != first.digest == first.digest
    with pytest.raises(UnknownNameError, match="no device is called 'cpus'; did you mean cpu"):
        environment("cpus")
