"""What torch.compile makes of the user's code: the second baseline."""

import asyncio
import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

from kernelwright.records import Brief, Candidate, SourceFile, encode
from kernelwright.writers.writer import Bench

MODES = ("default", "max-autotune", "freezing")

_MODEL = '''import kernelwright
from kernelwright.errors import LaunchError, MissingError
from reference import Model


class ModelNew(Model):
    """The reference compiled ahead of time by TorchInductor, mode "{mode}"."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.lib = kernelwright.compile(
            kernelwright.source("reference.py"),
            language="inductor",
            mode="{mode}",
            signature={signature!r},
            numerics={numerics!r},
        )

    def prepare(self):
        try:
            self.compiled = self.lib.bind(self)
        except LaunchError as error:  # mode "freezing" has folded the weights, and these are others
            raise MissingError(str(error)) from error

    def forward(self, *args, **kwargs):
        return self.compiled(*args, **kwargs)
'''


class InductorWriter:
    """Proposes the reference compiled by TorchInductor in each of its modes."""

    name = "inductor"
    baseline = True
    repeats = True

    def missing(self, target: str) -> str | None:
        if target != "cpu":
            return f"TorchInductor is not run on {target!r} here"
        if not shutil.which(os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")):
            return "TorchInductor needs a C++ compiler, and g++ was not found (Debian: apt-get install g++)"
        if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
            return "TorchInductor needs Python's headers, and Python.h was not found (Debian: python3-dev)"
        return None

    async def write(self, brief: Brief, bench: Bench) -> None:
        # One mode that cannot be judged must not cost the others theirs.
        submitted = (bench.submit(candidate(brief, mode)) for mode in MODES[: brief.attempts])
        for answer in await asyncio.gather(*submitted, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer


def candidate(brief: Brief, mode: str) -> Candidate:
    """The reference compiled in `mode`."""
    problem = brief.problem
    signature, numerics = (json.dumps(encode(part)) for part in (problem.signature, problem.numerics))
    model = _MODEL.format(mode=mode, signature=signature, numerics=numerics)
    return Candidate(
        "inductor",
        f"torch@{brief.target}",
        (SourceFile("model.py", model), SourceFile("reference.py", problem.source)),
        label=mode,
        note="Its weights are folded in and cannot change afterwards." if mode == "freezing" else "",
        baseline=True,
    )
