"""Linear maps as kernels: a hand-tuned template, since no schedule of a plain nest keeps its sums in registers."""

from dataclasses import dataclass
from pathlib import Path

TEMPLATE = Path(__file__).parent / "templates" / "linear.hpp"

PANEL = 32
"""Packed weights are given room for whole panels of at most so many columns, whatever the machine's are."""


@dataclass(frozen=True)
class Linear:
    """x w^T + b over rows of float32, x and the result row-major, w packed together with b.

    Its kernel takes out, x, packed, then rows, columns and inner.
    """

    name: str = ""


@dataclass(frozen=True)
class PackedWeight:
    """What `Linear` reads, made from a weight and perhaps a bias.

    Its kernel takes packed, weight, bias if `bias`, then columns, inner and in elements the distances of two columns'
    and of two components' weights.
    """

    bias: bool
    name: str = ""


def packed_elements(columns: int, inner: int) -> int:
    """How many float32 a packed weight is."""
    return -(-columns // PANEL) * PANEL * (1 + inner)


def print_linear(linear: Linear) -> str:
    """The kernel as C++, to stand after `linear_template()`."""
    parameters = "float* out, const float* x, const float* packed, int64 rows, int64 columns, int64 inner"
    return (
        f"// x w^T + b\nkernel void {linear.name}({parameters}) {{\n"
        "    linear_maps::run(out, x, packed, rows, columns, inner);\n}\n"
    )


def print_packed_weight(packed: PackedWeight) -> str:
    """The kernel as C++, to stand after `linear_template()`."""
    parameters = ["float* packed", "const float* weight", *(["const float* bias"] if packed.bias else [])]
    parameters += ["int64 columns", "int64 inner", "int64 column_step", "int64 inner_step"]
    bias = "bias" if packed.bias else "nullptr"
    return (
        f"// a weight as linear maps read it{', with its bias' if packed.bias else ''}\n"
        f"kernel void {packed.name}({', '.join(parameters)}) {{\n"
        f"    linear_maps::pack(packed, weight, {bias}, columns, inner, column_step, inner_step);\n}}\n"
    )


def linear_template() -> str:
    """What all linear maps of a file share."""
    return TEMPLATE.read_text()
