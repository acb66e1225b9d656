"""A whole module whose pieces are served by candidates found for them."""

import operator
import re
from collections.abc import Mapping, Sequence

from torch import fx
from torch.fx.node import Node

from kernelwright.graph.captured import Capture
from kernelwright.graph.kernel_call import PieceCall
from kernelwright.graph.pieces import Piece
from kernelwright.graph.printing import ModuleText
from kernelwright.graph.rewriting import copy_graph, with_graph
from kernelwright.records import Candidate, SourceFile


def stitch(
    whole: Capture, pieces: Sequence[Piece], served: Mapping[str, Candidate], reference: str
) -> tuple[SourceFile, ...]:
    """The sources of a candidate for the whole: model.py with ModelNew, reference.py, and the pieces' files renamed.

    `served` maps region digests to candidates for Piece.problem. Every piece with such a region is served, the other
    calls are written out. A serving module is built once a piece; its parameters and buffers are the whole's own,
    so that ties, changes in place and load_state_dict reach it. `prepare()` binds them anew and is passed on.
    """
    chosen = [piece for piece in pieces if piece.region.digest in served]
    used = dict.fromkeys(piece.region.digest for piece in chosen)
    labels = {digest: f"piece{index}" for index, digest in enumerate(used)}
    graph, nodes = copy_graph(whole.graph)
    for index, piece in enumerate(chosen):
        _replace(graph.graph, piece, nodes, PieceCall(f"self.pieces[{index}]"))
    text = _StitchedText(with_graph(whole, graph, nodes), chosen, labels, served).text()
    files = [SourceFile("model.py", text), SourceFile("reference.py", reference)]
    for digest, label in labels.items():
        files += _renamed(served[digest], label)
    return tuple(files)


class _StitchedText(ModuleText):
    def __init__(
        self, capture: Capture, chosen: Sequence[Piece], labels: Mapping[str, str], served: Mapping[str, Candidate]
    ) -> None:
        super().__init__(capture, "ModelNew", "Model", "kernels.cpp", "cpp")
        self.chosen, self.labels, self.served = chosen, labels, served

    def imported(self) -> list[str]:
        lines = []
        for digest, label in self.labels.items():
            stem = self.served[digest].sources[0].path.removesuffix(".py")
            lines.append(f"from {label}_{stem} import {self.served[digest].entry} as {label.capitalize()}")
        return lines

    def constructed(self) -> list[str]:
        return [
            "# In a tuple, so that they are no submodules: their weights are this module's own.",
            "self.pieces = (",
            *(f"    {self.labels[piece.region.digest].capitalize()}().eval()," for piece in self.chosen),
            ")",
            "self.bind()",
        ]

    def methods(self) -> list[list[str]]:
        bind = ["def bind(self):", '    """Gives the pieces the weights of this module."""']
        for index, piece in enumerate(self.chosen):
            bind.append(f"    piece = self.pieces[{index}]")
            bind += [f"    piece.{name} = {self.addresses[theirs]}" for name, theirs in piece.weights.items()]
        prepare = [
            "def prepare(self):",
            "    self.bind()",
            "    for piece in self.pieces:",
            '        if hasattr(piece, "prepare"):',
            "            piece.prepare()",
        ]
        return [bind, prepare]


def _replace(graph: fx.Graph, piece: Piece, nodes: dict[Node, Node], call: PieceCall) -> None:
    """Puts one call in the place of the piece's calls, and in `nodes` its results in the place of theirs."""
    inside = [nodes[node] for node in piece.nodes]
    order = {node: place for place, node in enumerate(graph.nodes)}
    with graph.inserting_after(max(inside, key=order.__getitem__)):
        served = graph.call_function(call, tuple(nodes[node] for node in piece.arguments))
    results = [nodes[node] for node in piece.results]
    values = tuple(result.meta["val"] for result in results)
    served.meta["val"] = values[0] if len(values) == 1 else values
    given = [served]
    if len(results) > 1:
        given, place = [], served
        for index, value in enumerate(values):
            with graph.inserting_after(place):
                place = graph.call_function(operator.getitem, (served, index))
            place.meta["val"] = value
            given.append(place)
    for result, other in zip(results, given, strict=True):
        result.replace_all_uses_with(other, delete_user_cb=lambda user: user not in inside)
    for node in reversed(inside):
        graph.erase_node(node)
    nodes.update(zip(piece.results, given, strict=True))


def _renamed(candidate: Candidate, label: str) -> list[SourceFile]:
    """The candidate's files under names of their own, and what they say of one another changed accordingly."""
    stems = [file.path.removesuffix(".py") for file in candidate.sources if file.path.endswith(".py")]
    files = []
    for file in candidate.sources:
        text = file.text
        if file.path.endswith(".py"):
            for stem in stems:
                text = re.sub(rf"^(\s*)from {stem} import ", rf"\1from {label}_{stem} import ", text, flags=re.M)
                text = re.sub(rf"^(\s*)import {stem}$", rf"\1import {label}_{stem} as {stem}", text, flags=re.M)
            for other in candidate.sources:
                text = re.sub(rf"([\"']){re.escape(other.path)}\1", rf"\1{label}_{other.path}\1", text)
        files.append(SourceFile(f"{label}_{file.path}", text))
    return files
