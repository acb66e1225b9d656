"""The user's text in the one form that the house speaks: `Model`, `get_init_inputs()`, `get_inputs()`."""

import ast
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch

from kernelwright.errors import ProblemError, UnknownNameError
from kernelwright.problems.sources import Reference
from kernelwright.problems.specs import GRAMMAR, get_inputs_text
from kernelwright.records import TensorSpec, flatten


def to_dialect(reference: Reference, specs: Sequence[TensorSpec], override: bool = False) -> str:
    """The reference's text with what the dialect wants added below: an alias `Model`, missing functions.

    `get_inputs` is written from `specs` where the file has none, or where `override` asks for it. Raises ProblemError
    for text that does not parse and for a file without inputs, UnknownNameError for a class that is not there.
    """
    classes, functions = _defined(reference)
    if reference.entry not in classes:
        raise UnknownNameError(f"class in {reference.path}", reference.entry, classes)
    text = reference.text.rstrip("\n") + "\n"
    if reference.entry != "Model":
        text += f"\n\nModel = {reference.entry}\n"
    if "get_init_inputs" not in functions:
        text += "\n\ndef get_init_inputs():\n    return []\n"
    if specs and (override or "get_inputs" not in functions):
        text += get_inputs_text(specs)
    elif "get_inputs" not in functions:
        raise ProblemError(
            f"{reference.path} defines no get_inputs(), so nothing says what {reference.entry} is called with; "
            f"add one that returns a list of tensors, or give --input: {GRAMMAR}"
        )
    return text


def _defined(reference: Reference) -> tuple[list[str], set[str]]:
    """Names that a module level defines as classes (or imports), and its functions."""
    try:
        tree = ast.parse(reference.text, reference.path)
    except SyntaxError as error:
        raise ProblemError(f"{reference.path} does not parse: {error.msg} (line {error.lineno})") from error
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = {alias.asname or alias.name for alias in node.names}
            functions |= names & {"get_inputs", "get_init_inputs"}
            classes += [reference.entry] if reference.entry in names else []
        if isinstance(node, ast.Assign):
            classes += [name.id for name in node.targets if isinstance(name, ast.Name) and name.id == reference.entry]
    return classes, functions


def call_inputs(module: ModuleType) -> tuple[list[torch.Tensor], str, dict[str, Any]]:
    """The leaves of what `get_inputs` returns, their template, and the call as {"args": [...], "kwargs": {...}}.

    A dict stands for keyword arguments, a lone tensor for one argument. Raises ProblemError for what cannot cross.
    """
    given = module.get_inputs()
    if isinstance(given, dict):
        call = {"args": [], "kwargs": given}
    elif isinstance(given, torch.Tensor):
        call = {"args": [given], "kwargs": {}}
    elif isinstance(given, (list, tuple)):
        call = {"args": list(given), "kwargs": {}}
    else:
        raise ProblemError(f"get_inputs() returns a {type(given).__name__}; a list of arguments is expected")
    leaves, template = flatten_call(call)
    return leaves, template, call


def flatten_call(call: dict[str, Any]) -> tuple[list[torch.Tensor], str]:
    """Leaves and template of a call. Raises ProblemError that names the argument that cannot cross."""
    try:
        return flatten(call, lambda item: isinstance(item, torch.Tensor))
    except TypeError as error:
        raise ProblemError(f"the inputs cannot be passed: {error}") from error
