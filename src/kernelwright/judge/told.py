"""What a child says, as far as it is well-formed: a hostile one may send anything that JSON can hold."""

from typing import Any

from kernelwright.judge.steps import Declared
from kernelwright.targets.surroundings import Change

_CHANGES = 20


def declared(returned: Any) -> tuple[str, tuple[Declared, ...]]:
    """What a child says of its result, as far as it is well-formed."""
    if not isinstance(returned, dict) or not isinstance(returned.get("tensors"), list):
        return "", ()
    found = []
    for item in returned["tensors"][:1000]:
        try:
            found.append(
                Declared(
                    kind=str(item["kind"])[:100],
                    dtype=str(item["dtype"])[:100],
                    shape=tuple(int(size) for size in item["shape"]),
                    stride=tuple(int(size) for size in item["stride"]),
                    device=str(item["device"])[:100],
                    input_alias=None if item["input_alias"] is None else int(item["input_alias"]),
                    output_alias=None if item["output_alias"] is None else int(item["output_alias"]),
                    state_alias=None if item["state_alias"] is None else str(item["state_alias"])[:200],
                )
            )
        except (TypeError, ValueError, KeyError, OverflowError):
            return "", ()
    return str(returned.get("template"))[:10000], tuple(found)


def changes(said: Any) -> tuple[Change, ...]:
    """What it says of its surroundings, the first of it."""
    return tuple(_change(item) for item in said[:_CHANGES]) if isinstance(said, list) else ()


def _change(said: Any) -> Change:
    what, matters = said if isinstance(said, list) and len(said) == 2 else ("it would not say", True)
    return Change(str(what)[:300], matters is not False)
