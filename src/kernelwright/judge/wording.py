"""The sentences a kernel's author reads: which output, where, what was expected, which inputs; never a secret seed."""

import json
from collections.abc import Sequence
from typing import Any

from kernelwright.judge.cases import told
from kernelwright.judge.evidence import Call


def wrong(call: Call, place: int) -> str:
    """Output `place` of `call` differs from what is allowed."""
    output = call.outputs[place]
    found = output.difference
    assert found is not None
    where = f"{_named(call, place)} ({output.dtype} {list(output.shape)}) at {list(found.index)}"
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


def _named(call: Call, place: int) -> str:
    """ "output 0", and where the result is a dict also the way to it: "output 1, gradients[0],"."""
    way = _way(json.loads(call.expected_nest), place) if '"dict"' in call.expected_nest else None
    return f"output {place}, {way}," if way else f"output {place}"


def _way(nest: Any, place: int) -> str | None:
    if isinstance(nest, dict) and "tensor" in nest:
        return "" if nest["tensor"] == place else None
    if isinstance(nest, dict) and "dict" in nest:
        parts = [(f".{name}", part) for name, part in nest["dict"].items()]
    else:
        found = nest["tuple"] if isinstance(nest, dict) else nest if isinstance(nest, list) else []
        parts = [(f"[{index}]", part) for index, part in enumerate(found)]
    ways = ((name, _way(part, place)) for name, part in parts)
    return next(((name + way).removeprefix(".") for name, way in ways if way is not None), None)
