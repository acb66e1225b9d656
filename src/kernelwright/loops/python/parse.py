"""A Python function and its arguments' types -> a Program."""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernelwright.loops.expressions import Buffer, Variable
from kernelwright.loops.program import Argument, ArrayType, Break, Command, If, Loop, Program, Return
from kernelwright.loops.python.builder import Builder
from kernelwright.loops.python.functions import Function
from kernelwright.loops.python.source import Source, UnsupportedError, python_function
from kernelwright.loops.python.values import identifier, whole
from kernelwright.loops.types import ScalarType

_MOST_PASSES = 20
"""Each pass only widens types, and no variable can widen more often than there are types."""


def parse(
    function: Callable[..., Any],
    types: Sequence[ArrayType | ScalarType],
    *,
    callees: Mapping[str, Any] | None = None,
    real: ScalarType = ScalarType.FLOAT64,
) -> Program:
    """The function as a program for arguments of these types. Raises UnsupportedError at the place that is at fault.

    `callees` are functions and numbers that the text may name besides its own globals. `real` is the type of floating
    literals and of what integers give where they are divided: Numba's float64, or float32 for a device that has no
    other.
    """
    sources: dict[int, Source] = {}
    callees = dict(callees or {})

    def make(called: Any) -> Source:
        if id(called) not in sources:
            sources[id(called)] = Source(called, callees)
        return sources[id(called)]

    source = make(function)
    known: dict[str, ScalarType] = {}
    for _ in range(_MOST_PASSES):
        before = dict(known)
        program = _pass(source, tuple(types), Builder(real, known, len(types)), make)
        if known == before:
            return program
    raise source.refuse(source.tree, "the types of its variables are not settled", "variables of one type each")


def _pass(
    source: Source,
    types: tuple[ArrayType | ScalarType, ...],
    builder: Builder,
    make: Callable[[Any], Source],
) -> Program:
    tree = source.tree
    parameters = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    if tree.args.vararg or tree.args.kwarg:
        raise source.refuse(tree, "* and ** parameters are not supported", "parameters with names")
    if len(parameters) != len(types):
        raise UnsupportedError(
            f"{source.file}:{source.where(tree).line}: {tree.name} takes {len(parameters)} arguments "
            f"({', '.join(parameter.arg for parameter in parameters)}), and types of {len(types)} were given"
        )
    statements = Function(source, builder, make)
    buffers: list[Buffer] = []
    scalars: list[Variable] = []
    for number, (parameter, type) in enumerate(zip(parameters, types, strict=True)):
        _argument(parameter, type, number, statements, buffers, scalars)
    builder.inlined.append(python_function(source.function).__qualname__)
    statements.body(tree.body)
    body = tuple(builder.block)
    if statements.result_types and not _ends(body):
        raise source.refuse(tree, f"{tree.name} returns numbers, but not on every way", "a return at the end")
    made = {buffer.name for buffer in buffers} | {scalar.name for scalar in scalars}
    variables = tuple(
        Variable(name, type) for name, type in sorted(builder.types.items()) if name in builder.used - made
    )
    arguments = tuple(
        Argument(
            parameter.arg,
            type,
            written=number in builder.written,
            read=isinstance(type, ScalarType) or number in builder.read,
        )
        for number, (parameter, type) in enumerate(zip(parameters, types, strict=True))
    )
    return Program(
        tree.name,
        _symbol(tree.name),
        arguments,
        tuple(buffers),
        tuple(Variable(scalar.name, builder.types.get(scalar.name, scalar.type)) for scalar in scalars),
        tuple(variable for variable in variables if not variable.name.startswith("result_")),
        tuple(builder.locals),
        body,
        tuple(statements.result_types or ()),
        source.file,
        source.where(tree).line,
    )


def _argument(
    parameter: ast.arg,
    type: ArrayType | ScalarType,
    number: int,
    statements: Function,
    buffers: list[Buffer],
    scalars: list[Variable],
) -> None:
    builder, name = statements.builder, identifier(parameter.arg)
    if isinstance(type, ArrayType):
        if parameter.arg in statements.seen.stores:
            raise statements.refuse(
                parameter, f"the array {parameter.arg} is given another value", "writing into it, or another name"
            )
        shape = tuple(f"{name}n{axis}" for axis in range(type.ndim))
        strides: list[int | str] = [f"{name}s{axis}" for axis in range(type.ndim)]
        if type.contiguous and strides:
            strides[-1] = 1
        builder.immutable |= {*shape, *(stride for stride in strides if isinstance(stride, str))}
        buffers.append(Buffer(name, type.dtype, shape, tuple(strides)))
        statements.names[parameter.arg] = whole(buffers[-1], number)
        return
    variable = Variable(name, type)
    if parameter.arg in statements.seen.stores:
        variable = statements.variable(parameter.arg, type)
    else:
        builder.immutable.add(name)
        statements.names[parameter.arg] = variable
    scalars.append(Variable(name, type))


def _symbol(name: str) -> str:
    return f"kw_{name}" if name.isascii() else f"kw_{name.encode().hex()}"


def _ends(body: tuple[Command, ...]) -> bool:
    """Whether no way leads past the end of the body."""
    if not body:
        return False
    match body[-1]:
        case Return():
            return True
        case If(_, then, otherwise):
            return _ends(then) and _ends(otherwise)
        case Loop(inner):
            return not _breaks(inner)
        case _:
            return False


def _breaks(body: tuple[Command, ...]) -> bool:
    """Whether a Break of this very loop is inside."""
    return any(
        isinstance(command, Break)
        or (isinstance(command, If) and (_breaks(command.then) or _breaks(command.otherwise)))
        for command in body
    )
