"""A live module as a functional graph."""

import inspect
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
    StrictMinMaxConstraint,
    free_unbacked_symbols,
)
from torch.utils._sympy.value_ranges import ValueRanges

from kernelwright.errors import CaptureError
from kernelwright.graph.canonical import canonicalise
from kernelwright.graph.captured import Capture, State
from kernelwright.graph.contract import check_contract
from kernelwright.graph.funnel import trace
from kernelwright.graph.node import output_of, placeholders_of, shape_of, tensor_of
from kernelwright.graph.reference import build_reference, example_arguments, flatten_call
from kernelwright.records import Problem, Range, RegionInput, flatten, unflatten

aten = torch.ops.aten


def capture(
    module: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic: Mapping[int, Mapping[int, Range]] | None = None,
    autocast: str | None = None,
) -> Capture:
    """The graph of `module(*args, **kwargs)` without gradients, in the module's present mode.

    `dynamic` names sizes left open: leaf index -> dimension -> Range. `autocast` is the dtype of an autocast region
    around the call. Arguments are read for dtype, shape and stride, never for values. Raises CaptureError.
    """
    kwargs = dict(kwargs or {})
    try:
        leaves, template = flatten_call(args, kwargs)
    except TypeError as error:
        raise CaptureError(f"the call cannot be captured: {error}") from error
    if isinstance(module, torch.jit.ScriptModule):
        raise CaptureError(f"{type(module).__name__} is a TorchScript module, which has no Python to capture")

    mode = FakeTensorMode(shape_env=ShapeEnv(duck_shape=False), allow_non_fake_inputs=True)
    state = _state(module, mode)
    held = [item for item in state if not item.tied_to]
    order: list[int] = []  # the leaf each argument placeholder stands for
    leaf_places: list[int] = []  # for each leaf its argument placeholder
    for index, leaf in enumerate(leaves):
        same = next((place for place, other in enumerate(order) if leaves[other] is leaf), None)
        if same is None:
            order.append(index)
        leaf_places.append(len(order) - 1 if same is None else same)
    fakes = [_fake(leaves[index], mode, index, (dynamic or {}).get(index, {})) for index in order]

    results: list[tuple[str, str]] = []
    rebound: list[str] = []

    def function(*values: Tensor) -> tuple[Tensor, ...]:
        own = dict(zip((item.name for item in held), values[: len(held)], strict=True))
        before = dict(own)
        call = unflatten(template, [values[len(held) + place] for place in leaf_places])
        with _autocast(autocast), _seen_as_compiling():
            result = torch.func.functional_call(module, own, tuple(call["args"]), call["kwargs"])
        outputs, output_template = _result_leaves(result)
        rebound[:] = [name for name in own if own[name] is not before[name]]
        results[:] = [(output_template, _output_class(result))]
        return (*outputs, *(own[name] for name in rebound))

    graph, mutated = _traced(module, function, [*(item.value for item in held), *fakes])
    output_template, output_class = results[-1]

    borders: list[tuple[RegionInput, int | None]] = [
        (RegionInput("parameter" if item.parameter else "buffer", item.name), None) for item in held
    ]
    borders += [(RegionInput("argument", str(index)), index) for index in order]
    names = {place.name: border for place, (border, _) in zip(placeholders_of(graph.graph), borders, strict=True)}
    wrong = [names[name] for name in mutated if names[name].role == "argument"]
    if wrong:
        raise CaptureError(f"{type(module).__name__}.forward changes its argument {wrong[0].name} in place")
    mutations = [names[name].name for name in mutated] + rebound
    attributes = _plain_tensors(module)
    taken = finish(graph, borders, len(mutated), attributes)
    taken = replace(
        taken,
        output_template=output_template,
        arguments=template,
        parameter_names=_parameter_names(module, len(args)),
        state=state,
        addresses={name: _address(module, name) for name in (*(item.name for item in state), *attributes)},
        mutations=tuple(mutations),
        output_class=output_class,
    )
    if dynamic:

        def at(shapes: Sequence[Sequence[int]]) -> Capture:
            others = [leaf.new_zeros(shape) for leaf, shape in zip(leaves, shapes, strict=True)]
            call = unflatten(template, others)
            return capture(module, call["args"], call["kwargs"], autocast=autocast)

        shapes = [fakes[place].shape for place in leaf_places]
        check_contract(taken, shapes, dynamic, at)
    return taken


