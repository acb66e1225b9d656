"""Repositories that kernels are taken from, and how their files are compiled."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from metal_cases import candle, ggml, mlx
from metal_cases.case import Case


@dataclass(frozen=True)
class Corpus:
    """`files` are patterns below a checkout, `includes` folders in it, `left_out` words in names of files that need
    textures or Metal 4's tensors, with the reason."""

    repository: str
    files: tuple[str, ...]
    includes: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    cases: Callable[[np.random.Generator], Iterator[Case]] = lambda draw: iter(())


CORPORA = {
    "mlx": Corpus(
        "ml-explore/mlx",
        ("mlx/backend/metal/kernels/**/*.metal", "examples/**/*.metal"),
        (".",),
        (("nax", "MetalPerformancePrimitives"),),
        mlx.cases,
    ),
    "candle": Corpus("huggingface/candle", ("candle-metal-kernels/src/metal_src/*.metal",), cases=candle.cases),
    "ggml": Corpus(
        "ggml-org/ggml", ("src/ggml-metal/*.metal",), ("src/ggml-metal", "src", "include"), cases=ggml.cases
    ),
}
