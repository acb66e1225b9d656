"""What is to be made fast."""

from kernelwright.context.section import fenced
from kernelwright.records import Brief, Problem, Range, Section, TensorSpec, unflatten


class ProblemSection:
    """The reference's text, its call, and what exactness is asked."""

    name = "problem"
    place = 10
    limit = 16_000

    def write(self, brief: Brief) -> Section:
        problem = brief.problem
        parts = [_call(problem), _exactness(problem)]
        if problem.constants:
            listed = ", ".join(f"{item.name} {item.original} -> {item.used}" for item in problem.constants)
            parts.append(f"Sizes were reduced to fit the machine: {listed}.")
        if problem.opaque:
            parts.append(f"It has no graph: {problem.opaque}.")
        told = sum(map(len, parts))
        text = problem.readable or problem.source
        parts.insert(0, fenced(text, limit=max(1000, self.limit - told - 200)))
        if problem.readable and len(problem.readable) + len(problem.source) + told < self.limit:
            parts.append("The same as the graph computes it:\n" + fenced(problem.source))
        return Section(self.name, f"Problem: {problem.name}", "\n\n".join(parts))


def _call(problem: Problem) -> str:
    tensors = problem.signature.tensors
    call = unflatten(problem.signature.arguments, [_Name(spec.name) for spec in tensors])
    listed = [repr(value) for value in call["args"]] + [f"{key}={value!r}" for key, value in call["kwargs"].items()]
    lines = [f"Called as `forward({', '.join(listed)})`."]
    lines += [f"- `{spec.name}`: {_tensor(spec, tensors)}" for spec in tensors]
    return "\n".join(lines)


class _Name(str):
    def __repr__(self) -> str:
        return str(self)


def _tensor(spec: TensorSpec, tensors: tuple[TensorSpec, ...]) -> str:
    sizes = [
        f"{size.low}..{size.high} (timed at {size.example})" if isinstance(size, Range) else str(size)
        for size in spec.shape
    ]
    words = [f"{spec.dtype} ({', '.join(sizes)})"]
    if spec.alias_of is not None:
        words.append(f"the very tensor `{tensors[spec.alias_of].name}`")
    elif spec.stride is not None:
        words.append(f"strides {spec.stride}")
    if spec.low is not None and spec.high is not None:
        words.append(f"values from {spec.low:g} to {spec.high:g}")
    return ", ".join(words)


def _exactness(problem: Problem) -> str:
    numerics = problem.numerics
    mode = "train" if numerics.training else "eval"
    region = f", inside an autocast region of {numerics.autocast}" if numerics.autocast else ""
    return (
        f"It runs in {mode} mode{region}. Results are held to a float64 run of the reference, within a small multiple "
        "of the reference's own rounding error, on inputs and weights that are drawn after the candidate is handed in."
    )
