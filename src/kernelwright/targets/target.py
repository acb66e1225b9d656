"""A target is a language on a device. Each is one file of this room, found by its `name`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from kernelwright.records import Build, BuildRequest, Facts


class Target(Protocol):
    """A language on a device, as "cpp@cpu"."""

    name: str
    language: str
    device: str
    native: bool
    """False where a host stands in for the device: its verdicts never carry a time."""

    def missing(self) -> str | None:
        """Why it cannot run here, as a sentence that says what to install; None if it can."""
        ...

    def facts(self) -> Facts:
        """The device's facts, measured once a machine and remembered."""
        ...


class Language(Protocol):
    """Turns source text into a loadable file, and that into something to call. One file of `targets/languages`."""

    name: str

    def missing(self) -> str | None:
        """Why it cannot compile here; None if it can."""
        ...

    def key(self, request: BuildRequest) -> Sequence[str]:
        """What besides the request decides the result: compiler, runtime and resolved processor features."""
        ...

    def build(self, request: BuildRequest, folder: Path) -> Path:
        """Compiles into `folder` and returns the file. Runs in the broker. Raises CompileError."""
        ...

    def load(self, path: Path, request: BuildRequest) -> Any:
        """The library: an object with a callable attribute for each kernel. Runs where the candidate runs."""
        ...


class Broker(Protocol):
    """Compiles what `kernelwright.compile` is asked for. Candidates reach it through the judge and never write."""

    def build(self, request: BuildRequest) -> Build:
        """The compiled file, from the cache where it is there. Raises CompileError or MissingError."""
        ...