_captured: dict[str, Capture] = {}
_REMEMBERED = 16


def capture_problem(problem: Problem) -> Capture:
    """The problem's reference, captured under its contract. Remembered in this process by the problem's digest."""
    if problem.digest not in _captured:
        args, kwargs = example_arguments(problem)
        dynamic = {
            index: {dim: size for dim, size in enumerate(spec.shape) if isinstance(size, Range)}
            for index, spec in enumerate(problem.signature.tensors)
            if spec.dynamic
        }
        taken = capture(build_reference(problem), args, kwargs, dynamic=dynamic, autocast=problem.numerics.autocast)
        while len(_captured) >= _REMEMBERED:
            _captured.pop(next(iter(_captured)), None)
        _captured[problem.digest] = taken
    return _captured[problem.digest]


def finish(
    graph: fx.GraphModule,
    borders: Sequence[tuple[RegionInput, int | None]],
    mutated: int,
    attributes: Mapping[str, Tensor],
) -> Capture:
    """The traced graph in canonical form, with constants as inputs, mutations last and unused inputs gone.

    `borders` say what each placeholder stands for; `attributes` are the module's plain tensors by dotted name.
    """
    names = dict(zip(placeholders_of(graph.graph), borders, strict=True))
    constants = _lift_constants(graph, names, attributes)
    output = output_of(graph.graph)
    results = tuple(output.args[0])  # type: ignore[arg-type]
    output.args = ((*results[mutated:], *results[:mutated]),)
    for node in output.all_input_nodes:
        if not isinstance(node.meta.get("val"), Tensor):
            raise CaptureError(
                f"the result holds {node.meta.get('val')!r}, which depends on the sizes of the arguments"
            )
    _drop_symbolic_inputs(graph.graph)
    for node in graph.graph.nodes:
        if free_unbacked_symbols(node.meta.get("val")):
            raise CaptureError(f"the graph cannot be captured: shapes depend on the values of tensors at {node.target}")
    canonicalise(graph.graph)
    for place in placeholders_of(graph.graph):
        if not place.users:
            graph.graph.erase_node(place)
    graph.graph.lint()
    graph.recompile()
    kept = [names[place] for place in placeholders_of(graph.graph)]
    used = {border.name for border, _ in kept if border.role == "constant"}
    return Capture(
        graph=graph,
        inputs=tuple(border for border, _ in kept),
        positions=tuple(position for _, position in kept),
        constants={name: value for name, value in constants.items() if name in used},
        output_template="",
    )


def agrees(capture: Capture, module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> float:
    """Runs graph and module on the same values: the largest error of a result, relative to its largest magnitude.

    Infinite where shapes, dtypes, integers or NaNs differ. The module's buffers are left as they were.
    """
    kwargs = dict(kwargs or {})
    saved = {name: value.detach().clone() for name, value in module.named_buffers()}
    with torch.no_grad():
        got = run(capture, module, args, kwargs)[: capture.result_count]
        expected, _ = flatten(_plain(module(*args, **kwargs)), lambda value: isinstance(value, Tensor))
        for name, value in module.named_buffers():
            value.copy_(saved[name])
    if len(got) != len(expected):
        return float("inf")
    return max((_difference(a, b) for a, b in zip(got, expected, strict=True)), default=0.0)


def run(
    capture: Capture, module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> tuple[Tensor, ...]:
    """The graph's outputs for the module's present weights. Changes nothing."""
    leaves, _ = flatten_call(args, dict(kwargs or {}))
    held = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    values = []
    for border, position in zip(capture.inputs, capture.positions, strict=True):
        if border.role == "constant":
            values.append(capture.constants[border.name])
        else:
            values.append(held[border.name] if position is None else leaves[position])
    with torch.no_grad():
        return tuple(_AnyStride(capture.graph).run(*values))


class _AnyStride(fx.Interpreter):
    """Real kernels may choose other strides than their fakes: a view that then has no strides is a copy."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().call_function(aten.reshape.default if target is aten.view.default else target, args, kwargs)


def _difference(got: Tensor, expected: Tensor) -> float:
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return float("inf")
    if torch.equal(got, expected):  # as a rule, and at a tenth of the cost of what follows
        return 0.0
    if not expected.dtype.is_floating_point and not expected.dtype.is_complex:
        return float("inf")
    wide = torch.complex128 if expected.dtype.is_complex else torch.float64
    got, expected = got.to(wide), expected.to(wide)
    plain = torch.isfinite(expected)
    if not torch.equal(got[~plain].nan_to_num(0.5), expected[~plain].nan_to_num(0.5)):
        return float("inf")
    if not plain.any():
        return 0.0
    scale = expected[plain].abs().max().item() or 1.0
    worst = ((got[plain] - expected[plain]).abs().max() / scale).item()
    return worst if worst == worst else float("inf")


def _traced(module: nn.Module, function: Any, fakes: list[Tensor]) -> tuple[fx.GraphModule, list[str]]:
    try:
        return trace(function, fakes)
    except CaptureError:
        raise
    except Exception as error:  # the user's forward and torch's tracing may raise anything
        raise CaptureError(f"{type(module).__name__} cannot be captured: {_why(error)}") from error


def _why(error: BaseException) -> str:
    """One sentence: the last line of the user's code that ran, and what torch said there."""
    torch_folder = str(Path(torch.__file__).parent)
    ours = str(Path(__file__).parent)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((torch_folder, ours)) and "contextlib" not in frame.filename
    ]
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno} `{frames[-1].line}`" if frames else ""
    kind = type(error).__name__
    if "DataDependent" in kind or "Unbacked" in str(error):
        return f"its control flow or shapes depend on the values of tensors{place}"
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{kind}{place}: {first}"


