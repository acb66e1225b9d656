"""Records to plain JSON values and back, guided by their type hints."""

import dataclasses
import math
import types
import typing
from enum import Enum
from functools import cache
from typing import Any, TypeVar

Record = TypeVar("Record")
_PLAIN = frozenset((str, int, float, bool, type(None)))


def encode(value: Any) -> Any:
    """`value` as JSON: dataclasses become objects, tuples lists, enums their value."""
    if type(value) in _PLAIN:
        return value
    names = _names(type(value))
    if names is not None:
        return {name: encode(getattr(value, name)) for name in names}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a record holds plain values only, not {type(value).__name__}")


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    """Of a record's fields; None for other types."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def strict(value: Any) -> Any:
    """`value` (plain JSON) as every JSON reader takes it: NaN and infinities, which JSON lacks, become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [strict(item) for item in value]
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    return value


def decode(kind: type[Record], value: Any) -> Record:
    """The inverse of `encode` for the record type `kind`. Unknown keys are an error, missing ones take the default."""
    return _decode(kind, value)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode(kind: Any, value: Any) -> Any:
    if kind is Any:
        return value
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(typing.get_args(kind), value)
    if origin is tuple:
        items = typing.get_args(kind)
        if len(items) == 2 and items[1] is Ellipsis:
            return tuple(_decode(items[0], item) for item in value)
        return tuple(_decode(item_kind, item) for item_kind, item in zip(items, value, strict=True))
    if origin is dict:
        return {key: _decode(typing.get_args(kind)[1], item) for key, item in value.items()}
    if dataclasses.is_dataclass(kind):
        hints = _hints(typing.cast(type, kind))
        return typing.cast(Any, kind)(**{key: _decode(hints[key], item) for key, item in value.items()})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    return value


def _decode_union(kinds: tuple[Any, ...], value: Any) -> Any:
    if value is None:
        return None
    records = [kind for kind in kinds if dataclasses.is_dataclass(kind)]
    if isinstance(value, dict) and records:
        names = set(value)
        for kind in records:
            if names <= {field.name for field in dataclasses.fields(kind)}:
                return _decode(kind, value)
    plain = [kind for kind in kinds if kind is not type(None) and not dataclasses.is_dataclass(kind)]
    return _decode(plain[0], value) if len(plain) == 1 else value
