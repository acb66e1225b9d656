"""A case's tensors.

`nominal` draws what the user draws: `get_inputs` runs with its random numbers served by our own generator. The other
families begin there and change the floating-point leaves; integers and booleans stay as the user draws them, since
they are indices, lengths and masks more often than quantities. Only those that the user does not draw, but gives as
constants (a mask of ones), are varied here and there in "signed", so that no candidate may take them for granted. A
leaf that holds NaN or Inf of its own (an attention mask of -inf) is structure, and stays.

A leaf whose `TensorSpec` has bounds keeps within them in every family but the NaN and Inf probes: loading a problem
notes bounds only where the reference is not finite beyond them (the argument of a logarithm, a probability).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import ModuleType

import torch

from kernelwright.errors import UsageError
from kernelwright.graph.reference import load_text, user_code
from kernelwright.problems.dialect import call_inputs
from kernelwright.problems.drawing import digits, drawn, fill
from kernelwright.problems.philox import Stream
from kernelwright.problems.sizes import shapes
from kernelwright.records import Case, Problem, TensorSpec

FAMILIES = (
    "nominal",
    "signed",
    "scaled_small",
    "scaled_large",
    "heavy_tailed",
    "one_hot",
    "permuted",
    "constant",
    "sorted",
    "nan_probe",
    "inf_probe",
)
LAYOUTS = ("contiguous", "strided", "offset", "channels_last")

_FAMILY_STREAM = 1 << 24
"""First stream of the families' own numbers; `get_inputs` draws from the streams below."""
_OFFSET = 3
"""Elements before an "offset" tensor: odd, so that no vector load is aligned."""
_REDRAWN = 0.1
"""Share of a constant mask that "signed" redraws: few enough that hardly a row is masked as a whole."""
_SPECIALS = 3
"""At most so many NaN or Inf in a leaf: enough to be met, too few to drown a result."""


def arguments(problem: Problem, case: Case) -> list[torch.Tensor]:
    """The leaves of the call that `case` stands for, on the CPU, in the order of the signature's tensors.

    They depend on the problem, the case and nothing else. A leaf that is an alias of an earlier one is that very
    tensor. Raises UsageError for an unknown family or layout, and for sizes outside the declared ranges.
    """
    if case.family not in FAMILIES:
        raise UsageError(f"no family of inputs is called {case.family!r}; known: {', '.join(FAMILIES)}")
    if case.layout not in LAYOUTS:
        raise UsageError(f"no layout is called {case.layout!r}; known: {', '.join(LAYOUTS)}")
    specs = problem.signature.tensors
    wanted = shapes(problem.signature, case.sizes)
    leaves = _nominal(problem, case.seed, wanted)
    result: list[torch.Tensor] = []
    for index, (spec, leaf) in enumerate(zip(specs, leaves, strict=True)):
        if spec.alias_of is not None:
            result.append(result[spec.alias_of])
            continue
        stream = Stream(case.seed, _FAMILY_STREAM + index)
        if case.family != "nominal" and leaf.numel():
            if not leaf.dtype.is_floating_point:
                leaf = _varied(problem, case, index, leaf, stream) if case.family == "signed" else leaf
            elif bool(leaf.isfinite().all()):
                leaf = _FAMILY[case.family](leaf, spec, stream)
        result.append(_laid_out(leaf, spec, case.layout))
    return result


def _varied(problem: Problem, case: Case, index: int, leaf: torch.Tensor, stream: Stream) -> torch.Tensor:
    """A leaf of integers or booleans that no seed changes, with a tenth of it redrawn from its legal values."""
    spec = problem.signature.tensors[index]
    low, high = (0, 1) if leaf.dtype == torch.bool else (int(spec.low or 0), int(spec.high or 0))
    if (
        high <= low
        or case.sizes
        or not torch.equal(leaf, _nominal(problem, case.seed + 1, shapes(problem.signature, ()))[index])
    ):
        return leaf
    redrawn = torch.empty(leaf.shape, dtype=leaf.dtype)
    fill(redrawn, stream.integers(leaf.numel(), low, high))
    chosen = torch.empty(leaf.shape, dtype=torch.float64)
    fill(chosen, Stream(case.seed, _FAMILY_STREAM + index, part=1).uniform(leaf.numel(), 53))
    return torch.where(chosen < _REDRAWN, redrawn, leaf)


