"""What a captured computation is: a graph and what its borders stand for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor, fx

from kernelwright.graph.node import output_of
from kernelwright.records import RegionInput


@dataclass(frozen=True)
class State:
    """A parameter or buffer of a captured module."""

    name: str
    """Dotted, as in the state_dict."""
    value: Tensor
    """Fake: dtype, shape and stride without memory."""
    parameter: bool
    persistent: bool
    tied_to: str
    """The name of the earlier state that is the very same tensor; empty for none."""
    content: Tensor | None = None
    """The real values of a buffer that the state_dict leaves out."""


@dataclass(frozen=True)
class Capture:
    """A computation as a functional core-ATen graph in canonical form, and what its borders stand for.

    Placeholders are tensors. The output is a flat tuple: the leaves of the result, then the new values of the
    mutated buffers. Every node carries a fake tensor (or symbolic size) in `meta["val"]`; the graph has no get_attr
    nodes: what the module held as plain tensors are inputs of the role "constant".
    """

    graph: fx.GraphModule
    inputs: tuple[RegionInput, ...]
    """What each placeholder stands for."""
    positions: tuple[int | None, ...]
    """For each placeholder its place among the call's leaves (or among dynamo's flat inputs); None: not passed."""
    constants: dict[str, Tensor]
    """Values of the inputs of the role "constant": by the dotted name of the module's attribute, else "#0", "#1"..."""
    output_template: str
    """The result as a records.nest template over the output's leaves."""
    arguments: str = ""
    """The call as a records.nest template, as in Signature.arguments. Empty for a graph of dynamo's."""
    parameter_names: tuple[str, ...] = ()
    """Names of forward's positional parameters, for those that the call passes by position."""
    state: tuple[State, ...] = ()
    """All parameters and buffers of the module, used or not, in state_dict order."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """For every state and named constant the expression that reaches it: "self.layers[0].weight"."""
    mutations: tuple[str, ...] = ()
    """Buffers given new values by a call. Such a capture serves training; writers refuse it."""
    output_class: str = ""
    """"module:name" of a dict or tuple subclass that the result is to be built as; empty for plain containers."""

    @property
    def result_count(self) -> int:
        """How many of the outputs are leaves of the result; the rest are mutations."""
        return len(output_of(self.graph.graph).args[0]) - len(self.mutations)  # type: ignore[arg-type]
