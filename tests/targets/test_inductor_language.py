"""Inductor as a language: what it needs, what it refuses, what decides a package's key."""

import json
import shutil
import sysconfig
from pathlib import Path

import pytest
import torch

import kernelwright
from kernelwright.errors import CompileError, LaunchError
from kernelwright.records import BuildRequest, Signature, TensorSpec, decode, encode, flatten
from kernelwright.targets import LocalBroker, ahead
from kernelwright.targets.languages.inductor import InductorLanguage, InductorLibrary, weights_digest

ARGUMENTS = flatten({"args": [torch.zeros(1)], "kwargs": {}}, torch.is_tensor)[1]
SIGNATURE = json.dumps(encode(Signature((TensorSpec("x", "float32", (4, 8)),), ARGUMENTS)))
needs_compiler = pytest.mark.skipif(InductorLanguage().missing() is not None, reason="Inductor cannot run here")


def request(source: str, **options: str) -> BuildRequest:
    return BuildRequest("inductor", source, tuple(sorted({"signature": SIGNATURE, **options}.items())))


def test_what_is_missing_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "g++ was not found" in str(InductorLanguage().missing())
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/" + name)
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": "/nowhere"})
    assert "Python.h was not found" in str(InductorLanguage().missing())


@needs_compiler
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (request("", mode="fastest"), "not 'fastest'"),
        (BuildRequest("inductor", ""), "without a proper signature"),
        (BuildRequest("inductor", "", (("signature", "{"),)), "without a proper signature"),
        (request("def get_init_inputs(): return []"), "defines no Model"),
    ],
)
def test_what_cannot_be_compiled_is_said(asked: BuildRequest, words: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        LocalBroker(tmp_path).build(asked)
    assert words in str(caught.value)


@needs_compiler
def test_the_text_may_import_what_the_broker_was_told_of(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("1 / 0\n")
    broker = LocalBroker(tmp_path / "cache", import_paths=[str(tmp_path)])
    with pytest.raises(CompileError, match="ZeroDivisionError"):
        broker.build(request("import beside"))
    with pytest.raises(CompileError, match="No module named 'beside'"):
        LocalBroker(tmp_path / "cache").build(request("import beside"))


@needs_compiler
def test_threads_are_part_of_the_key() -> None:
    before = torch.get_num_threads()
    language = InductorLanguage()
    try:
        torch.set_num_threads(1)
        one = tuple(language.key(request("")))
        torch.set_num_threads(2)
        assert tuple(language.key(request(""))) != one
    finally:
        torch.set_num_threads(before)


def test_folded_weights_refuse_others(monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Linear(2, 2)
    compiled = ahead.Compiled('{"tensor": 0}', follows_weights=False, weights=weights_digest(model))
    library = InductorLibrary(Path("never loaded"), compiled, decode(Signature, json.loads(SIGNATURE)))
    monkeypatch.setattr(library, "_runner", lambda module: (lambda leaves: [leaves[0]], {}))
    assert not library.follows_weights
    assert library.bind(model)(5) == 5
    with torch.no_grad():
        model.weight.add_(1)
    with pytest.raises(LaunchError, match="folded the weights"):
        library.bind(model)


@needs_compiler
def test_another_layout_gives_the_same_result() -> None:
    source = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2 + 1\n"
    source += "def get_init_inputs(): return []\n"
    library = kernelwright.compile(source, language="inductor", mode="default", signature=SIGNATURE)
    x = torch.randn(4, 8)
    strided = torch.full((4, 16), float("nan"))[:, ::2].copy_(x)
    torch.testing.assert_close(library.bind(torch.nn.Module())(strided), x * 2 + 1)


@needs_compiler
@pytest.mark.slow
def test_freezing_folds_weights_and_says_so() -> None:
    source = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(8, 8, 1)
        self.norm = torch.nn.BatchNorm1d(8)
    def forward(self, x):
        return self.norm(self.conv(x[..., None]))
def get_init_inputs(): return []
"""
    library = kernelwright.compile(source, language="inductor", mode="freezing", signature=SIGNATURE)
    assert not library.follows_weights
    space: dict = {}
    exec(source, space)
    torch.manual_seed(0)
    model = space["Model"]().eval()
    x = torch.randn(4, 8)
    with torch.no_grad():
        torch.testing.assert_close(library.bind(model)(x), model(x), rtol=1e-4, atol=1e-5)
        model.conv.weight.mul_(2)
        with pytest.raises(LaunchError, match="folded"):
            library.bind(model)
