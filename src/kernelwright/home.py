"""Where kernelwright keeps what outlives a run: archive, compile cache, signing key, what was measured and examined."""

import os
import sys
from pathlib import Path

from kernelwright.errors import UsageError


def home() -> Path:
    """The folder, made if needed: $KERNELWRIGHT_HOME, else the platform's cache folder. Raises UsageError."""
    named = os.environ.get("KERNELWRIGHT_HOME")
    if named:
        folder = Path(named).expanduser()
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Caches" / "kernelwright"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        folder = Path(base) / "kernelwright"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        where = "KERNELWRIGHT_HOME names" if named else "kernelwright keeps its results in"
        raise UsageError(f"{where} {folder}, which is no folder and cannot become one: {error.strerror}") from None
    return folder
