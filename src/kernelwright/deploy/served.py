"""A proven kernel in the place of a captured graph: which input is which weight or argument, which result is which."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from kernelwright.deploy.binding import Binding, instantiate
from kernelwright.deploy.contract import Contract
from kernelwright.graph import Capture, capture_problem, distinct_outputs, identify
from kernelwright.graph.node import example_size, is_contiguous
from kernelwright.records import Entry, Problem, flatten, unflatten

Flat = Callable[..., Sequence[Tensor]]
"""Takes a capture's flat inputs and gives its flat results."""


class Served:
    """Answers calls of `capture`, whose region is that of `problem`, with the entry's kernel.

    Takes the capture's placeholders in their order and returns its results in theirs. Weights come with every call,
    so that a replaced or updated one is seen. `applies` tells whether a call is inside the problem's ranges.
    """

    def __init__(self, capture: Capture, problem: Problem, entry: Entry) -> None:
        assert problem.region is not None
        self.problem, self.entry = problem, entry
        self.title = f"{entry.candidate.title} for {problem.name}"
        places = {border: index for index, border in enumerate(capture.inputs)}
        there = {
            (border.role, border.name): places[here]
            for border, here in zip(problem.region.inputs, identify(capture).inputs, strict=True)
        }
        self.open = problem.dynamic or identify(capture).dynamic_text is not None
        """Whether calls of other sizes may come, so that `applies` has to be asked."""
        self._kernel = Binding(module := instantiate(problem, entry.candidate))
        self._weights = _weight_places(module, self._kernel.names, there)
        self._leaves = _leaf_places(problem, there)
        self._contract = Contract(problem.signature, problem.numerics)
        self._results = _result_places(capture, problem)
        self._strides = _strides(capture, self.open)

    def applies(self, values: Sequence[Tensor]) -> bool:
        """Whether the kernel was proven for these inputs. Sizes alone are asked: the rest is in the region."""
        return not self.open or self._contract.fits(self._arguments(values))

    def __call__(self, *values: Tensor) -> list[Tensor]:
        self._kernel.refresh([values[place] if isinstance(place, int) else place for place in self._weights])
        call = unflatten(self.problem.signature.arguments, self._arguments(values))
        with torch.no_grad():
            found, _ = flatten(self._kernel.module(*call["args"], **call["kwargs"]), _is_tensor)
        return [
            _restrided(found[place], strides) if isinstance(place, int) else values[place.index]
            for place, strides in zip(self._results, self._strides, strict=True)
        ]

    def _arguments(self, values: Sequence[Tensor]) -> list[Tensor]:
        return [values[place] if isinstance(place, int) else place for place in self._leaves]


class _Input:
    """A result that is an input of the graph as it came."""

    def __init__(self, index: int) -> None:
        self.index = index


def _weight_places(
    module: torch.nn.Module, names: Sequence[str], there: Mapping[tuple[str, str], int]
) -> list[int | Tensor]:
    """For each weight the place it comes from; one that the graph never reads keeps the module's own tensor."""
    own = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    by_tensor = {id(own[name]): place for (role, name), place in there.items() if role in ("parameter", "buffer")}
    return [by_tensor.get(id(own[name]), own[name]) for name in names]


def _leaf_places(problem: Problem, there: Mapping[tuple[str, str], int]) -> list[int | Tensor]:
    """For each leaf of the call the place it comes from; one that the graph never reads is a tensor of zeros."""
    places: list[int | Tensor] = []
    for index, spec in enumerate(problem.signature.tensors):
        if spec.alias_of is not None:
            places.append(places[spec.alias_of])
        else:
            unread = torch.zeros(spec.example_shape, dtype=getattr(torch, spec.dtype))
            places.append(there.get(("argument", str(index)), unread))
    return places


def _result_places(capture: Capture, problem: Problem) -> list["int | _Input"]:
    """For each result of the graph the leaf of the kernel's result that it is, or the input that it is."""
    nodes: Any = capture.graph.graph.output_node().args[0]
    inputs = {place: index for index, place in enumerate(capture.graph.graph.find_nodes(op="placeholder"))}
    slots = distinct_outputs(capture)
    leaves = dict(zip((nodes[index] for index in slots), distinct_outputs(capture_problem(problem)), strict=True))
    return [_Input(inputs[node]) if node in inputs else leaves[node] for node in nodes[: capture.result_count]]


def _strides(capture: Capture, open: bool) -> list[tuple[int, ...] | str]:
    """The strides that whoever called the graph expects of each result; "contiguous" or "any" for open sizes."""
    nodes: Any = capture.graph.graph.output_node().args[0]
    values = [node.meta["val"] for node in nodes[: capture.result_count]]
    if not open:
        return [tuple(map(example_size, value.stride())) for value in values]
    return ["contiguous" if is_contiguous(value) else "any" for value in values]


def _restrided(result: Tensor, strides: tuple[int, ...] | str) -> Tensor:
    """Copies on the canonical form's outputs are no part of a region, so the layout they gave is given here."""
    if isinstance(strides, str):
        return result.contiguous() if strides == "contiguous" else result
    if result.stride() == strides or result.numel() == 0:
        return result
    return torch.empty_strided(result.shape, strides, dtype=result.dtype, device=result.device).copy_(result)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)
