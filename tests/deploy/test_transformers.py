"""Models as people have them: outputs of the model's own class, keyword arguments, integer inputs, buffers."""

import asyncio
import logging
import os
import pickle
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

from kernelwright.archive import Archive
from kernelwright.deploy import drop_in, torch_backend
from kernelwright.problems import from_module
from kernelwright.records import (
    Brief,
    Candidate,
    Comparison,
    Entry,
    Facts,
    Problem,
    SourceFile,
    Stage,
    Status,
    Timing,
    Verdict,
)
from kernelwright.targets import environment
from kernelwright.writers.template import TemplateWriter

transformers = pytest.importorskip("transformers")

KERNEL = """
from reference import Model


class ModelNew(Model):
    calls = 0

    def forward(self, *args, **kwargs):
        ModelNew.calls += 1
        return super().forward(*args, **kwargs)
"""

SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)


def bert() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    model = transformers.BertModel(transformers.BertConfig(vocab_size=100, max_position_embeddings=16, **SIZES)).eval()
    mask = torch.ones(2, 8, dtype=torch.int64)
    mask[1, 5:] = 0
    return model, {"input_ids": torch.randint(0, 100, (2, 8)), "attention_mask": mask}


def vit() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    model = transformers.ViTModel(transformers.ViTConfig(image_size=24, patch_size=8, **SIZES)).eval()
    return model, {"pixel_values": torch.randn(2, 3, 24, 24)}


def llama() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=100, num_key_value_heads=1, use_cache=False, **SIZES)
    return transformers.LlamaModel(config).eval(), {"input_ids": torch.randint(0, 100, (2, 12))}


def by_hand(problem: Problem) -> Candidate:
    """The reference's own text."""
    files = (SourceFile("model.py", KERNEL), SourceFile("reference.py", problem.source))
    return Candidate("hand", "torch@cpu", files)


def by_template(problem: Problem) -> Candidate:
    """The first that the template writer submits."""

    class FirstBench:
        found: Candidate

        async def submit(self, candidate: Candidate) -> None:
            self.found = candidate

    bench = FirstBench()
    asyncio.run(TemplateWriter().write(Brief(problem, "cpu", Facts("cpu", "x", "x"), attempts=1), bench))  # type: ignore[arg-type]
    return bench.found


def proven(problem: Problem, make: Callable[[Problem], Candidate] = by_hand) -> Entry:
    """A confirmed winner. Only its being served is tested, so the numbers are made up."""
    candidate = make(problem)
    timing = Timing((1.0,), "made up")
    beside = Comparison("eager", "e", Timing((2.0,), "made up"), 2.0, 1.9, 2.1)
    verdict = Verdict(
        candidate.digest,
        problem.digest,
        "torch@cpu",
        Status.PASSED,
        Stage.CONFIRM,
        environment("cpu"),
        timing=timing,
        comparisons=(beside,),
    )
    return Entry(candidate, verdict)


@pytest.mark.parametrize("make", [bert, vit])
def test_a_drop_in_gives_what_the_model_gives(make, tmp_path) -> None:
    model, call = make()
    problem, _ = from_module(model, (), call)
    fast = drop_in(model, problem, proven(problem))
    kernel = type(fast.__dict__["_kernel"].module)
    with torch.no_grad():
        want, got = model(**call), fast(**call)
    assert type(got) is type(want) and list(got) == list(want) and kernel.calls == 1
    for name in want:
        torch.testing.assert_close(got[name], want[name], rtol=1e-5, atol=1e-5)
    assert got.last_hidden_state is got[0]

    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):  # nothing was proven of it: the model itself runs
        torch.testing.assert_close(fast(**call)[0], model(**call)[0])
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        fast(**call)[0].sum().backward()
    assert kernel.calls == 1 and model.get_input_embeddings() is fast.get_input_embeddings()

    again = pickle.loads(pickle.dumps(fast))
    with torch.inference_mode():
        torch.testing.assert_close(again(**call)[0], want[0], rtol=1e-5, atol=1e-5)
    unpickled = pickle.loads(pickle.dumps(model))
    with torch.no_grad():
        torch.testing.assert_close(unpickled(**call)[0], want[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_drop_in_survives_a_fork() -> None:
    model, call = bert()
    problem, _ = from_module(model, (), call)
    fast = drop_in(model, problem, proven(problem))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # torch's own OpenMP does not survive one
    try:
        with torch.no_grad():
            want = fast(**call)[0]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python 3.12 and later warn of forks beside threads
                child = os.fork()
            if child == 0:
                os._exit(0 if torch.equal(fast(**call)[0], want) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("make", [bert, vit])
def test_torch_compile_serves_the_whole_model(make, monkeypatch: pytest.MonkeyPatch, tmp_path, caplog) -> None:
    path = tmp_path / "archive.sqlite"
    monkeypatch.setattr(torch_backend, "open_archive", lambda: Archive(path))
    model, call = make()
    problem, _ = from_module(model, (), call)
    entry = proven(problem)
    with Archive(path) as archive:
        archive.add_problem(problem)
        archive.add_candidate(entry.candidate)
        archive.add_verdict(entry.verdict)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="kernelwright")
    with torch.no_grad(), caplog.at_level(logging.INFO, "kernelwright"):
        want, got = model(**call), compiled(**call)
    assert f"served by hand for {type(model).__name__}" in caplog.text and "not served" not in caplog.text
    assert type(got) is type(want)
    for name in want:
        torch.testing.assert_close(got[name], want[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", [bert, vit, llama])
def test_kernels_on_packed_weights_serve_a_model_and_follow_its_weights(
    make, monkeypatch: pytest.MonkeyPatch, tmp_path, caplog
) -> None:
    path = tmp_path / "archive.sqlite"
    monkeypatch.setattr(torch_backend, "open_archive", lambda: Archive(path))
    model, call = make()
    problem, _ = from_module(model, (), call)
    entry = proven(problem, by_template)
    text = entry.candidate.sources[0].text
    assert "self.lib.linear(" in text and "self.lib.attended(" in text and "F.scaled_dot" not in text
    with Archive(path) as archive:
        archive.add_problem(problem)
        archive.add_candidate(entry.candidate)
        archive.add_verdict(entry.verdict)
    torch._dynamo.reset()
    fast, compiled = drop_in(model, problem, entry), torch.compile(model, backend="kernelwright")
    with torch.no_grad(), caplog.at_level(logging.INFO, "kernelwright"):
        for factor in (1.0, 0.5):
            for parameter in model.parameters():
                parameter.mul_(factor)
            want = model(**call)
            for got in (fast(**call), compiled(**call)):
                torch.testing.assert_close(got[0], want[0], rtol=1e-4, atol=1e-5)
    assert not fast.disabled and "served by template" in caplog.text and "not served" not in caplog.text
