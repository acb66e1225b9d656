"""Forward and backward as one problem: results and gradients are what a call returns, so that all the judge does for
results (float64 oracle, families of inputs, changed weights, the clock, its verified calls) it does for gradients.

`differentiated` makes such a problem, `differentiating` a candidate for it. Both keep their text and get a few lines
below it, which lay `with_gradients` around their class. The gradients that arrive at the results are inputs of the
call: they are drawn like all others, so that a backward that takes them for ones, or for alike, is wrong.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import nn

from kernelwright.errors import ProblemError
from kernelwright.graph.reference import build_reference
from kernelwright.judge.steps import plain
from kernelwright.problems import arguments
from kernelwright.records import Candidate, Case, Problem, SourceFile, TensorSpec, flatten, unflatten

_PROBLEM = """

# Forward and backward in one call: the last {count} inputs are the gradients that arrive at the results.
from kernelwright.judge.gradients import with_gradients

Model = with_gradients(Model, {ends!r}, {parameters!r})
_inputs_of_forward = get_inputs


def get_inputs():
    import torch

    given = _inputs_of_forward()
    arriving = {{{arriving}}}
    if isinstance(given, dict):
        return {{**given, **arriving}}
    return [*([given] if isinstance(given, torch.Tensor) else given), *arriving.values()]
"""
_ARRIVING = "arriving_"
_INPUT = "input "
_CANDIDATE = """

# Forward and backward in one call, as the problem has it.
from kernelwright.judge.gradients import with_gradients

