"""A module or its text as a functional core-ATen graph: identity, rewrites, pieces, and text again."""

from typing import TYPE_CHECKING

from kernelwright.plugins import lazy

if TYPE_CHECKING:
    from kernelwright.graph.captured import Capture as Capture
    from kernelwright.graph.captured import State as State
    from kernelwright.graph.capturing import agrees as agrees
    from kernelwright.graph.capturing import capture as capture
    from kernelwright.graph.capturing import capture_problem as capture_problem
    from kernelwright.graph.dynamo_road import capture_dynamo as capture_dynamo
    from kernelwright.graph.identity import distinct_outputs as distinct_outputs
    from kernelwright.graph.identity import fit as fit
    from kernelwright.graph.identity import identify as identify
    from kernelwright.graph.identity import specialise as specialise
    from kernelwright.graph.kernel_call import KernelCall as KernelCall
    from kernelwright.graph.kernel_call import PieceCall as PieceCall
    from kernelwright.graph.partitioning import partition as partition
    from kernelwright.graph.pieces import Piece as Piece
    from kernelwright.graph.printing import print_module as print_module
    from kernelwright.graph.reference import build_reference as build_reference
    from kernelwright.graph.reference import example_arguments as example_arguments
    from kernelwright.graph.reference import load_text as load_text
    from kernelwright.graph.rewriting import CAUSAL as CAUSAL
    from kernelwright.graph.rewriting import RULES as RULES
    from kernelwright.graph.rewriting import Rewriting as Rewriting
    from kernelwright.graph.rewriting import Rule as Rule
    from kernelwright.graph.rewriting import rewrite as rewrite
    from kernelwright.graph.stitching import stitch as stitch

__all__ = [
    "CAUSAL",
    "Capture",
    "KernelCall",
    "Piece",
    "PieceCall",
    "RULES",
    "Rewriting",
    "Rule",
    "State",
    "agrees",
    "build_reference",
    "capture",
    "capture_dynamo",
    "capture_problem",
    "distinct_outputs",
    "example_arguments",
    "fit",
    "identify",
    "load_text",
    "partition",
    "print_module",
    "rewrite",
    "specialise",
    "stitch",
]

__getattr__ = lazy(
    __name__,
    {
        "CAUSAL": "rewriting",
        "Capture": "captured",
        "KernelCall": "kernel_call",
        "Piece": "pieces",
        "PieceCall": "kernel_call",
        "RULES": "rewriting",
        "Rewriting": "rewriting",
        "Rule": "rewriting",
        "State": "captured",
        "agrees": "capturing",
        "build_reference": "reference",
        "capture": "capturing",
        "capture_dynamo": "dynamo_road",
        "capture_problem": "capturing",
        "distinct_outputs": "identity",
        "example_arguments": "reference",
        "fit": "identity",
        "identify": "identity",
        "load_text": "reference",
        "partition": "partitioning",
        "print_module": "printing",
        "rewrite": "rewriting",
        "specialise": "identity",
        "stitch": "stitching",
    },
)
