"""A verdict to hand on: what it rests on in one zip file, from which anyone can have it judged again.

    artifact/...       the deployed kernel's form (deploy/artifact.py): sources, reference, verdict with all samples,
                       findings, cases with their seeds, facts of the machine, versions
    not_checked.txt    what the verdict does not say

The cases are no secret any more: the judge that drew them has ended. Whoever judges again draws the same inputs, and
then new ones, which nobody has met.
"""

import tempfile
import zipfile
import zlib
from pathlib import Path

from kernelwright.deploy.artifact import read_artifact, save_artifact
from kernelwright.errors import ArtifactError, UsageError
from kernelwright.judge.cases import FAMILIES, PROBES, floating
from kernelwright.records import Entry, Problem, Verdict

_LARGEST = 64 << 20
"""Bytes of a bundle's text: sources and samples are small."""


def write(path: Path, problem: Problem, entry: Entry) -> None:
    """Raises UsageError where `path` cannot be written, or the problem's weights are not in its text."""
    if problem.weights:
        raise UsageError(f"{problem.name} rests on weights of your own, which a bundle does not hold")
    with tempfile.TemporaryDirectory() as folder:
        artifact = save_artifact(Path(folder) / "artifact", problem, entry)
        try:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
                for file in sorted(item for item in artifact.rglob("*") if item.is_file()):
                    bundle.write(file, file.relative_to(folder).as_posix())
                bundle.writestr("not_checked.txt", "\n".join(f"- {line}" for line in unchecked(problem, entry.verdict)))
        except OSError as error:
            raise UsageError(f"cannot write the bundle {path}: {error}") from error


def read(path: Path, *, trust: bool) -> tuple[Problem, Entry]:
    """The problem, and the candidate with the verdict it was given. Raises UsageError."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with zipfile.ZipFile(path) as bundle:
                if sum(item.file_size for item in bundle.infolist()) > _LARGEST:
                    raise UsageError(f"{path} holds more than a bundle does")
                bundle.extractall(folder)  # which keeps names inside the folder
        except (
            OSError,
            zipfile.BadZipFile,
            zlib.error,
            RuntimeError,
        ) as error:  # RuntimeError: encrypted
            raise UsageError(f"cannot read the bundle {path}: {error}") from error
        try:
            return read_artifact(Path(folder) / "artifact", trust)
        except ArtifactError as error:
            if trust:
                raise UsageError(f"{path}: {str(error).replace(folder, 'its')}") from error
            raise UsageError(
                f"{path} was not made on this machine, or was changed since; its reference runs without a sandbox: "
                "read artifact/reference.py in it, then pass --trust"
            ) from error


def unchecked(problem: Problem, verdict: Verdict) -> tuple[str, ...]:
    """What a verdict does not say, in sentences."""
    said = [
        "second derivatives, and gradients at NaN and infinities" if problem.gradients else "gradients",
        "changes that a module in training makes to its buffers",
        "inputs beyond the families and the ranges that docs/judge.md lists, and other draws of those",
        "weights other than the reference's own, these by channel scaled and permuted, and back",
        "timed calls other than the few that were drawn and verified",
        "other dtypes, devices and versions than the verdict's environment names",
        "whether the kernel behaves otherwise at another time, on another machine, or called by several threads",
        "what it does to operators that run beside it or after it, beyond what surroundings and neighbours found",
        "whether the text does anything else than what was measured: read it",
    ]
    met = {case.family for case in verdict.cases}
    missing = [family for family in (*FAMILIES, *PROBES) if family not in met] if floating(problem) else []
    if missing:
        said.append(f"inputs {', '.join(missing)}: left out, not reached, or the reference has no answer for them")
    for what, seen in (
        ("changed weights", any(case.weights != "original" for case in verdict.cases)),
        ("other layouts than contiguous", any(case.layout != "contiguous" for case in verdict.cases)),
    ):
        if not seen:
            said.append(f"{what}: none was tried")
    if verdict.timing is None:
        said.append("the time: nothing was timed")
    if not problem.dynamic:
        said.append("other sizes than those of the problem's own inputs: its shapes are fixed")
    if not verdict.confirmed:
        said.append("the time on fresh seeds: the verdict is no confirmation")
    if not verdict.native:
        said.append("the time on the device itself: the kernel ran on a host that stands in for it")
    said += [f"{finding.check}: {finding.message}" for finding in verdict.findings if not finding.ok]
    return tuple(said)
