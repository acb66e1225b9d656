"""Metal as a language of kernelwright.compile: hosted here, torch.mps on a Mac."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import kernelwright
from kernelwright import plugins
from kernelwright.errors import CompileError, UnknownNameError
from kernelwright.records import Candidate, SourceFile
from kernelwright.targets import load_candidate
from kernelwright.targets.devices import metal as device
from kernelwright.targets.languages import metal as language
from kernelwright.toolchain import clang

hosted = pytest.mark.skipif(clang.missing() is not None or sys.platform == "darwin", reason="no compiler, or a Mac")

SCALE = """#include <metal_stdlib>
using namespace metal;
constant float factor [[function_constant(0)]];
kernel void scale(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
  out[i] = factor * x[i];
}
"""
SHIFT = """#include <metal_stdlib>
using namespace metal;
kernel void shift(device float* out, device const float* x, uint i [[thread_position_in_grid]]) {
  out[i] = x[i + 1];
}
"""


@hosted
def test_a_kernel_is_compiled_and_called() -> None:
    library = kernelwright.compile(SCALE, language="metal", constants={0: 3.0})
    x = torch.arange(5.0)
    out = torch.empty(5)
    assert library.scale(out, x) is None and dir(library) == ["scale"]
    assert torch.equal(out, 3 * x)
    with pytest.raises(UnknownNameError, match="scalle"):
        _ = library.scalle


@hosted
def test_an_error_names_the_authors_own_line() -> None:
    with pytest.raises(CompileError, match=r"test_metal\.py:\d+:\d+: error: .*'y'") as caught:
        kernelwright.compile(
            """
kernel void k(device float* x, uint i [[thread_position_in_grid]]) {
  x[i] = y;
}
""",
            language="metal",
        )
    line = int(str(caught.value).split(":")[1])
    assert "x[i] = y;" in Path(__file__).read_text().splitlines()[line - 1]


@hosted
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('#include "/etc/hostname"\n', "only Metal's own headers"),
        ("float f(float x) { return x; }", "no kernel"),
        ("kernel void k(device double* x) {}", "double"),
    ],
)
def test_what_does_not_compile(text: str, why: str) -> None:
    with pytest.raises(CompileError, match=why):
        kernelwright.compile(text, language="metal")


@hosted
def test_torchs_own_headers() -> None:
    text = """#include <c10/metal/utils.h>
kernel void k(device float* x, uint i [[thread_position_in_grid]]) { x[i] = c10::metal::max(x[i], 2.0f); }"""
    x = torch.arange(5.0)
    kernelwright.compile(text, language="metal").k(x)
    assert x.tolist() == [2, 2, 2, 3, 4]


@hosted
def test_watched_launches_tell_what_is_wrong() -> None:
    library = kernelwright.compile(SHIFT, language="metal")
    x, out = torch.arange(8.0), torch.zeros(8)
    with language.watching("M2") as watched:
        library.shift(out, x, threads=7)
    assert (watched.launches, watched.faults) == (1, [])
    assert 0 < watched.estimate_us < 1
    with language.watching("M2") as watched:
        library.shift(out, x, threads=8)
    assert len(watched.faults) == 1
    line = Path(__file__).read_text().splitlines().index("  out[i] = x[i + 1];") + 1
    assert f"out of bounds at test_metal.py:{line}:12" in watched.faults[0]
    assert "element 8 of buffer 1 (x)" in watched.faults[0]


CANDIDATE = '''
import torch
lib = torch.mps.compile_shader("""
kernel void twice(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }
""")

class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = x.clone() if x.is_mps else x
        lib.twice(out)
        torch.mps.synchronize()
        return out
'''


@hosted
def test_a_candidate_written_for_a_mac_runs_unmodified() -> None:
    module = load_candidate(Candidate("test", "metal@metal", (SourceFile("model.py", CANDIDATE),)), [])
    x = torch.arange(4.0)
    assert module(x).tolist() == [0, 2, 4, 6] and x[1] == 1


@hosted
def test_a_kernel_takes_no_tensor_of_the_cpu_there() -> None:
    text = CANDIDATE.replace("x.clone() if x.is_mps else x", "x.cpu()")
    module = load_candidate(Candidate("test", "metal@metal", (SourceFile("model.py", text),)), [])
    with pytest.raises(RuntimeError, match="Passed CPU tensor to MPS op"):
        module(torch.arange(4.0))


@pytest.mark.parametrize("name", ["metal@metal", "torch@metal"])
def test_targets(name: str) -> None:
    target: Any = plugins.find("targets", "Target", name)()
    assert f"{target.language}@{target.device}" == name
    if sys.platform != "darwin":
        assert not target.native
        facts = target.facts()
        assert facts.device == "metal" and facts.name.startswith("hosted by ") and not facts.bandwidth_gbs


def test_a_mac_is_described() -> None:
    facts = device.describe_mac("Apple M2 Max\n34359738368\n")
    assert (facts.device, facts.name, facts.memory_bytes, facts.bandwidth_gbs) == (
        "metal",
        "Apple M2 Max",
        32 << 30,
        0.0,
    )


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "compile_shader", lambda source: f"torch's library of {len(source)} letters")


def test_on_a_mac_torch_compiles(mac: None, tmp_path: Path) -> None:
    from kernelwright.records import BuildRequest

    there, request = language.MetalLanguage(), BuildRequest("metal", SHIFT)
    assert there.missing() is None and there.key(request) == ("mac",)
    path = there.build(request, tmp_path)
    assert path.read_text() == SHIFT
    assert there.load(path, request) == f"torch's library of {len(SHIFT)} letters"


def test_a_mac_without_metal_says_so(mac: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert "torch finds no Metal on this Mac" in str(device.missing())
