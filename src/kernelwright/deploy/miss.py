"""A graph that no proven kernel serves, noted so that `kernelwright optimize --misses` can work it off."""

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from kernelwright.archive import Archive
from kernelwright.errors import KernelwrightError
from kernelwright.graph import Capture
from kernelwright.problems import from_module
from kernelwright.records import RegionInput

_log = logging.getLogger("kernelwright")


def note_miss(
    archive: Archive, graph: fx.GraphModule, capture: Capture, example_inputs: Sequence[Any], device: str
) -> None:
    """Puts the graph into the archive as a problem. What cannot be one is only logged."""
    if any(isinstance(value, torch.SymInt) for value in example_inputs) or capture.mutations:
        _log.info("a graph was not served, and cannot be noted: its sizes are open, or it changes buffers")
        return
    module = _Whole(graph, capture, example_inputs)
    try:
        problem, _ = from_module(module, module.arguments(example_inputs), name="missed_graph")
    except KernelwrightError as error:
        _log.info("a graph was not served, and cannot be noted: %s", error)
        return
    archive.add_miss(problem, device, "no proven kernel has this region")
    _log.info("a graph was not served and is noted: kernelwright optimize --misses works it off")


class _Whole(nn.Module):
    """dynamo's graph with its weights as parameters again, so that its region is the one that will be looked up."""

    def __init__(self, graph: fx.GraphModule, capture: Capture, example_inputs: Sequence[Any]) -> None:
        super().__init__()
        self.__dict__["graph"] = graph
        self.sources: list[tuple[nn.Module, str] | int] = []
        borders = dict(zip(capture.positions, capture.inputs, strict=True))
        self.argument_places = []
        for place, value in enumerate(example_inputs):
            border = borders.get(place, RegionInput("argument", str(place)))
            if border.role == "argument":
                self.sources.append(len(self.argument_places))
                self.argument_places.append(place)
            else:
                self.sources.append(_hold(self, border, value))
        self.eval()

    def arguments(self, flat: Sequence[Any]) -> list[Any]:
        """Those of dynamo's flat inputs that are arguments."""
        return [flat[place] for place in self.argument_places]

    def forward(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        flat = [
            arguments[source] if isinstance(source, int) else getattr(source[0], source[1]) for source in self.sources
        ]
        return tuple(value for value in self.__dict__["graph"](*flat) if value is not None)


def _hold(root: nn.Module, border: RegionInput, value: Tensor) -> tuple[nn.Module, str]:
    """Registers the tensor under its dotted name and says where."""
    path, _, leaf = border.name.rpartition(".")
    owner = root
    for part in filter(None, path.split(".")):
        if part not in owner._modules:
            owner.add_module(part, nn.Module())
        owner = owner.get_submodule(part)
    if border.role == "parameter":
        owner.register_parameter(leaf, nn.Parameter(value.detach(), requires_grad=False))
    elif border.role == "buffer":
        owner.register_buffer(leaf, value.detach())
    else:
        setattr(owner, leaf, value.detach())
    return owner, leaf