def _nominal(problem: Problem, seed: int, wanted: Sequence[tuple[int, ...]]) -> list[torch.Tensor]:
    specs = problem.signature.tensors
    if wanted == [spec.example_shape for spec in specs]:
        module = _module(problem.source, problem.name, problem.import_paths)
        with user_code(str(module.__file__), f"get_inputs of {problem.name} failed"), drawn(seed), torch.no_grad():
            leaves = call_inputs(module)[0]
        if [(tuple(leaf.shape), leaf.dtype) for leaf in leaves] != [
            (spec.example_shape, getattr(torch, spec.dtype)) for spec in specs
        ]:
            raise UsageError(f"get_inputs of {problem.name} gives other shapes or types for another seed")
        return [leaf.detach() for leaf in leaves]
    return [
        from_spec(spec, shape, Stream(seed, index))
        for index, (spec, shape) in enumerate(zip(specs, wanted, strict=True))
    ]


@lru_cache(maxsize=16)
def _module(source: str, name: str, import_paths: tuple[str, ...]) -> ModuleType:
    return load_text(source, name, import_paths=import_paths)


def from_spec(spec: TensorSpec, shape: tuple[int, ...], stream: Stream) -> torch.Tensor:
    """A tensor drawn from what its spec says: uniform within bounds, normal without, integers from their range."""
    dtype = getattr(torch, spec.dtype)
    tensor = torch.empty(shape, dtype=dtype)
    count = tensor.numel()
    if dtype == torch.bool:
        fill(tensor, stream.integers(count, 0, 1))
    elif not dtype.is_floating_point:
        fill(tensor, stream.integers(count, int(spec.low or 0), int(1 if spec.high is None else spec.high)))
    elif spec.low is None or spec.high is None:
        fill(tensor, stream.normal(count))
    else:
        low, span = spec.low, spec.high - spec.low
        fill(tensor, stream.uniform(count, digits(dtype)), lambda u: low + span * u)
    return tensor


def _typical(leaf: torch.Tensor) -> float:
    """The root of the mean square, 1 for a leaf of zeros."""
    size = float(leaf.double().square().mean().sqrt())
    return size if size > 0 else 1.0


