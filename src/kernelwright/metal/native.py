"""The same call on a Mac: torch.mps compiles and runs, and this file only says what torch has no word for."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.errors import CompileError, UsageError
from kernelwright.metal.constants import Constants


def available() -> bool:
    """Whether torch can compile Metal here. Imports torch on macOS alone."""
    if sys.platform != "darwin":
        return False
    import torch

    return torch.backends.mps.is_available()


def compile_shader(
    source: str,
    include_dirs: Sequence[str | os.PathLike[str]],
    constants: Constants | None,
    *,
    name: str,
    defines: Sequence[str],
) -> Any:
    """torch's own library of `source`. Raises CompileError with Metal's words.

    torch resolves no includes but its own c10/metal headers and sets no function constants.
    """
    import torch

    if constants:
        raise UsageError("torch.mps.compile_shader sets no function constants: write their values into the source")
    own = Path(torch.__file__).parent / "include"
    if any(Path(folder).resolve() != own.resolve() for folder in include_dirs):
        raise UsageError("torch.mps.compile_shader has no include folders but torch's own: put headers into the source")
    head = "".join(f"#define {' '.join(define.split('=', 1))}\n" for define in defines)
    try:
        return torch.mps.compile_shader(f"{head}#line 1\n{source}" if head else source)
    except SyntaxError as error:
        raise CompileError(f"{name} does not compile", str(error)) from None
