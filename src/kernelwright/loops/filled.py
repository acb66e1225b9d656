"""Kernels that no schedule of a plain nest gives: hand-tuned templates, filled in with types and sizes.

Each template is a file of templates/, a namespace of its own after the prelude. Its functions take the outputs' and
inputs' pointers and then sizes; a size that is known when the kernel is printed is written into the call, so that the
compiler sees it.
"""

from dataclasses import dataclass
from pathlib import Path

from kernelwright.loops.cpp import MEMORY
from kernelwright.loops.expressions import Size
from kernelwright.loops.types import ScalarType

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Filled:
    """A template's function with its arguments. The kernel takes outputs, inputs, then the sizes that have names."""

    template: str
    """The template's file, without its suffix."""
    call: str
    """The function and its compile-time arguments: "pooling::windows<float, pooling::Largest, 2, 2, 1>"."""
    outputs: tuple[ScalarType, ...]
    inputs: tuple[ScalarType, ...]
    sizes: tuple[Size, ...] = ()
    """In the order of the function's parameters; equal names are one parameter of the kernel."""
    note: str = ""
    name: str = ""


def print_filled(filled: Filled) -> str:
    """The kernel as C++, to stand after `filled_template(filled.template)`."""
    outputs = [f"out{number}" for number in range(len(filled.outputs))]
    inputs = [f"in{number}" for number in range(len(filled.inputs))]
    named = dict.fromkeys(size for size in filled.sizes if isinstance(size, str))
    parameters = [f"{MEMORY[type]}* {name}" for type, name in zip(filled.outputs, outputs, strict=True)]
    parameters += [f"const {MEMORY[type]}* {name}" for type, name in zip(filled.inputs, inputs, strict=True)]
    parameters += [f"int64 {name}" for name in named]
    arguments = [*outputs, *inputs, *map(str, filled.sizes)]
    note = "".join(f"// {line}\n" for line in filled.note.splitlines())
    return (
        f"{note}kernel void {filled.name}({', '.join(parameters)}) {{\n    {filled.call}({', '.join(arguments)});\n}}\n"
    )


def filled_template(name: str) -> str:
    """What all kernels of a template share in a file."""
    return (TEMPLATES / f"{name}.hpp").read_text()
