"""The sentences a kernel's author reads: which output, where, what was expected, which inputs; never a secret seed."""

from collections.abc import Sequence

from kernelwright.judge.cases import told
from kernelwright.judge.evidence import Call


def wrong(call: Call, place: int) -> str:
    """Output `place` of `call` differs from what is allowed."""
    output = call.outputs[place]
    found = output.difference
    assert found is not None
    where = f"output {place} ({output.dtype} {list(output.shape)}) at {list(found.index)}"
    if found.lost + found.strange:
        what = f"is {found.got:.6g}, expected {found.expected:.6g}"
    else:
        off = abs(found.got - found.expected)
        what = f"is {found.got:.8g}, expected {found.expected:.8g}: off by {off:.3g}, allowed {found.allowed:.3g}"
    return f"{where} {what}; {found.wrong} of {found.count} elements are wrong ({told(call.case)})"


def right(calls: Sequence[Call], worst: float) -> str:
    """All of `calls` are within the budget; `worst` is the largest share of it that was used."""
    families = sorted({call.case.family for call in calls})
    return f"within {worst:.0%} of the error budget in {len(calls)} cases of {len(families)} families"
