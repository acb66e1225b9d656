"""A museum of wrong kernels: the check build tells of each, at the line marked FAULT, and of nothing else."""

import json
import re
from pathlib import Path

import pytest

from kernelwright import simt
from kernelwright.metal import frontend
from kernelwright.metal.arguments import bind
from kernelwright.metal.launch_file import Launch, launch_of

WAITING = (simt.FaultKind.DIVERGENCE, simt.FaultKind.PARTIAL)

MUSEUM = sorted((Path(__file__).parent / "wrong").glob("*.metal"))


def fault(text: str) -> tuple[set[int], str]:
    """The marked lines and what is wrong there."""
    marks = [(number, re.search(r"// FAULT (.+)$", line)) for number, line in enumerate(text.splitlines(), 1)]
    kinds = {match[1] for _, match in marks if match}
    assert len(kinds) == 1, "one kind of fault is marked in each file"
    return {number for number, match in marks if match}, kinds.pop()


def launch(path: Path) -> Launch:
    """What the file's own LAUNCH line says."""
    match = re.search(r"^// LAUNCH (.+)$", path.read_text(), re.MULTILINE)
    assert match
    return launch_of(json.loads(match[1]), path.parent, path.name)


@pytest.fixture(scope="module")
def built() -> simt.Library:
    """All of them in one build, each under its file's name."""
    text = "".join(f'#line 1 "{path.name}"\n{path.read_text()}' for path in MUSEUM)
    unit = frontend.module(frontend.source(text)).unit
    return simt.build(unit, [path.stem for path in MUSEUM], check=True)


@pytest.mark.parametrize("path", MUSEUM, ids=lambda path: path.stem)
def test_told_at_its_line(built: simt.Library, path: Path) -> None:
    lines, kind = fault(path.read_text())
    given = launch(path)
    report = built.launch(
        path.stem,
        bind(path.stem, given.values, None).arguments,
        threads=given.threads,
        group_size=given.group_size,
        group_memory=given.group_memory,
    )
    assert bool(report.remarks) == path.stem.startswith(("unfenced", "partial"))
    assert report.faults or report.remarks, "nothing was found"
    for found in (*report.faults, *report.remarks):
        told = {found.place.line} | ({found.other.line} if found.other else set())
        assert found.kind.value == kind and told & lines, found.message
        assert found.place.file == path.name and found.kernel == path.stem
        assert found.memory or found.kind in WAITING or "wild" in path.stem
        assert f"thread {found.thread}" in found.message


def test_there_are_enough() -> None:
    assert len(MUSEUM) >= 30
    assert {fault(path.read_text())[1] for path in MUSEUM} == {kind.value for kind in simt.FaultKind}
