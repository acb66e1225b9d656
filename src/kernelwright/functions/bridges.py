"""A compiled function inside the programs of JAX and torch, which must be told what it reads, writes and returns."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelwright.functions.signatures import Types
from kernelwright.loops import ArrayType, ScalarType
from kernelwright.records import digest

if TYPE_CHECKING:
    from kernelwright.functions.function import Function

GRADIENTS = "gradients are not supported: call it under torch.no_grad(), or with tensors that are detached"


def in_jax(function: "Function", arguments: Sequence[Any]) -> Any:
    """The new values of what `function` writes to, as JAX arrays: it may be called under jit, on the CPU's memory.

    JAX arrays never change, so those that are written are copied first. Nothing can be differentiated through it.
    """
    import jax  # pyright: ignore[reportMissingImports]

    values = [jax.numpy.asarray(value) for value in arguments]
    types = tuple(
        ArrayType(ScalarType(value.dtype.name), value.ndim) if value.ndim else ScalarType(value.dtype.name)
        for value in values
    )
    program = function.program(types)
    written = [index for index, argument in enumerate(program.arguments) if argument.written]
    if not written or program.result:
        raise TypeError(f"{program.name}: a function that is called from JAX writes its results into arguments")

    def host(*given: Any) -> tuple[np.ndarray, ...]:
        own = [np.array(value) if i in written else np.asarray(value) for i, value in enumerate(given)]
        function(*(value[()] if value.ndim == 0 else np.ascontiguousarray(value) for value in own))
        return tuple(own[index] for index in written)

    shapes = tuple(jax.ShapeDtypeStruct(values[index].shape, values[index].dtype) for index in written)
    made = jax.pure_callback(host, shapes, *values, vmap_method="sequential")
    return made if len(made) > 1 else made[0]


def torch_operator(function: "Function", examples: Sequence[Any]) -> Callable[..., None]:
    """`function` as an operator of torch for arguments of the types of `examples`.

    torch.compile and torch.export keep it as one node. Gradients are refused.
    """
    import torch

    name = function.program(types := tuple(_type(value) for value in examples)).name
    operator = _operator(function, types)

    def call(*arguments: Any) -> None:
        if torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in arguments):
            raise TypeError(f"{name}: {GRADIENTS}")
        operator(*arguments)

    return call


def _type(value: Any) -> ArrayType | ScalarType:
    import torch

    if isinstance(value, torch.Tensor):
        return ArrayType(ScalarType(str(value.dtype).removeprefix("torch.")), value.dim())
    if isinstance(value, bool):
        return ScalarType.BOOL
    return ScalarType.INT64 if isinstance(value, int) else ScalarType.FLOAT64


def _operator(function: "Function", types: Types) -> Callable[..., Any]:
    import torch

    program = function.program(types)
    words = {ScalarType.BOOL: "bool", ScalarType.INT64: "SymInt", ScalarType.FLOAT64: "float"}
    parts = []
    for number, argument in enumerate(program.arguments):
        kind = argument.type
        if isinstance(kind, ArrayType):
            parts.append(f"Tensor({chr(97 + number)}!) x{number}" if argument.written else f"Tensor x{number}")
        else:
            parts.append(f"{words[kind]} x{number}")
    if program.result:
        raise TypeError(f"{program.name}: a function that is called in torch writes its results into arguments")
    name = f"kernelwright::{program.name}_{digest('operator', id(function), [str(kind) for kind in types])[:12]}"
    mutated = [f"x{number}" for number, argument in enumerate(program.arguments) if argument.written]

    def run(*given: Any) -> None:
        with torch.no_grad():
            function(*given)

    made = torch.library.custom_op(name, run, mutates_args=mutated, schema=f"({', '.join(parts)}) -> ()")
    made.register_fake(lambda *given: None)
    return made
