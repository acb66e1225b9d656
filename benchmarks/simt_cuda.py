"""Metal kernels of public repositories on an NVIDIA GPU, in two steps, as the GPU's machine may have no compiler:

    python benchmarks/simt_cuda.py make FOLDER mlx=PATH/TO/mlx [candle=PATH ggml=PATH]    PTX of all cases and races
    python benchmarks/simt_cuda.py run FOLDER [--json FILE]                               on a machine with a GPU

`run` compares the cases of metal_cases with NumPy, then times MLX's elementwise kernels by turns with a copy of the
device (`copy_`), its softmax and GEMM with torch's: medians of 20, each of enough calls to last a millisecond or more.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from metal_cases import CORPORA, Case
from metal_cases.case import packed

from kernelwright.errors import KernelwrightError
from kernelwright.metal import frontend
from kernelwright.metal.library import Library
from kernelwright.simt import Entry, Parameter, cuda
from kernelwright.simt.library import Argument

TURNS = 20
ELEMENTWISE = ("Abs", "Exp")
ELEMENTS = 1 << 28
SOFTMAX = ((65536, 4096, np.float32), (131072, 1000, np.float32), (131072, 1000, np.float16))
GEMM = ((4096, np.float32), (4096, np.float16))
_KERNELS = "mlx/backend/metal/kernels"
_WHOLE_TILES: dict[int | str, Any] = {10: False, 100: False, 110: False, 200: True, 201: True, 202: True}


@dataclass(frozen=True)
class Race:
    """A kernel beside what does the same in torch. `work` is what one call does, counted in `unit`.

    `distance` is how far the worst element lies from float64's, as a part of the largest; `unaligned` is the same on
    buffers that begin one element behind a multiple of sixteen bytes.
    """

    name: str
    here: Callable[[], object]
    beside: Callable[[], object]
    work: float
    unit: str
    distance: float
    unaligned: float


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    making = steps.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("checkouts", nargs="+", help="NAME=PATH, NAME one of metal_cases.CORPORA")
    running = steps.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("--json", type=Path, help="where the rows go")
    running.add_argument("--only", default="cases,races")
    given = parser.parse_args(argv)
    if given.step == "make":
        given.folder.mkdir(parents=True, exist_ok=True)
        return make(given.folder, dict(word.split("=", 1) for word in given.checkouts))
    rows = {"device": _device(), "cases": [], "races": []}
    if "cases" in given.only:
        rows["cases"] = [*compared(given.folder)]
    if "races" in given.only:
        rows["races"] = [*timed(given.folder)]
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    return int(any(row["error"] for row in rows["cases"]))


def make(folder: Path, checkouts: dict[str, str]) -> int:
    """PTX of each case and race, and the entry it is of."""
    failed = 0
    for name, checkout in checkouts.items():
        corpus = CORPORA[name]
        folders = [Path(checkout, include) for include in corpus.includes]
        cases = [(case.file, case.kernel, case.constants) for case in corpus.cases(np.random.default_rng(0))]
        named = [(f"{name}-{number}", *case) for number, case in enumerate(cases)]
        named += [(f"race-{kernel}", file, kernel, constants) for file, kernel, constants in races() if name == "mlx"]
        for target, file, kernel, constants in named:
            path = Path(checkout, file)
            text = path.read_text(encoding="utf-8", errors="replace")
            try:
                source = frontend.source(text, name=str(path), include_dirs=folders, constants=dict(constants))
                made = Library(frontend.module(source), source)[kernel].build("cuda")
            except KernelwrightError as error:
                failed += 1
                print(f"{name} {kernel}: {str(error).splitlines()[0]}", file=sys.stderr)
                continue
            Path(folder, f"{target}.ptx").write_text(made.path.read_text())
            Path(folder, f"{target}.json").write_text(json.dumps(asdict(made.entries[kernel])))
    return int(failed > 0)


def races() -> Iterator[tuple[str, str, Mapping[int | str, Any]]]:
    for name in ELEMENTWISE:
        yield f"{_KERNELS}/unary.metal", f"v_{name}float32float32", {}
    for _, _, dtype in SOFTMAX:
        yield f"{_KERNELS}/softmax.metal", f"block_softmax_{np.dtype(dtype)}", {}
    for _, dtype in GEMM:
        yield f"{_KERNELS}/steel/gemm/kernels/steel_gemm_fused.metal", _gemm(dtype), _WHOLE_TILES


def _gemm(dtype: Any) -> str:
    return f"steel_gemm_fused_nn_{np.dtype(dtype)}_{np.dtype(dtype)}_bm64_bn64_bk16_wm2_wn2"


class Made:
    """A kernel out of a folder that `make` wrote. Its buffers are tensors, bytes, or None for a free one."""

    def __init__(self, folder: Path, name: str) -> None:
        fields = json.loads(Path(folder, f"{name}.json").read_text())
        parameters = tuple(Parameter(**parameter) for parameter in fields["parameters"])
        self._entry = Entry(**{**fields, "parameters": parameters})
        self._library = cuda.library(folder / f"{name}.ptx", [self._entry])

    def __call__(self, *buffers: Any, **shape: Any) -> None:
        arguments: dict[int, Argument] = {p.index: (0, 0) for p in self._entry.parameters if p.kind == "buffer"}
        for index, buffer in enumerate(buffers):
            if buffer is not None:
                arguments[index] = (
                    buffer if isinstance(buffer, bytes) else (buffer.data_ptr(), buffer.numel() * buffer.itemsize)
                )
        self._library.launch(self._entry.name, arguments, **shape)


def compared(folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each case that was made: how far the worst element lies from NumPy's."""
    for name, corpus in CORPORA.items():
        if not any(folder.glob(f"{name}-*.ptx")):
            continue
        for number, case in enumerate(corpus.cases(np.random.default_rng(0))):
            distance, error = None, ""
            try:
                distance = launched(Made(folder, f"{name}-{number}"), case)
                if not distance <= case.tolerance:
                    error = f"off by {distance:.1e}"
            except (KernelwrightError, OSError) as raised:
                error = str(raised).splitlines()[0]
            print(f"{corpus.repository} {case.kernel} {distance} {error or 'ok'}", flush=True)
            yield {
                "repository": corpus.repository,
                "family": case.family,
                "kernel": case.kernel,
                "distance": distance,
                "error": error,
            }


