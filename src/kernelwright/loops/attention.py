"""Attention as a kernel: a hand-tuned template, since no schedule of a plain nest gives an online softmax."""

from dataclasses import dataclass
from pathlib import Path

TEMPLATE = Path(__file__).parent / "templates" / "attention.hpp"

LARGEST_HEAD = 256
"""Components of a query or value; the working memory of a task stays within the second-level cache."""


@dataclass(frozen=True)
class Attention:
    """softmax(scale q k^T + mask) v over (batch, head, row, component) float32 tensors whose components are adjacent.

    Its kernel takes out, q, k, v and a mask if there is one; for each of the first four the offset and the distances
    of batches, heads and rows in elements; for a mask those, and the distance of keys; then batches, heads, how many
    heads share one of k and v, queries, keys and the scale.
    """

    head: int
    """Components of a query and of a key."""
    value: int
    """Components of a value and of a result."""
    causal: bool = False
    """Whether a query sees the keys up to its own place only, both counted from the first."""
    mask: str = ""
    """What there is besides: "" nothing, "added" float32 to add, "kept" a bool for each score that is not hidden."""
    name: str = ""


_MASKS = {"added": "float", "kept": "uint8"}


def print_attention(attention: Attention) -> str:
    """The kernel as C++, to stand after `attention_template()`."""
    tensors = ("out", "q", "k", "v")
    parts = {tensor: [f"{tensor}_{part}" for part in ("offset", "batch", "head", "row")] for tensor in tensors}
    parameters = ["float* out", "const float* q", "const float* k", "const float* v"]
    masks = "attention::NoMaskLayout{}"
    if attention.mask:
        element = _MASKS[attention.mask]
        parameters.append(f"const {element}* mask")
        parts["mask"] = [f"mask_{part}" for part in ("offset", "batch", "head", "row", "key")]
        masks = f"attention::MaskLayout<{element}>{{mask, {', '.join(parts['mask'])}}}"
    sizes = [name for names in parts.values() for name in names]
    parameters += [f"int64 {name}" for name in (*sizes, "batches", "heads", "shared", "queries", "keys")]
    parameters += ["double scale"]
    passed = [f"{tensor}, {{{', '.join(parts[tensor])}}}" for tensor in tensors]
    causal = "true" if attention.causal else "false"
    words = [f"attention over heads of {attention.head}", *(["causal"] if attention.causal else [])]
    words += [f"mask {attention.mask}"] if attention.mask else []
    return (
        f"// {', '.join(words)}\n"
        f"kernel void {attention.name}({', '.join(parameters)}) {{\n"
        f"    attention::run<{attention.head}, {attention.value}, {causal}>({', '.join(passed)}, {masks}, "
        "batches, heads, shared, queries, keys, scale);\n}\n"
    )


def attention_template() -> str:
    """What all attention kernels of a file share."""
    return TEMPLATE.read_text()
