"""Two baselines for those who ask for them: the reference's ONNX graph by ONNX Runtime and by OpenVINO."""

import asyncio
from typing import Any

import pytest

from kernelwright.records import Brief, Candidate, Facts, Problem, Signature
from kernelwright.writers import onnxruntime
from kernelwright.writers.onnxruntime import OnnxRuntimeWriter
from kernelwright.writers.openvino import OpenVinoWriter


@pytest.mark.parametrize("writer", [OnnxRuntimeWriter(), OpenVinoWriter()])
def test_it_proposes_the_reference_labelled_with_the_runtimes_version(
    writer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Candidate] = []

    class Collector:
        async def submit(self, candidate: Candidate) -> Any:
            taken.append(candidate)

        async def trial(self, candidates: Any, case: Any) -> Any:
            raise AssertionError("a baseline tries nothing")

    monkeypatch.setattr(onnxruntime, "version", lambda package: "1.2.3")
    brief = Brief(Problem("net", "class Model: ...", Signature((), "{}")), "cpu", Facts("cpu", "any", "x86_64"))
    asyncio.run(writer.write(brief, Collector()))
    (candidate,) = taken
    assert candidate.title == f"{writer.name} 1.2.3" and candidate.baseline and candidate.target == "torch@cpu"
    texts = {file.path: file.text for file in candidate.sources}
    assert texts["reference.py"] == "class Model: ..." and f'"{writer.name}"' in texts["model.py"]


def test_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "'cuda'" in str(OnnxRuntimeWriter().missing("cuda"))
    monkeypatch.setattr(onnxruntime, "find_spec", lambda package: package not in ("onnxruntime", "openvino") or None)
    assert OnnxRuntimeWriter().missing("cpu") == "onnxruntime is not installed: pip install 'kernelwright[onnx]'"
    assert OpenVinoWriter().missing("cpu") == "openvino is not installed: pip install 'kernelwright[openvino]'"
