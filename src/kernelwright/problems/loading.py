"""From what the user names to a Problem."""

from collections.abc import Sequence
from typing import cast

from kernelwright.errors import UnknownNameError
from kernelwright.plugins import members
from kernelwright.problems.dialect import to_dialect
from kernelwright.problems.examine import examine
from kernelwright.problems.sources import ProblemSource, Reference
from kernelwright.problems.specs import parse
from kernelwright.records import Numerics, Problem, Signature, TensorSpec

_NO_CALL = Signature((), '{"dict": {"args": [], "kwargs": {"dict": {}}}}')


def load(
    ref: str,
    *,
    inputs: Sequence[str] = (),
    scale: str | None = None,
    training: bool = False,
    autocast: str | None = None,
) -> Problem:
    """The problem that `ref` names: "path/to/file.py:Class", "kernelbench:level2/40@DIR", "suite:softmax".

    The user's file is executed here: it is trusted as much as the user. `inputs` describes the arguments in words of
    one line (see specs.GRAMMAR) where the file has no `get_inputs`, or opens sizes of those it has. `scale` replaces
    size constants of the file: "auto", or "batch_size=8,dim=64". Raises ProblemError, or UsageError for a malformed
    argument, each with one sentence.
    """
    specs = tuple(parse(text, index) for index, text in enumerate(inputs))
    reference = read(ref)
    numerics = Numerics(training=training, autocast=autocast)
    problem = _draft(reference, specs, numerics)
    return examine(problem, specs)


def read(ref: str) -> Reference:
    """The text that `ref` names, by the first source that accepts the form. Raises UnknownNameError for a form of
    no source."""
    sources = [cast(ProblemSource, kind()) for kind in members("problems.sources", "Source").values()]
    for source in sources:
        if source.accepts(ref):
            return source.read(ref)
    raise UnknownNameError("problem", ref, [source.form for source in sources])


def _draft(reference: Reference, specs: Sequence[TensorSpec], numerics: Numerics) -> Problem:
    return Problem(
        name=reference.name,
        source=to_dialect(reference, specs),
        signature=_NO_CALL,
        numerics=numerics,
        origin=reference.origin,
        import_paths=reference.import_paths,
    )
