"""Attention as a kernel: a hand-tuned template, since no schedule of a plain nest gives an online softmax."""

from dataclasses import dataclass
from pathlib import Path

TEMPLATE = Path(__file__).parent / "templates" / "attention.hpp"

LARGEST_HEAD = 256
"""Components of a query or value; the working memory of a task stays within the second-level cache."""


@dataclass(frozen=True)
class Attention:
    """softmax(scale q k^T) v over (batch, head, row, component) tensors of float32 whose components are adjacent.

    Its kernel takes out, q, k, v, for each of them the offset and the distances of batches, heads and rows in
    elements, then batches, heads, queries, keys and the scale.
    """

    head: int
    """Components of a query and of a key."""
    value: int
    """Components of a value and of a result."""
    causal: bool = False
    """Whether a query sees the keys up to its own place only, both counted from the first."""
    name: str = ""


def print_attention(attention: Attention) -> str:
    """The kernel as C++, to stand after `attention_template()`."""
    layouts = ("out", "q", "k", "v")
    parts = ("offset", "batch", "head", "row")
    sizes = [f"{layout}_{part}" for layout in layouts for part in parts]
    parameters = ["float* out", "const float* q", "const float* k", "const float* v"]
    parameters += [f"int64 {name}" for name in (*sizes, "batches", "heads", "queries", "keys")]
    parameters += ["double scale"]
    passed = [f"{layout}, {{{', '.join(f'{layout}_{part}' for part in parts)}}}" for layout in layouts]
    causal = "true" if attention.causal else "false"
    return (
        f"// attention over heads of {attention.head}{', causal' if attention.causal else ''}\n"
        f"kernel void {attention.name}({', '.join(parameters)}) {{\n"
        f"    attention::run<{attention.head}, {attention.value}, {causal}>({', '.join(passed)}, "
        "batches, heads, queries, keys, scale);\n}\n"
    )


def attention_template() -> str:
    """What all attention kernels of a file share."""
    return TEMPLATE.read_text()
