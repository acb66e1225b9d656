"""Recurrent layers as kernels of a template: what is left of them once the inputs' part of all steps is one product."""

from kernelwright.loops.expressions import Size
from kernelwright.loops.filled import Filled
from kernelwright.loops.types import ScalarType

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
"""The cells, with the number of their gates."""
TILE = 16
"""Packed weights are given room for whole tiles of so many hidden numbers, whatever the machine's are."""


def recurrent(
    cell: str, reversed: bool, sizes: tuple[Size, Size, Size], name: str = "", *, bias: bool = True
) -> Filled:
    """The kernel of a layer of so many steps, rows of the batch and hidden numbers.

    It takes out, last (the hidden state) and of an LSTM kept (the cell's), then the inputs' part of the gates, the
    states before the first step, with `bias` the hidden state's bias, and the weights of `packed_recurrent`.
    """
    states = 2 if cell == "lstm" else 1
    call = f"recurrent::run<recurrent::{cell.capitalize()}, {'true' if reversed else 'false'}>"
    made, given = ((ScalarType.FLOAT32,) * count for count in (1 + states, 2 + states + bias))
    return Filled("recurrent", call, made, given, sizes, f"{cell}, step by step", name)


def packed_recurrent(cell: str, hidden: Size, name: str = "") -> Filled:
    """The kernel that packs a hidden state's weights [gates * hidden, hidden]: it takes packed and weights."""
    one = (ScalarType.FLOAT32,)
    call = f"recurrent::pack<{GATES[cell]}>"
    return Filled("recurrent", call, one, one, (hidden,), "weights of a recurrent layer, packed", name)


def recurrent_weights(cell: str, hidden: int) -> int:
    """How many float32 the packed weights are."""
    return -(-hidden // TILE) * TILE * hidden * GATES[cell]