def _drawn(leaf: torch.Tensor, stream: Stream, finish: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    result = torch.empty(leaf.shape, dtype=leaf.dtype)
    fill(result, stream.uniform(leaf.numel(), digits(leaf.dtype)), finish)
    return result


def _bounds(spec: TensorSpec) -> tuple[float, float] | None:
    return None if spec.low is None or spec.high is None else (spec.low, spec.high)


def _signed(leaf: torch.Tensor, spec: TensorSpec, stream: Stream) -> torch.Tensor:
    """Normal about zero, of the leaf's own size; with bounds: uniform between them."""
    bounds, size = _bounds(spec), _typical(leaf)
    if bounds:
        low, high = bounds
        return _drawn(leaf, stream, lambda u: low + (high - low) * u)
    result = torch.empty(leaf.shape, dtype=leaf.dtype)
    fill(result, stream.normal(leaf.numel()), lambda z: z * size)
    return result


def _scaled_small(leaf: torch.Tensor, spec: TensorSpec, stream: Stream) -> torch.Tensor:
    """A thousandth; with bounds: all near the lower one."""
    bounds = _bounds(spec)
    return bounds[0] + (leaf - bounds[0]) * 1e-3 if bounds else leaf * 1e-3


def _scaled_large(leaf: torch.Tensor, spec: TensorSpec, stream: Stream) -> torch.Tensor:
    """A thousandfold; with bounds: all near the upper one."""
    bounds = _bounds(spec)
    return bounds[1] - (bounds[1] - leaf) * 1e-3 if bounds else leaf * 1e3


def _heavy_tailed(leaf: torch.Tensor, spec: TensorSpec, stream: Stream) -> torch.Tensor:
    """Pareto of index 1.5 with random signs, cut at 1000 times the leaf's size; with bounds: crowded at the lower."""
    bounds, size = _bounds(spec), _typical(leaf)
    if bounds:
        low, high = bounds
        return _drawn(leaf, stream, lambda u: low + (high - low) * u**8)

    def pareto(u: torch.Tensor) -> torch.Tensor:
        both = 2 * u - 1
        return torch.sign(both) * ((1 - both.abs()).clamp_min(1e-9) ** (-1 / 1.5) - 1).clamp_max(1e3) * size

    return _drawn(leaf, stream, pareto)


def _one_hot(leaf: torch.Tensor, spec: TensorSpec, stream: Stream) -> torch.Tensor:
    """Zeros but for one value in each row (the last dimension); with bounds: lower bound and upper bound."""
    low, high = _bounds(spec) or (0.0, max(1.0, _typical(leaf)))
    result = torch.full(leaf.shape, low, dtype=leaf.dtype)
    if leaf.dim() == 0:
        return result.fill_(high)
    rows = result.view(-1, leaf.shape[-1])
    places = torch.empty(rows.shape[0], dtype=torch.int64)
    fill(places, stream.integers(rows.shape[0], 0, leaf.shape[-1] - 1))
    rows.scatter_(1, places[:, None], high)
    return result


def _permuted(leaf: torch.Tensor, spec: TensorSpec, stream: Stream) -> torch.Tensor:
    """The same values at other places."""
    return leaf.reshape(-1)[torch.from_numpy(stream.permutation(leaf.numel()))].view(leaf.shape)


def _constant(leaf: torch.Tensor, spec: TensorSpec, stream: Stream) -> torch.Tensor:
    """One of the leaf's values everywhere."""
    place = torch.empty(1, dtype=torch.int64)
    fill(place, stream.integers(1, 0, leaf.numel() - 1))
    return torch.full(leaf.shape, float(leaf.reshape(-1)[int(place)]), dtype=leaf.dtype)


def _sorted(leaf: torch.Tensor, spec: TensorSpec, stream: Stream) -> torch.Tensor:
    """Each row (the last dimension) in ascending order."""
    return leaf.sort(dim=-1).values if leaf.dim() else leaf


def _probe(specials: Sequence[float]) -> Callable[[torch.Tensor, TensorSpec, Stream], torch.Tensor]:
    def probe(leaf: torch.Tensor, spec: TensorSpec, stream: Stream) -> torch.Tensor:
        result = leaf.clone(memory_format=torch.contiguous_format)
        places = torch.empty(min(_SPECIALS, leaf.numel()), dtype=torch.int64)
        fill(places, stream.integers(places.numel(), 0, leaf.numel() - 1))
        for which, place in enumerate(places.tolist()):
            result.view(-1)[place] = specials[which % len(specials)]
        return result

    return probe


_FAMILY: Mapping[str, Callable[[torch.Tensor, TensorSpec, Stream], torch.Tensor]] = {
    "signed": _signed,
    "scaled_small": _scaled_small,
    "scaled_large": _scaled_large,
    "heavy_tailed": _heavy_tailed,
    "one_hot": _one_hot,
    "permuted": _permuted,
    "constant": _constant,
    "sorted": _sorted,
    "nan_probe": _probe([float("nan")]),
    "inf_probe": _probe([float("inf"), float("-inf")]),
}


def _laid_out(leaf: torch.Tensor, spec: TensorSpec, layout: str) -> torch.Tensor:
    """`leaf` in memory of its own with the strides that spec and layout ask for."""
    shape = tuple(leaf.shape)
    if layout == "strided" and leaf.dim():
        return torch.empty(*shape[:-1], 2 * shape[-1], dtype=leaf.dtype)[..., ::2].copy_(leaf)
    if layout == "offset":
        return torch.empty(leaf.numel() + _OFFSET, dtype=leaf.dtype)[_OFFSET:].view(shape).copy_(leaf)
    if layout == "channels_last" and leaf.dim() in (4, 5):
        form = torch.channels_last if leaf.dim() == 4 else torch.channels_last_3d
        return torch.empty(shape, dtype=leaf.dtype, memory_format=form).copy_(leaf)
    if spec.stride is not None and shape == spec.example_shape:
        return _with_stride(leaf, spec.stride)
    return leaf.clone(memory_format=torch.contiguous_format)


def _with_stride(leaf: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    """A stride of 0 means that the values along that dimension are one value: the first is taken."""
    repeated = [dim for dim, step in enumerate(stride) if step == 0 and leaf.shape[dim] > 1]
    base = leaf
    for dim in repeated:
        base = base.narrow(dim, 0, 1)
    laid = torch.empty_strided(base.shape, stride, dtype=leaf.dtype).copy_(base)
    return laid.expand(leaf.shape) if repeated else laid