def launched(kernel: Made, case: Case) -> float:
    """Runs a case; the largest distance of an element from what is right, as a part of its row's largest."""
    import torch

    given = {id(item): np.asarray(item) for item in case.arguments if item is not None}
    held = {
        key: torch.from_numpy(np.ascontiguousarray(item).reshape(-1).view(np.uint8).copy()).cuda()
        for key, item in given.items()
    }
    buffers = [None if item is None else held[id(item)] for item in case.arguments]
    kernel(*buffers, threads=case.grid, group_size=case.group_size, group_memory=case.group_memory)
    torch.cuda.synchronize()
    worst = 0.0
    for index, expected in case.expected.items():
        got = held[id(case.arguments[index])].cpu().numpy().view(given[id(case.arguments[index])].dtype)
        values = got.view(np.float32) if got.dtype.kind == "c" else got
        values = values.astype(np.float64).reshape(expected.shape)
        scale = np.abs(expected).max(-1, keepdims=True) if expected.ndim else np.abs(expected)
        away = np.abs(values - expected) / np.maximum(scale, 1e-30)
        worst = max(worst, float(away.max()) if np.isfinite(away).all() else float("inf"))
    return worst


def timed(folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each race."""
    for race in (*maps(folder), *softmaxes(folder), *products(folder)):
        here, beside = by_turns(race.here, race.beside)
        row = {
            "race": race.name,
            "here_ms": here,
            "torch_ms": beside,
            "ratio": here / beside,
            "here_rate": race.work / here / 1e6,
            "torch_rate": race.work / beside / 1e6,
            "unit": f"G{race.unit}/s",
            "distance": race.distance,
            "unaligned": race.unaligned,
        }
        print(json.dumps(row), flush=True)
        yield row


def maps(folder: Path) -> Iterator[Race]:
    import torch

    x = torch.randn(ELEMENTS, device="cuda")
    y = torch.empty_like(x)
    size = np.uint32(ELEMENTS).tobytes()
    for name in ELEMENTWISE:
        kernel = Made(folder, f"race-v_{name}float32float32")

        def call(x: Any, y: Any, kernel: Made = kernel) -> Any:
            kernel(x, y, size, threads=(ELEMENTS,), group_size=(1024,))
            return y

        exact = getattr(torch, name.lower())(x.double())
        far = [away(call(x, y), exact), away(call(moved(x), moved(y)), exact)]
        here = partial(call, x, y)
        yield Race(f"{name} of {ELEMENTS} floats", here, partial(y.copy_, x), 2 * x.nbytes, "B", *far)


def softmaxes(folder: Path) -> Iterator[Race]:
    import torch

    for rows, columns, dtype in SOFTMAX:
        name = np.dtype(dtype).name
        kernel = Made(folder, f"race-block_softmax_{name}")
        group = -(-columns // 128) * 32
        size = np.int32(columns).tobytes()

        def call(
            x: Any, y: Any, kernel: Made = kernel, size: bytes = size, rows: int = rows, group: int = group
        ) -> Any:
            kernel(x, y, size, threads=(rows * group,), group_size=(group,))
            return y

        x = torch.randn(rows, columns, device="cuda", dtype=getattr(torch, name))
        y = torch.empty_like(x)
        exact = torch.softmax(x.double(), -1)
        far = [away(call(x, y), exact), away(call(moved(x), moved(y)), exact)]
        beside = partial(torch.softmax, x, -1)
        here = partial(call, x, y)
        yield Race(f"block_softmax {name} {rows}x{columns}", here, beside, 2 * x.nbytes, "B", *far)


def products(folder: Path) -> Iterator[Race]:
    import torch

    for size, dtype in GEMM:
        name = np.dtype(dtype).name
        kernel = Made(folder, f"race-{_gemm(dtype)}")
        tiles = size // 64
        layout = packed("8i3q3i", *[size] * 6, tiles, tiles, 0, 0, 0, 0, size // 16, 1).tobytes()

        shape = {"threads": (32 * tiles, 2 * tiles, 2), "group_size": (32, 2, 2)}

        def call(
            a: Any, b: Any, d: Any, kernel: Made = kernel, layout: bytes = layout, shape: dict[str, Any] = shape
        ) -> Any:
            kernel(a, b, None, d, layout, **shape)
            return d

        a, b = torch.randn(2, size, size, device="cuda", dtype=getattr(torch, name))
        d = torch.empty_like(a)
        exact = a.double() @ b.double()
        far = [away(call(a, b, d), exact), away(call(moved(a), moved(b), moved(d)), exact)]
        beside = partial(torch.matmul, a, b)
        here = partial(call, a, b, d)
        yield Race(f"steel GEMM {name} {size}^3", here, beside, 2 * size**3, "FLOP", *far)


def moved(x: Any) -> Any:
    """The same tensor, one element behind an aligned address."""
    room = x.new_empty(x.numel() + 1)[1:].view(x.shape)
    return room.copy_(x)


def away(got: Any, exact: Any) -> float:
    return float((got.double() - exact).abs().max() / exact.abs().max())


def by_turns(here: Callable[[], object], beside: Callable[[], object]) -> tuple[float, float]:
    """Medians in milliseconds of one call of each."""
    calls = {call: max(1, int(2 / milliseconds(call, 3))) for call in (here, beside)}
    times = [[milliseconds(call, calls[call]) for call in (here, beside)] for _ in range(TURNS)]
    return statistics.median(t for t, _ in times), statistics.median(t for _, t in times)


def milliseconds(call: Callable[[], object], calls: int) -> float:
    import torch

    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / calls


def _device() -> dict[str, str]:
    import torch

    return {"name": torch.cuda.get_device_name(), "torch": torch.__version__}


if __name__ == "__main__":
    sys.exit(main())
