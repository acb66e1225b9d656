"""Everything kernelwright raises, as one tree:

    KernelwrightError
    ├── UsageError            what the caller gave is wrong; the command line exits with 2
    │   ├── UnknownNameError  no target, writer, check or class of that name; names the nearest
    │   ├── ProblemError      the reference cannot be loaded or judged
    │   │   └── TooLargeError judging it needs more memory than this machine has: a verdict, not a mistake
    │   ├── loops.UnsupportedError  a Python loop uses what no loop program has; the message names the place
    │   ├── ArtifactError     a saved artifact is damaged, foreign and not trusted, or does not fit the model
    │   └── ArchiveError      an archive of a newer version, or a damaged one
    ├── MissingError          this machine lacks what was asked for; the message says what to install
    ├── CaptureError          a module cannot be turned into a graph; the message says why and where
    ├── LoweringError         a graph holds what the loop-nest generator does not cover
    ├── CompileError          a kernel's source does not compile; carries the compiler's own words
    ├── LaunchError           a kernel was called with arguments that do not fit it
    └── SandboxError          the sandbox could not be closed; nothing ran

A candidate's failure is a Verdict and never escapes the judge as an exception.
"""

import difflib
from collections.abc import Iterable
from typing import Any


class KernelwrightError(Exception):
    """Anything this package raises on purpose."""


class UsageError(KernelwrightError):
    """What the caller gave is wrong."""


class UnknownNameError(UsageError):
    """No such name. `kind` is the noun of the thing looked for, as "target" or "writer"."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known) or 'none'}"
        super().__init__(f"no {kind} is called {name!r}; {hint}")
        self.kind, self.name, self.known = kind, name, known


class ProblemError(UsageError):
    """The reference cannot be loaded or cannot be judged on this machine."""


class TooLargeError(ProblemError):
    """The machine cannot hold the problem while it is judged. Carries the Problem, whose signature is not known yet."""

    def __init__(self, message: str, problem: Any) -> None:
        super().__init__(message)
        self.problem = problem


class ArtifactError(UsageError):
    """A saved artifact is damaged, foreign and not trusted, or does not fit the model."""


class ArchiveError(UsageError):
    """The archive cannot be opened."""


class MissingError(KernelwrightError):
    """This machine lacks something; the message says what to install."""


class CaptureError(KernelwrightError):
    """A module cannot be turned into a graph."""


class LoweringError(KernelwrightError):
    """A graph holds what the loop-nest generator does not cover."""


class CompileError(KernelwrightError):
    """A kernel's source does not compile. `log` holds the compiler's own words, `message` the first of them."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(log if message in log else f"{message}\n{log}".rstrip())
        self.message, self.log = message, log


class LaunchError(KernelwrightError):
    """A kernel was called with arguments that do not fit it."""


class SandboxError(KernelwrightError):
    """The sandbox could not be closed."""
