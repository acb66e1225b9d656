"""PTX that NVIDIA's assembler takes, for every construct of the interface; where there is a GPU, the same results."""

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelwright.errors import LaunchError, UsageError
from kernelwright.simt import Entry, Library, Parameter, Unit, build, cuda
from kernelwright.simt.library import Grid


def ptxas() -> Path | None:
    """NVIDIA's assembler, from the nvidia-cuda-nvcc wheel, triton or a CUDA toolkit."""
    places = [Path(root) / "bin/ptxas" for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if root]
    for name, path in (("triton", "backends/nvidia/bin/ptxas"), ("nvidia", "cu13/bin/ptxas")):
        spec = find_spec(name)
        places += [Path(root) / path for root in (spec.submodule_search_locations or ())] if spec else []
    return next((place for place in places if place.is_file()), None)


@pytest.fixture(scope="module")
def library(unit: Unit) -> Library:
    if reason := cuda.missing():
        pytest.skip(reason)
    return build(unit, [entry.name for entry in unit.entries], host="cuda")


def assembled(library: Library, tmp_path: Path) -> None:
    assembler = ptxas()
    if assembler is None:
        pytest.skip("NVIDIA's assembler is not installed: pip install nvidia-cuda-nvcc")
    command = [assembler, "-arch=sm_90", "-v", library.path, "-o", tmp_path / "cubin"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Compiling entry function") == library.path.read_text().count(".visible .entry")


def test_every_construct_assembles(library: Library, tmp_path: Path) -> None:
    assembled(library, tmp_path)


def test_matrices_use_the_tensor_cores(library: Library) -> None:
    text = library.path.read_text()
    assert "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" in text
    assert "bar.sync" in text or "barrier.sync" in text


def test_neighbours_run_as_one_where_nothing_can_tell(library: Library) -> None:
    text = library.path.read_text()
    assert "ld.global.v4" in text and "simt_row_" in text
    gains = {name: cuda._gains_by_rows(text, index) for index, name in enumerate(library.entries)}
    assert gains["scaled"] and not gains["group_sum"] and not gains["wide"]


COPY = """#include "simt.hpp"
struct alignas(1) Sixteen { unsigned char bytes[16]; };
using global = __attribute__((opencl_global)) Sixteen;
static void copied(const global* from, global* to, unsigned i) {
  SIMT_GROUP Sixteen held[32];
  auto* place = (__attribute__((opencl_local)) Sixteen*)&held[i % 32];
  *place = from[i];
  simt::group_barrier();
  to[i] = held[(i + 1) % 32];
}"""


def test_a_struct_without_alignment_is_copied_by_wide_accesses_where_addresses_allow_it(tmp_path: Path) -> None:
    if reason := cuda.missing():
        pytest.skip(reason)
    parameters = (
        Parameter("from", "buffer", 0, ""),
        Parameter("to", "buffer", 1, "", writable=True),
        Parameter("i", "builtin", 0, "", builtin="thread_in_grid"),
    )
    made = build(Unit(COPY, (Entry("copied", "copied", parameters),)), ["copied"], host="cuda")
    text = made.path.read_text()
    entry = text[text.index(".entry simt_entry_0(") :].partition("\n}")[0]
    for access in ("ld.global", "st.shared", "ld.shared", "st.global"):
        assert entry.count(f"{access}.v4.b32 ") == 1, access
        assert entry.count(f"{access}.b8 ") == 16, access
    assert entry.count("setp.ne.b64") == 2
    assembled(made, tmp_path)


@pytest.mark.parametrize(
    ("places", "threads", "expected"),
    [
        ([(64, 64), (128, 64)], (16, 1, 1), True),
        ([(64, 64), (128, 64)], (15, 1, 1), False),
        ([(64, 64), (128, 64)], (16, 2, 1), False),
        ([(64, 65), (128, 64)], (16, 1, 1), False),
        ([(68, 32), (128, 64)], (16, 1, 1), False),
        ([(64, 64), b"1234"], (16, 1, 1), True),
    ],
)
def test_when_neighbours_may_run_as_one(places: list[Any], threads: tuple[int, int, int], expected: bool) -> None:
    assert cuda._can_be_cut(dict(enumerate(places)), Grid(threads, (16, 1, 1))) == expected


def test_a_second_build_is_recalled(library: Library, unit: Unit) -> None:
    assert build(unit, list(library.entries), host="cuda").cached


def test_waves_of_sixty_four_are_refused(unit: Unit) -> None:
    if reason := cuda.missing():
        pytest.skip(reason)
    with pytest.raises(UsageError, match="warps have 32"):
        build(Unit(unit.text, unit.entries, simd_width=64), ["scaled"], host="cuda")


def test_lanes_are_numbered_so_that_matrices_need_not_move() -> None:
    """What cuda.hpp's header says, by its own bit operations: lane l holds what thread t of mma.sync's layout holds."""
    for lane in range(32):
        thread = (lane & 17) | (lane >> 1 & 3) << 2 | (lane >> 3 & 1) << 1
        row, column = (lane >> 4 & 1) * 4 + (lane >> 1) % 4, (lane >> 3 & 1) * 4 + (lane & 1) * 2
        assert (thread // 4, thread % 4 * 2) == (row, column)
        assert (thread & 17) | (thread >> 2 & 3) << 1 | (thread >> 1 & 1) << 3 == lane


RUNS: dict[str, tuple[tuple[Any, ...], tuple[int, ...], tuple[int, ...]]] = {
    # Entry: arguments (what to draw, or the value), threads, size of a group.
    "scaled": (("x", "y", np.float32(3)), (100_003,), (64,)),
    "scaled by rows": (("x", "y", np.float32(3)), (100_004,), (64,)),
    "group_sum": (("x", "y"), (3500,), (1000,)),
    "divided": (("int x", "int y"), (96,), (96,)),
    "leaving": (("few x", "int y"), (32,), (32,)),
    "lanes": (("x", "y"), (64,), (64,)),
    "early": (("int x", "int y"), (128,), (64,)),
    "product": (("half x", "x", "y"), (32,), (32,)),
    "where": (("int y",), (5, 7, 3), (4, 4, 2)),
    "where_waiting": (("int y",), (70,), (33,)),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_gpu_agrees_with_the_cpu(library: Library, unit: Unit, name: str) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no NVIDIA GPU here")
    arguments, threads, group = RUNS[name]
    random = np.random.default_rng(5)
    host: dict[int, Any] = {}
    for index, argument in enumerate(arguments):
        match argument:
            case "x":
                host[index] = random.random(1 << 18, dtype=np.float32)
            case "half x":
                host[index] = random.random(1 << 10, dtype=np.float32).astype(np.float16)
            case "int x":
                host[index] = random.integers(0, 100, 1 << 12, dtype=np.int32)
            case "few x":
                host[index] = random.integers(0, 5, 1 << 12, dtype=np.int32)
            case "y":
                host[index] = np.zeros(1 << 18, np.float32)
            case "int y":
                host[index] = np.zeros(1 << 14, np.int32)
            case _:
                host[index] = argument.tobytes()
    device = {i: torch.from_numpy(a.copy()).cuda() if isinstance(a, np.ndarray) else a for i, a in host.items()}
    on_gpu = {i: (t.data_ptr(), t.nbytes) if not isinstance(t, bytes) else t for i, t in device.items()}
    on_cpu = {i: (a.ctypes.data, a.nbytes) if not isinstance(a, bytes) else a for i, a in host.items()}
    name = name.partition(" ")[0]
    library.launch(name, on_gpu, threads=threads, group_size=group)
    build(unit, [name]).launch(name, on_cpu, threads=threads, group_size=group)
    out = max(index for index, argument in enumerate(arguments) if isinstance(argument, str) and argument[-1] == "y")
    np.testing.assert_allclose(device[out].cpu().numpy(), host[out], rtol=2e-5, atol=2e-6)


def test_a_missing_buffer_is_told_before_any_gpu_is_asked(library: Library) -> None:
    with pytest.raises(LaunchError, match="scaled: buffer 0"):
        library.launch("scaled", {}, threads=(1,), group_size=(1,))
