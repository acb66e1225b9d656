"""Which operators hand-tuned templates do (see lower_filled.py)."""

from typing import Any

from kernelwright.graph.lower_convolution import CONVOLUTIONS
from kernelwright.graph.lower_depthwise import DEPTHWISE
from kernelwright.graph.lower_extreme import EXTREMES
from kernelwright.graph.lower_filled import Maker
from kernelwright.graph.lower_pooling import POOLING
from kernelwright.graph.lower_scan import SCANS

FILLED: dict[Any, Maker] = POOLING | SCANS | EXTREMES | DEPTHWISE
CONVOLVED: dict[Any, Maker] = FILLED | {
    target: lambda node, make=make: DEPTHWISE[node.target](node) or make(node) for target, make in CONVOLUTIONS.items()
}
"""With convolutions other than depthwise ones."""
