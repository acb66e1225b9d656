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

    def walk(item: Any, path: str) -> Any:
        if is_tensor(item):
            leaves.append(item)
            return {"tensor": len(leaves) - 1}
        if item is None or isinstance(item, (bool, int, float, str)):
            return item
        if isinstance(item, tuple):
            return {"tuple": [walk(part, f"{path}[{i}]") for i, part in enumerate(item)]}
        if isinstance(item, list):
            return [walk(part, f"{path}[{i}]") for i, part in enumerate(item)]
        if isinstance(item, dict):
            return {"dict": {str(key): walk(part, f"{path}[{key!r}]") for key, part in item.items()}}
        raise TypeError(
            f"{path or 'the value'} is a {type(item).__name__}; tensors, numbers, strings, None and "
            "lists, tuples and dicts of them can be passed"
        )

    template = walk(value, "")
    return leaves, json.dumps(template)


def unflatten(template: str, leaves: Sequence[Any]) -> Any:
    """The value `template` was made from, with `leaves` in the place of its tensors."""

    def build(item: Any) -> Any:
        if isinstance(item, list):
            return [build(part) for part in item]
        if isinstance(item, dict):
            if "tensor" in item:
                return leaves[item["tensor"]]
            if "tuple" in item:
                return tuple(build(part) for part in item["tuple"])
            return {key: build(part) for key, part in item["dict"].items()}
        return item

    return build(json.loads(template))
