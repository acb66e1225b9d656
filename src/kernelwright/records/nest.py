"""Nested arguments and results as leaves and a JSON template, without torch.

A tensor leaf is written {"tensor": i}, a tuple {"tuple": [...]}, a dict {"dict": {...}}; lists, None, booleans, numbers
and strings stand for themselves. Anything else cannot cross the border of a problem.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any


def flatten(value: Any, is_tensor: Callable[[Any], bool]) -> tuple[list[Any], str]:
    """The tensor leaves of `value` in order, and the template that `unflatten` takes.

    A tensor that occurs twice is one leaf each time. Raises TypeError with the path of a value that cannot cross.
    """
    leaves: list[Any] = []
    return leaves, json.dumps(_walk(value, "", leaves, is_tensor))


# Functions of the module: one that calls itself from within another is a circle, which would hold the tensors until
# the collector comes by.
def _walk(item: Any, path: str, leaves: list[Any], is_tensor: Callable[[Any], bool]) -> Any:
    def walk(part: Any, step: str) -> Any:
        return _walk(part, f"{path}{step}", leaves, is_tensor)

    if is_tensor(item):
        leaves.append(item)
        return {"tensor": len(leaves) - 1}
    if item is None or isinstance(item, (bool, int, float, str)):
        return item
    if isinstance(item, tuple):
        return {"tuple": [walk(part, f"[{i}]") for i, part in enumerate(item)]}
    if isinstance(item, list):
        return [walk(part, f"[{i}]") for i, part in enumerate(item)]
    if isinstance(item, dict):
        return {"dict": {str(key): walk(part, f"[{key!r}]") for key, part in item.items()}}
    raise TypeError(
        f"{path or 'the value'} is a {type(item).__name__}; tensors, numbers, strings, None and "
        "lists, tuples and dicts of them can be passed"
    )


def unflatten(template: str, leaves: Sequence[Any]) -> Any:
    """The value `template` was made from, with `leaves` in the place of its tensors."""
    return _build(json.loads(template), leaves)


def _build(item: Any, leaves: Sequence[Any]) -> Any:
    if isinstance(item, list):
        return [_build(part, leaves) for part in item]
    if isinstance(item, dict):
        if "tensor" in item:
            return leaves[item["tensor"]]
        if "tuple" in item:
            return tuple(_build(part, leaves) for part in item["tuple"])
        return {key: _build(part, leaves) for key, part in item["dict"].items()}
    return item