{entry} = with_gradients({entry}, {ends!r}, {parameters!r})
"""


def differentiated(problem: Problem) -> Problem:
    """`problem` with the gradients of all its floating inputs and parameters among its results. Sizes are those of the
    example. Raises ProblemError where there is nothing to differentiate."""
    if problem.gradients:
        return problem
    if problem.numerics.stochastic:
        raise ProblemError(f"{problem.name} draws random numbers itself, so no gradient can be called right")
    model = build_reference(problem)
    parameters = tuple(name for name, value in model.named_parameters() if _trained(value))
    leaves = arguments(problem, Case())
    call = unflatten(problem.signature.arguments, plain(problem, leaves))
    try:
        with torch.enable_grad():
            results = _results(model, [*call["args"]], call["kwargs"])[0]
    except Exception as error:  # the user's code may refuse to be differentiated in any way it likes
        raise ProblemError(f"{problem.name} cannot be differentiated: {type(error).__name__}: {error}") from error
    ends = tuple(place for place, result in enumerate(results) if result.requires_grad)
    if not ends:
        raise ProblemError(f"no result of {problem.name} depends on an input or a parameter by way of a gradient")
    arriving = {f"{_ARRIVING}{place}": results[place] for place in ends}
    drawn = ", ".join(
        f'"{name}": torch.randn({tuple(result.shape)}, dtype={result.dtype})' for name, result in arriving.items()
    )
    specs = [
        TensorSpec(name, str(result.dtype).removeprefix("torch."), tuple(result.shape))
        for name, result in arriving.items()
    ]
    by_name = bool(call["kwargs"]) and not call["args"]
    both = {"kwargs": {**call["kwargs"], **arriving}} if by_name else {"args": [*call["args"], *arriving.values()]}
    inputs = tuple(f"{_INPUT}{place}" for place, leaf in enumerate(leaves) if leaf.is_floating_point())
    return replace(
        problem,
        source=problem.source + _PROBLEM.format(count=len(ends), ends=ends, parameters=parameters, arriving=drawn),
        signature=replace(
            problem.signature,
            tensors=(*(replace(spec, shape=spec.example_shape) for spec in problem.signature.tensors), *specs),
            arguments=flatten({**call, **both}, _is_tensor)[1],
        ),
        region=None,
        opaque="its gradients are taken by autograd while it runs",
        gradients=(*inputs, *parameters),
    )


def differentiating(candidate: Candidate, problem: Problem) -> Candidate:
    """`candidate`, written for the problem that `problem` is the differentiated form of, as a candidate for it."""
    first, *others = candidate.sources
    names = [spec.name for spec in problem.signature.tensors if spec.name.startswith(_ARRIVING)]
    lines = _CANDIDATE.format(
        entry=candidate.entry,
        ends=tuple(int(name.removeprefix(_ARRIVING)) for name in names),
        parameters=tuple(name for name in problem.gradients if not name.startswith(_INPUT)),
    )
    return replace(candidate, sources=(SourceFile(first.path, first.text + lines), *others))


def with_gradients(kind: type[nn.Module], ends: Sequence[int], parameters: Sequence[str]) -> type[nn.Module]:
    """The class `kind` whose call takes as its last inputs the gradients that arrive at the results `ends`, and returns
    {"results": ..., "gradients": {of the floating inputs and of `parameters`, by name}}."""
    count = len(ends)

    class Differentiated(kind):  # a subclass: names of weights, train() and prepare() stay as they are
        between = False
        """Whether another forward comes between a forward and its backward, as in a model that calls a layer twice:
        what a module keeps on itself for backward is then another call's. For calls that are not timed."""

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            if args:
                args, arriving = args[:-count], args[-count:]
            else:
                arriving = [kwargs.pop(name) for name in list(kwargs)[-count:]]
            with torch.enable_grad():
                results, nest, own = _results(super(), args, kwargs)
                leaves = [leaf for leaf in own if leaf.requires_grad]
                state = dict(self.named_parameters())
                missing = [name for name in parameters if name not in state]
                if missing:
                    raise RuntimeError(f"it holds no parameter {missing[0]!r} that could be trained")
                for end in ends:
                    if end >= len(results) or not results[end].requires_grad:
                        raise RuntimeError(f"no gradient flows back from result {end}: it is detached, or not there")
                if self.between:
                    others = [leaf.detach().flip(0) if leaf.dim() else leaf.detach() for leaf in own]
                    call = unflatten(flatten({"args": list(args), "kwargs": kwargs}, _is_tensor)[1], others)
                    _results(super(), call["args"], call["kwargs"])
                names = [f"{_INPUT}{place}" for place, leaf in enumerate(own) if leaf.requires_grad] + [*parameters]
                with torch.autocast("cpu", enabled=False):
                    found = torch.autograd.grad(
                        [results[end] for end in ends],
                        [*leaves, *(state[name] for name in parameters)],
                        arriving,
                        allow_unused=True,
                        materialize_grads=True,
                    )
            return {
                "results": unflatten(nest, [result.detach() for result in results]),
                "gradients": dict(zip(names, _apart(found, [*arriving, *leaves, *results]), strict=True)),
            }

    return cast("type[nn.Module]", Differentiated)


def _results(module: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], str, list[torch.Tensor]]:
    """What the forward of `module` returns, its nest, and the inputs it may be differentiated by."""
    leaves, template = flatten({"args": list(args), "kwargs": kwargs}, _is_tensor)
    # A tensor that is given twice is two here: each place has a gradient of its own.
    own = [leaf.detach().requires_grad_(leaf.is_floating_point()) for leaf in leaves]
    call = unflatten(template, own)
    result = module.forward(*call["args"], **call["kwargs"])
    results, nest = flatten(result, _is_tensor)
    return results, nest, own


def _apart(found: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients in memory of their own, as an optimiser finds them: that of a sum is what arrived."""
    taken = {other.untyped_storage().data_ptr() for other in others}
    apart = []
    for gradient in found:
        memory = gradient.untyped_storage().data_ptr()
        apart.append(gradient.clone() if memory in taken else gradient)
        taken.add(memory)
    return apart


def _trained(value: torch.Tensor) -> bool:
    return value.requires_grad and value.is_floating_point()


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
