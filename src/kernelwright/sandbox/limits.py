"""What a confined process may use, and what was closed."""

from typing import NamedTuple

# NamedTuples and not dataclasses: `python -m kernelwright.sandbox` starts before every compilation, and importing
# dataclasses (with inspect) would double its start-up.


class Limits(NamedTuple):
    """Zero means no limit."""

    memory_bytes: int = 0
    """Private writable memory beyond what the process has when it is confined."""
    cpu_s: int = 0
    file_bytes: int = 1 << 30
    """Largest file it may write."""
    open_files: int = 512


class Confinement(NamedTuple):
    """What was closed."""

    system: str
    """"linux" or "darwin"."""
    landlock: int
    """Version of Landlock's interface; 0 where files are not closed."""
    seccomp: bool
    uid: int

    def __str__(self) -> str:
        if self.system == "darwin":
            return "sandbox profile"
        files = f"Landlock {self.landlock}" if self.landlock else "files NOT closed"
        return f"{files}, seccomp, uid {self.uid}"
