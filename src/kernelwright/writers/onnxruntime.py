"""What ONNX Runtime makes of the user's code: a baseline for those who ask for it."""

import json
from importlib.metadata import version
from importlib.util import find_spec

from kernelwright.records import Brief, Candidate, SourceFile, encode
from kernelwright.writers.writer import Bench

_MODEL = '''import kernelwright
import torch
from reference import Model


class ModelNew(Model):
    """The reference exported to ONNX, run by {title}."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.graph = kernelwright.compile(
            kernelwright.source("reference.py"),
            language="onnx",
            signature={signature!r},
            numerics={numerics!r},
        )

    def prepare(self):  # a session folds and packs the weights, so that others need another session
        self.session = self.graph.session(self, "{runtime}", torch.get_num_threads())

    def forward(self, *args, **kwargs):
        return self.session(*args, **kwargs)
'''


class OnnxRuntimeWriter:
    """Proposes the reference exported to ONNX and run by ONNX Runtime, where it is asked for by name."""

    name = "onnxruntime"
    baseline = True
    repeats = True
    named_only = True

    def missing(self, target: str) -> str | None:
        return missing(target, "ONNX Runtime", self.name, "onnx")

    async def write(self, brief: Brief, bench: Bench) -> None:
        await bench.submit(candidate(brief, self.name, "ONNX Runtime"))


def missing(target: str, title: str, runtime: str, extra: str) -> str | None:
    """Why a graph cannot be exported for this runtime, or not run by it."""
    if target != "cpu":
        return f"{title} is not run on {target!r} here"
    for package in ("onnx", "onnxscript", runtime):
        if not find_spec(package):
            return f"{package} is not installed: pip install 'kernelwright[{extra}]'"
    return None


def candidate(brief: Brief, runtime: str, title: str) -> Candidate:
    """The reference's graph run by `runtime`, labelled with its version."""
    problem = brief.problem
    signature, numerics = (json.dumps(encode(part)) for part in (problem.signature, problem.numerics))
    model = _MODEL.format(title=title, runtime=runtime, signature=signature, numerics=numerics)
    return Candidate(
        runtime,
        f"torch@{brief.target}",
        (SourceFile("model.py", model), SourceFile("reference.py", problem.source)),
        label=version(runtime),
        baseline=True,
    )