def _fake(leaf: Tensor, mode: FakeTensorMode, index: int, ranges: Mapping[int, Range]) -> Tensor:
    """A fake of the leaf, with a symbol for each open size."""
    from torch._dynamo.source import ConstantSource

    leaf = leaf.detach()
    if not ranges:
        return mode.from_tensor(leaf, static_shapes=True)
    shape = list(leaf.shape)
    for dim, size in ranges.items():
        if shape[dim] < 2 <= size.high:  # a size of one would be taken for a constant
            shape[dim] = 2
    if shape != list(leaf.shape):
        leaf = torch.empty(shape, dtype=leaf.dtype, device=leaf.device)
    context = StatelessSymbolicContext(
        dynamic_sizes=[DimDynamic.DYNAMIC if dim in ranges else DimDynamic.STATIC for dim in range(leaf.dim())],
        constraint_sizes=[
            StrictMinMaxConstraint(vr=ValueRanges(max(2, ranges[dim].low), ranges[dim].high), warn_only=False)  # type: ignore[arg-type]
            if dim in ranges and ranges[dim].high >= 2
            else None
            for dim in range(leaf.dim())
        ],
    )
    return mode.from_tensor(leaf, source=ConstantSource(f"leaf{index}"), symbolic_context=context)


def _state(module: nn.Module, mode: FakeTensorMode) -> tuple[State, ...]:
    """Every parameter and buffer with its fake, ties marked."""
    persistent = set(module.state_dict(keep_vars=True))
    first: dict[int, str] = {}
    found = []
    entries = [(name, value, True) for name, value in module.named_parameters(remove_duplicate=False)]
    entries += [(name, value, False) for name, value in module.named_buffers(remove_duplicate=False)]
    for name, value, parameter in entries:
        tied_to = first.setdefault(id(value), name)
        fake = mode.from_tensor(value.detach(), static_shapes=True)
        found.append(
            State(
                name,
                fake,
                parameter,
                name in persistent,
                "" if tied_to == name else tied_to,
                None if name in persistent else value.detach(),
            )
        )
    return tuple(found)


def _address(module: nn.Module, name: str) -> str:
    """The expression that reaches `name` from the module: containers by index where that is the name."""
    expression, owner = "self", module
    for part in name.split("."):
        listed = isinstance(owner, (nn.Sequential, nn.ModuleList, nn.ParameterList)) and part.isdecimal()
        if part.isidentifier():
            expression += f".{part}"
        elif listed and [*owner._modules, *owner._parameters][int(part)] == part:
            expression += f"[{part}]"
        else:
            expression = f'getattr({expression}, "{part}")'
        owner = getattr(owner, part)
    return expression


