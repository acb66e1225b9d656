"""Content addresses: a record's digest is the sha256 of its canonical JSON."""

import hashlib
import json
from typing import Any

from kernelwright.records.encoding import encode


def digest(*parts: Any) -> str:
    """64 hex digits that name the content of `parts`: records, enums, tuples, dicts, strings, numbers, None."""
    text = json.dumps([encode(part) for part in parts], sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()


def digest_bytes(data: bytes | memoryview) -> str:
    """64 hex digits that name `data`."""
    return hashlib.sha256(data).hexdigest()
