"""Linear maps as kernels of the template for products, on weights packed beforehand."""

from dataclasses import dataclass

from kernelwright.loops.epilogue import AS_IS, Epilogue, print_epilogue

LINEAR_TEMPLATE = "gemm"
"""The template (see filled.py) that must stand before these kernels."""

PANEL = 32
"""Packed weights are given room for whole panels of at most so many columns, whatever the machine's are."""


@dataclass(frozen=True)
class Linear:
    """x w^T + b over rows of float32 with what becomes of the sums, x and the result row-major, w packed with b.

    Its kernel takes out, x, the inputs that its epilogue reads, packed, then rows, columns and inner.
    """

    epilogue: Epilogue = AS_IS
    """Its places are the "row" and the "column" of the result and the "index" of its element."""
    note: str = ""
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
    """The kernel as C++, to stand after the template."""
    parameters = ["float* out", "const float* x", *linear.epilogue.parameters, "const float* packed"]
    parameters += ["int64 rows", "int64 columns", "int64 inner"]
    then = "gemm::Sum()"
    if linear.epilogue != AS_IS:
        then = print_epilogue(linear.epilogue, ("row", "column", "index"))
    return (
        f"// x w^T + b{linear.note and f', {linear.note}'}\n"
        f"kernel void {linear.name}({', '.join(parameters)}) {{\n"
        f"    gemm::map(out, x, packed, rows, columns, inner, {then});\n}}\n"
    )


def print_packed_weight(packed: PackedWeight) -> str:
    """The kernel as C++, to stand after the template."""
    parameters = ["float* packed", "const float* weight", *(["const float* bias"] if packed.bias else [])]
    parameters += ["int64 columns", "int64 inner", "int64 column_step", "int64 inner_step"]
    bias = "bias" if packed.bias else "static_cast<const float*>(nullptr)"
    return (
        f"// a weight as linear maps read it{', with its bias' if packed.bias else ''}\n"
        f"kernel void {packed.name}({', '.join(parameters)}) {{\n"
        f"    gemm::pack_weight(packed, weight, {bias}, columns, inner, column_step, inner_step);\n}}\n"
    )
