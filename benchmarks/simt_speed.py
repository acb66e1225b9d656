"""How fast hosted kernels run on CPU cores: `python benchmarks/simt_speed.py MLX_CHECKOUT [--turns N] [--only WORD]`.

One worker and one thread of torch or NumPy, by turns in one process, the best CPU time of each; the ratio is what
counts. Times of a host are not Metal's.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from metal_cases.case import packed

from kernelwright.metal import frontend
from kernelwright.metal.constants import Constants
from kernelwright.metal.library import Library

KERNELS = "mlx/backend/metal/kernels"
ADD = """#include <metal_stdlib>
using namespace metal;
kernel void chain(device float* out, device const float* x, device const float* y, uint i [[thread_position_in_grid]]) {
  out[i] = clamp(x[i] * y[i] + 0.5f, 0.0f, 1.0f);
}"""


@dataclass(frozen=True)
class Race:
    """A hosted kernel beside what does the same; `work` counts what one call of either does, in `unit`."""

    name: str
    hosted: Callable[[], object]
    beside: Callable[[], object]
    other: str
    work: float = 0.0
    unit: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--only", default="", help="a word in the name")
    given = parser.parse_args()
    os.environ["KERNELWRIGHT_THREADS"] = "1"
    torch.set_num_threads(1)
    print(f"{'kernel':32} {'here ms':>10} {'beside ms':>10} {'ratio':>7}  beside")
    for race in races(given.checkout, given.only):
        here, beside = best(race, given.turns)
        rate = f"  {race.work / here / 1e9:.2f} {race.unit}" if race.work else ""
        print(f"{race.name:32} {here * 1e3:10.3f} {beside * 1e3:10.3f} {here / beside:7.2f}  {race.other}{rate}")


def races(checkout: Path, only: str) -> Iterator[Race]:
    draw = np.random.default_rng(0)
    for name, make in (("softmax", softmax), ("layer_norm", layer_norm), ("gemm", gemm), ("elementwise", elementwise)):
        if only in name:
            yield from make(checkout, draw)


def best(race: Race, turns: int) -> tuple[float, float]:
    """CPU seconds of one call of each, the least of all turns."""
    race.hosted()
    race.beside()
    times = [(cpu_seconds(race.hosted), cpu_seconds(race.beside)) for _ in range(turns)]
    return min(here for here, _ in times), min(beside for _, beside in times)


def cpu_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _file(checkout: Path, name: str, constants: Constants | None = None) -> Library:
    path = checkout / KERNELS / f"{name}.metal"
    source = frontend.source(path.read_text(), name=str(path), include_dirs=[checkout], constants=constants)
    return Library(frontend.module(source), source)


def softmax(checkout: Path, draw: np.random.Generator) -> Iterator[Race]:
    library = _file(checkout, "softmax")
    for rows, columns, name, group in (
        (4096, 1000, "block_softmax_float32", 256),
        (1024, 4096, "block_softmax_float32", 1024),
        (512, 8192, "looped_softmax_float32", 1024),
    ):
        x = torch.from_numpy(draw.standard_normal((rows, columns), dtype=np.float32))
        out = torch.empty_like(x)
        kernel = library[name]

        def hosted(kernel=kernel, out=out, x=x, rows=rows, group=group, columns=columns) -> None:
            kernel(x, out, np.int32(columns), threads=(rows * group,), group_size=(group,))

        hosted()
        torch.testing.assert_close(out, torch.softmax(x, -1))
        yield Race(
            f"{name} {rows}x{columns}", hosted, lambda x=x, out=out: torch.softmax(x, -1, out=out), "torch.softmax"
        )


def layer_norm(checkout: Path, draw: np.random.Generator) -> Iterator[Race]:
    kernel = _file(checkout, "rms_norm", {20: True})["rmsfloat32"]
    rows, columns, group = 4096, 1024, 256
    x = torch.from_numpy(draw.standard_normal((rows, columns), dtype=np.float32))
    weight, out = torch.ones(columns), torch.empty_like(x)

    def hosted() -> None:
        kernel(
            x,
            weight,
            out,
            np.float32(1e-5),
            np.uint32(columns),
            np.uint32(1),
            threads=(rows * group,),
            group_size=(group,),
        )

    def beside() -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, (columns,), weight, 1e-5)

    hosted()
    torch.testing.assert_close(out, beside())
    yield Race(f"rms_norm {rows}x{columns}", hosted, beside, "torch's rms_norm")


def gemm(checkout: Path, draw: np.random.Generator) -> Iterator[Race]:
    size, block, depth = 512, 64, 16
    constants: Constants = {10: False, 100: False, 110: False, 200: True, 201: True, 202: True}
    library = _file(checkout, "steel/gemm/kernels/steel_gemm_fused", constants)
    tiles = size // block
    parameters = packed("8i3q3i", *[size] * 6, tiles, tiles, 0, 0, 0, 0, size // depth, 1)
    for dtype in (torch.float32, torch.float16):
        word = str(dtype).removeprefix("torch.")
        kernel = library[f"steel_gemm_fused_nn_{word}_{word}_bm{block}_bn{block}_bk{depth}_wm2_wn2"]
        a, b = (torch.from_numpy(draw.standard_normal((size, size), dtype=np.float32)).to(dtype) for _ in range(2))
        out = torch.empty_like(a)

        def hosted(kernel=kernel, a=a, b=b, out=out) -> None:
            threads = (32 * tiles, 2 * tiles, 2)
            kernel(a, b, None, out, parameters, None, None, None, threads=threads, group_size=(32, 2, 2))

        hosted()
        torch.testing.assert_close(out, a @ b, rtol=2e-3, atol=2e-3)
        yield Race(
            f"steel_gemm {word} {size}^3", hosted, lambda a=a, b=b: a @ b, "torch's a @ b", 2.0 * size**3, "GFLOP/s"
        )


def elementwise(checkout: Path, draw: np.random.Generator) -> Iterator[Race]:
    source = frontend.source(ADD, name="chain.metal")
    kernel = Library(frontend.module(source), source).chain
    x, y = draw.standard_normal((2, 1 << 24), dtype=np.float32)
    out = np.empty_like(x)
    yield Race(
        f"elementwise {x.size}",
        lambda: kernel(out, x, y, threads=x.size, group_size=256),
        lambda: np.clip(x * y + np.float32(0.5), 0, 1, out=out),
        "NumPy's expression",
    )


if __name__ == "__main__":
    main()
