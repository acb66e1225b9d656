"""The broker as hearings see it: long compilations step aside for the clock, and end with the judge."""

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

from kernelwright.errors import CompileError
from kernelwright.judge.gate import Gate
from kernelwright.records import Build, BuildRequest
from kernelwright.targets import Broker, groups


class Building:
    """See Broker. `end` ends what is compiled now, and refuses what is asked for later."""

    def __init__(self, broker: Broker, gate: Gate) -> None:
        self._broker, self._gate = broker, gate
        self.folder: Path | None = getattr(broker, "folder", None)
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._ended = False

    def build(self, request: BuildRequest) -> Build:
        """The compiled file. Raises CompileError and MissingError, as the broker does."""
        mine: list[int] = []
        with self._gate.aside() as step:

            def tell(group: int) -> None:
                with self._lock:
                    mine.append(group)
                    self._groups.add(group)
                    if self._ended:
                        _kill(group)
                step(group)

            try:
                if self._ended:
                    raise CompileError("the judge was closed")
                with groups.told(tell):
                    return self._broker.build(request)
            finally:
                with self._lock:
                    self._groups.difference_update(mine)

    def end(self) -> None:
        """From any thread."""
        with self._lock:
            self._ended = True
            for group in self._groups:
                _kill(group)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