def _plain_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Tensors that modules hold as ordinary attributes, by dotted name."""
    return {
        f"{prefix}.{name}" if prefix else name: value
        for prefix, owner in module.named_modules()
        for name, value in vars(owner).items()
        if isinstance(value, Tensor)
    }


def _lift_constants(
    graph: fx.GraphModule, names: dict[fx.Node, tuple[RegionInput, int | None]], attributes: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Turns get_attr nodes into placeholders, named after the attribute that holds the same tensor, if any."""
    constants: dict[str, Tensor] = {
        border.name: attributes[border.name] for border, _ in names.values() if border.role == "constant"
    }
    made: dict[str, fx.Node] = {}
    last = placeholders_of(graph.graph)[-1:] or [None]
    for node in list(graph.graph.find_nodes(op="get_attr")):
        value = getattr(graph, str(node.target))
        found = next((name for name, other in attributes.items() if _same_memory(other, value)), None)
        name = found or f"#{sum(item.startswith('#') for item in constants)}"
        if str(node.target) not in made:
            known = next((place for place, (border, _) in names.items() if border.name == found is not None), None)
            if known is None:
                with graph.graph.inserting_after(last[0]):
                    known = graph.graph.placeholder(name.replace(".", "_").replace("#", "constant"))
                last = [known]
                known.meta["val"] = node.meta.get("val", value)
                if not _is_fake(known.meta["val"]):
                    known.meta["val"] = _fake_like(graph, value)
                names[known] = (RegionInput("constant", name), None)
                constants[name] = value.detach()
            made[str(node.target)] = known
        node.replace_all_uses_with(made[str(node.target)])
        graph.graph.erase_node(node)
    return constants


def _is_fake(value: Any) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(value, FakeTensor)


def _fake_like(graph: fx.GraphModule, value: Tensor) -> Tensor:
    for node in graph.graph.nodes:
        if _is_fake(node.meta.get("val")):
            return node.meta["val"].fake_mode.from_tensor(value.detach(), static_shapes=True)
    raise CaptureError("the graph holds constants only")


def _same_memory(left: Tensor, right: Tensor) -> bool:
    return left is right or (
        left.data_ptr() == right.data_ptr()
        and left.dtype == right.dtype
        and left.shape == right.shape
        and left.stride() == right.stride()
        and left.numel() > 0
    )


def _drop_symbolic_inputs(graph: fx.Graph) -> None:
    """Symbolic sizes that came as inputs are read from a tensor input instead."""
    places = placeholders_of(graph)
    tensors = [place for place in places if isinstance(place.meta["val"], Tensor)]
    for place in places:
        size = place.meta["val"]
        if isinstance(size, Tensor):
            continue
        if place.users:
            carrier = next(
                (
                    (tensor, dim)
                    for tensor in tensors
                    for dim, other in enumerate(shape_of(tensor))
                    if isinstance(other, torch.SymInt) and other.node.expr == size.node.expr
                ),
                None,
            )
            if carrier is None:
                raise CaptureError(f"the size {size} is passed alone and is no tensor's size")
            with graph.inserting_after(places[-1]):
                read = graph.call_function(aten.sym_size.int, carrier)
            read.meta["val"] = tensor_of(carrier[0]).shape[carrier[1]]
            place.replace_all_uses_with(read)


def _result_leaves(result: Any) -> tuple[list[Tensor], str]:
    try:
        return flatten(_plain(result), lambda value: isinstance(value, Tensor))
    except TypeError as error:
        raise CaptureError(f"the result cannot be captured: {error}") from error


def _plain(result: Any) -> Any:
    """The result with keys as text and its containers plain."""
    if isinstance(result, dict):
        return {str(key): _plain(value) for key, value in result.items()}
    if isinstance(result, tuple):
        return tuple(_plain(value) for value in result)
    return [_plain(value) for value in result] if isinstance(result, list) else result


def _output_class(result: Any) -> str:
    kind = type(result)
    named = isinstance(result, tuple) and hasattr(kind, "_fields")
    if kind in (dict, tuple, list) or not (isinstance(result, dict) or named) or "<locals>" in kind.__qualname__:
        return ""
    return f"{kind.__module__}:{kind.__qualname__}"


def _parameter_names(module: nn.Module, count: int) -> tuple[str, ...]:
    """Names for the first `count` positional arguments of forward."""
    names: list[str] = []
    for parameter in inspect.signature(module.forward).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{i}" for i in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return tuple(names[:count])


@contextmanager
def _seen_as_compiling() -> Iterator[None]:
    """torch.compiler.is_compiling() is true for the module, as it is on dynamo's road."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


def _autocast(dtype: str | None) -> AbstractContextManager[Any]:
    if dtype is None:
        return nullcontext()
    return torch.autocast("cpu", dtype=getattr(torch, dtype), cache_enabled=False)
