"""Compiles once per content, on disk, for all processes of this machine."""

import contextlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright import plugins
from kernelwright.errors import MissingError
from kernelwright.home import home
from kernelwright.records import Build, BuildRequest, digest
from kernelwright.targets.locking import alone
from kernelwright.targets.target import Broker, Language

_RECORD = "build.json"
LIMIT_BYTES = 4 << 30
"""What the cache may hold. An Inductor package is about a megabyte, a C++ kernel 30 KB."""
_DAY_S = 86400


def language(name: str) -> Any:
    """The Language called `name`. Raises UnknownNameError."""
    return plugins.find("targets.languages", "Language", name)()


class LocalBroker:
    """A cache of folders home()/compile/<aa>/<key>/, each written once and then only read.

    A folder appears complete or not at all. Two processes or threads that ask for the same thing compile it once.
    Above `limit_bytes` those go that were used longest ago, but none of the last day: a process may hold its path.
    `import_paths` are what the problem's own text needs on sys.path, for languages that run it.
    """

    def __init__(
        self, folder: Path | None = None, *, import_paths: Sequence[str] = (), limit_bytes: int = LIMIT_BYTES
    ) -> None:
        self.folder = folder or home() / "compile"
        self.import_paths = tuple(import_paths)
        self.limit_bytes = limit_bytes
        self._trimmed = False

    def build(self, request: BuildRequest) -> Build:
        """The compiled file. Raises CompileError, or MissingError where the language cannot compile here."""
        chosen = language(request.language)
        if hasattr(chosen, "import_paths"):
            chosen.import_paths = self.import_paths  # never out of a request, which may be hostile
        reason = chosen.missing()
        if reason:
            raise MissingError(reason)
        key = digest("compile", request.digest, tuple(chosen.key(request)))
        place = self.folder / key[:2] / key
        found = _recall(place)
        if found:
            return found
        place.parent.mkdir(parents=True, exist_ok=True)
        with alone(place.with_suffix(".lock")):
            found = _recall(place) or self._build(chosen, request, place)
        if not self._trimmed:  # once a process: it looks at every folder
            self._trimmed = True
            _trim(self.folder, self.limit_bytes)
        return found

    def _build(self, chosen: Language, request: BuildRequest, place: Path) -> Build:
        start = time.monotonic()
        _sweep(place.parent)
        # Beside its final place, so that the rename stays within one file system.
        work = Path(tempfile.mkdtemp(prefix=".building-", dir=place.parent))
        try:
            result = chosen.build(request, work)
            log_file = work / "log.txt"
            log = log_file.read_text() if log_file.exists() else ""
            log_file.unlink(missing_ok=True)
            record = {"file": result.name, "seconds": round(time.monotonic() - start, 3), "log": log}
            (work / _RECORD).write_text(json.dumps(record))
            os.chmod(work, 0o755)
            if place.exists():  # damaged: it is there and could not be recalled
                shutil.rmtree(place)
            os.rename(work, place)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        return Build(str(place / result.name), cached=False, seconds=record["seconds"], log=log)


def _sweep(folder: Path) -> None:
    """Removes what builds that were killed left behind, a day later."""
    for left in folder.glob(".building-*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _DAY_S:
                shutil.rmtree(left)


def _trim(folder: Path, limit_bytes: int) -> None:
    """Removes what was used longest ago until the rest fits, as far as it was not used for a day."""
    used: list[tuple[float, int, Path]] = []
    for record in folder.glob(f"*/*/{_RECORD}"):
        with contextlib.suppress(OSError):
            size_bytes = sum(file.stat().st_size for file in record.parent.iterdir())
            used.append((record.stat().st_mtime, size_bytes, record.parent))
    excess_bytes = sum(size_bytes for _, size_bytes, _ in used) - limit_bytes
    for last_s, size_bytes, place in sorted(used):
        if excess_bytes <= 0 or time.time() - last_s < _DAY_S:
            return
        with alone(place.with_suffix(".lock")):
            shutil.rmtree(place, ignore_errors=True)
        excess_bytes -= size_bytes


def _recall(place: Path) -> Build | None:
    try:
        record = json.loads((place / _RECORD).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    with contextlib.suppress(OSError):  # a cache that cannot be written to serves all the same
        os.utime(place / _RECORD)
    path = place / record["file"]
    return Build(str(path), cached=True, seconds=record["seconds"], log=record["log"]) if path.exists() else None


_broker: Broker | None = None
_broker_lock = threading.Lock()


def use_broker(broker: Broker | None) -> None:
    """Sets who compiles for this process; None goes back to a LocalBroker. The judge's children ask through a pipe."""
    global _broker
    _broker = broker


def broker() -> Broker:
    """Who compiles for this process."""
    global _broker
    with _broker_lock:
        if _broker is None:
            _broker = LocalBroker()
        return _broker
