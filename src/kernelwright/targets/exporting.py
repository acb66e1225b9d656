"""Exports a reference to ONNX, as a process of its own: `python -m kernelwright.targets.exporting`.

As `ahead`, whose orders it takes: it leaves `model.onnx` and `model.json` in the order's folder.
"""

# onnx is an extra, and the check runs without it.
# pyright: reportMissingImports=false

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright.errors import MissingError
from kernelwright.targets import ahead

GRAPH = "model.onnx"


@dataclass(frozen=True)
class Exported:
    """What a caller of the graph must know."""

    output: str
    """records.nest template of the results over the graph's outputs."""
    weights: tuple[str, ...]
    """The initializers that are the module's parameters and buffers, by their names there after ahead.PREFIX. The graph
    has no values for them; what else a module holds is in it as it was exported."""


def export_reference(order: ahead.Order) -> Exported:
    """Exports the reference of `order` into its folder. Raises MissingError for what ONNX or its exporter lacks."""
    import torch

    with ahead.capture(order) as captured:
        try:
            exported = torch.onnx.export(captured.program, dynamo=True, optimize=False, verbose=False)
        except torch.onnx.OnnxExporterError as error:
            raise MissingError(_first_cause(error)) from error
    assert exported is not None and exported.exported_program is not None
    _refuse_changes(exported.exported_program.graph_signature)
    inputs = len(exported.model.graph.inputs)
    if inputs != len(captured.leaves):
        raise MissingError(f"of its {len(captured.leaves)} inputs {inputs} are left in the graph")
    weights = tuple(name for name in exported.model.graph.initializers if name in captured.program.state_dict)
    _simplify(exported, weights)
    _save(exported.model, weights, Path(order.folder) / GRAPH)
    return Exported(captured.output, weights)


def _simplify(exported: Any, weights: Sequence[str]) -> None:
    """What the exporter does by default, without a look at the weights: it would leave out a bias that is zero today.
    Whoever has their values folds them."""
    graph = exported.model.graph
    count = len(graph.inputs)
    values = [graph.initializers.pop(name) for name in weights]
    known = [value.const_value for value in values]
    for value in values:
        value.const_value = None
    graph.inputs.extend(values)
    exported.optimize()
    graph = exported.model.graph
    values = list(graph.inputs[count:])
    del graph.inputs[count:]
    for value, const in zip(values, known, strict=True):
        value.const_value = const
        graph.register_initializer(value)


def _refuse_changes(signature: Any) -> None:
    changed = {**signature.buffers_to_mutate, **signature.user_inputs_to_mutate}
    if changed:
        names = ", ".join(sorted(name.removeprefix(ahead.PREFIX) for name in changed.values()))
        raise MissingError(f"each call changes {names}, which an ONNX graph cannot")


def _first_cause(error: BaseException) -> str:
    """What the exporter's long report goes back to."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"


def _save(model: Any, weights: Sequence[str], path: Path) -> None:
    """Writes the graph without the weights' values."""
    import onnx
    import onnx_ir

    graph = onnx_ir.to_proto(model)
    for tensor in graph.graph.initializer:
        if tensor.name in weights:
            tensor.ClearField("raw_data")
    onnx.save_model(graph, str(path))


if __name__ == "__main__":
    sys.exit(ahead.serve(export_reference))
