"""The graph that dynamo hands to a backend, through the same funnel as a module."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from kernelwright.errors import CaptureError
from kernelwright.graph.captured import Capture
from kernelwright.graph.capturing import finish
from kernelwright.graph.funnel import trace
from kernelwright.records import RegionInput, flatten

_HELD = re.compile(r"\._(parameters|buffers)\['([^']*)'\]$")
_STEP = re.compile(r"\._modules\['([^']*)'\]|\.([A-Za-z_]\w*)")


def capture_dynamo(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Capture:
    """The functional graph of what dynamo gives a backend: `graph` and the flat inputs it will be called with.

    Inputs of the role "argument" are named by their place among `example_inputs`; `Capture.positions` has that
    place for weights too. The outputs are a flat list. Raises CaptureError.
    """
    places = list(graph.graph.find_nodes(op="placeholder"))
    values = [place.meta.get("example_value", given) for place, given in zip(places, example_inputs, strict=True)]
    mode = detect_fake_mode(values) or FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    fakes = [_without_gradient(value, mode) for value in values]
    held = dict(graph.named_parameters(remove_duplicate=False)) | dict(graph.named_buffers(remove_duplicate=False))
    borders: list[tuple[RegionInput, int | None]] = []
    attributes: dict[str, Tensor] = {}
    for index, place in enumerate(places):
        border = _border(place, index)
        borders.append((border, index))
        if border.role == "constant":
            attributes[border.name] = example_inputs[index]
    attributes |= {name: value for name, value in held.items() if not isinstance(value, torch.nn.Parameter)}
    plain = _gradient_mode_ignored(graph)

    def function(*inputs: Any) -> tuple[Tensor, ...]:
        outputs = plain(*inputs)
        if not all(isinstance(value, Tensor) or value is None for value in outputs):
            raise CaptureError("the graph returns sizes beside tensors")
        return tuple(value for value in outputs if value is not None)

    allowed = mode.allow_non_fake_inputs
    mode.allow_non_fake_inputs = True
    try:
        traced, mutated = trace(function, fakes)
    except CaptureError:
        raise
    except Exception as error:  # torch's tracing may raise anything
        raise CaptureError(f"dynamo's graph cannot be captured: {type(error).__name__}: {error}") from error
    finally:
        mode.allow_non_fake_inputs = allowed
    traced_places = traced.graph.find_nodes(op="placeholder")
    names = {place.name: border for place, (border, _) in zip(traced_places, borders, strict=True)}
    if any(names[name].role == "argument" for name in mutated):
        raise CaptureError("the graph changes an argument in place")
    taken = finish(traced, borders, len(mutated), attributes)
    count = taken.result_count - len(mutated)
    _, template = flatten([torch.empty(0)] * count, lambda value: isinstance(value, Tensor))
    return replace(taken, output_template=template, mutations=tuple(names[name].name for name in mutated))


def _border(place: fx.Node, index: int) -> RegionInput:
    """What an input stands for, read from the source dynamo notes on it."""
    source = getattr(place, "_dynamo_source", None)
    if source is None:
        return RegionInput("argument", str(index))
    name = source.name if isinstance(source.name, str) else source.name()
    match = _HELD.search(name)
    if match:
        role = "parameter" if match[1] == "parameters" else "buffer"
        return RegionInput(role, ".".join([*_path(name[: match.start()]), match[2]]))
    kind = str(source.guard_source)
    if "NN_MODULE" in kind or "GLOBAL" in kind:
        return RegionInput("constant", ".".join(_path(name)) or name)
    return RegionInput("argument", str(index))


def _path(name: str) -> list[str]:
    """Dotted parts below the root of a source: "L['self']._modules['q'].c" gives q, c."""
    below = name[name.index("]") + 1 :] if "]" in name else name
    return [match[1] or match[2] for match in _STEP.finditer(below)]


def _without_gradient(value: Any, mode: FakeTensorMode) -> Any:
    if not isinstance(value, Tensor):
        return value
    with mode:
        if isinstance(value, torch._subclasses.FakeTensor):
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
        return mode.from_tensor(value.detach(), static_shapes=True)


def _gradient_mode_ignored(graph: fx.GraphModule) -> fx.GraphModule:
    """A copy without the nodes that switch gradients on and off: the funnel runs without them anyway."""
    switches = [node for node in graph.graph.nodes if node.target is torch._C._set_grad_enabled]
    if not switches:
        return graph
    copied = fx.GraphModule(graph, fx.Graph())
    mapped: dict[fx.Node, fx.Node] = {}
    output = copied.graph.graph_copy(graph.graph, mapped)
    copied.graph.output(output)
    for node in switches:
        copied.graph.erase_node(mapped[node])
    copied.recompile()
    return copied
