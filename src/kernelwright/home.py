"""Where kernelwright keeps what outlives a run: archive, compile cache, signing key, device measurements."""

import os
import sys
from pathlib import Path


def home() -> Path:
    """The folder, made if needed: $KERNELWRIGHT_HOME, else the platform's cache folder."""
    named = os.environ.get("KERNELWRIGHT_HOME")
    if named:
        folder = Path(named).expanduser()
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Caches" / "kernelwright"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        folder = Path(base) / "kernelwright"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
