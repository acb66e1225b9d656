"""What was compiled, by content, on disk for all processes: home()/simt/<aa>/<key>/, written once, then only read."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright.home import home
from kernelwright.records.digest import digest_bytes

RECORD = "record.json"


@dataclass(frozen=True)
class Stored:
    """A build's folder and what was noted beside its files. `cached`: it was there already."""

    folder: Path
    record: Mapping[str, Any]
    cached: bool


def recall_or(key: str, make: Callable[[Path], tuple[Mapping[str, Any], Iterable[Path]]]) -> Stored:
    """The build called `key`; else what `make` puts into an empty folder, with its record and the files it read.

    A file that was read and has changed since makes the build stale. Two processes that ask at once both compile, and
    the first to finish is kept.
    """
    place = home() / "simt" / key[:2] / key
    record = _recall(place)
    if record is not None:
        return Stored(place, record, cached=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=place.parent))
    try:
        record, read = make(work)
        record = {**record, "read": {str(path): digest_bytes(path.read_bytes()) for path in read}}
        (work / RECORD).write_text(json.dumps(record))
        os.chmod(work, 0o755)
        if place.exists() and _recall(place) is None:
            shutil.rmtree(place)
        try:
            os.rename(work, place)
        except OSError:  # another process was quicker
            if _recall(place) is None:
                raise
            shutil.rmtree(work, ignore_errors=True)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return Stored(place, record, cached=False)


def _recall(place: Path) -> dict[str, Any] | None:
    try:
        record = json.loads((place / RECORD).read_text())
        fresh = all(digest_bytes(Path(path).read_bytes()) == was for path, was in record["read"].items())
    except (OSError, ValueError):
        return None
    return record if fresh else None
