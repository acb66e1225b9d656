"""C++ kernels on the CPU."""

import json
import re
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kernelwright.errors import CompileError, UsageError
from kernelwright.records import BuildRequest, digest
from kernelwright.targets.entry import generate
from kernelwright.targets.entry.signature import kernels
from kernelwright.toolchain import clang
from kernelwright.toolchain.features import arch, features

_FILE = "kernel.cpp"
"""What the compiler's messages call the user's text."""


class CppLanguage:
    """Text with `kernel void name(...)` functions; see runtime/kernelwright.hpp for what it may use.

    Option `constants`: a mapping of names to numbers that the text can use as macros.
    """

    name = "cpp"
    file = _FILE
    options = frozenset({"constants"})

    def missing(self) -> str | None:
        return clang.missing()

    def key(self, request: BuildRequest) -> Sequence[str]:
        return (clang.compiler(), sys.platform, arch(), *features(), _runtime())

    def build(self, request: BuildRequest, folder: Path) -> Path:
        text = self.unit(request)
        result = folder / "kernel.so"
        object_file = folder / "kernel.o"
        log = clang.compile_object(text, object_file, system=sys.platform, arch=arch(), features=features())
        clang.link(object_file, result, system=sys.platform, arch=arch())
        for path in folder.iterdir():
            if path != result:  # on macOS the linker leaves its cache
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        if log:
            (folder / "log.txt").write_text(log)
        return result

    def unit(self, request: BuildRequest) -> str:
        return unit(request)

    def load(self, path: Path, request: BuildRequest) -> Any:
        from kernelwright.targets.entry.library import Library

        return Library(path, kernels(request.source, _FILE), request)


@cache
def _runtime() -> str:
    """Names everything of ours that decides what comes out."""
    return digest(clang.FLAGS, prelude(), Path(generate.__file__).read_text())


@cache
def prelude() -> str:
    """The text before every kernel file. Marked as a system header: its warnings concern nobody."""
    folder = Path(__file__).parent.parent / "runtime"
    parts = [
        f'# 1 "{name}" 3\n{(folder / name).read_text()}'
        for name in ("kernelwright.hpp", "math.hpp", "tiles.hpp", "entry.hpp")
    ]
    guards = "".join(f"#undef {name}\n" for name in ("__has_include", "__has_include_next", "__has_embed"))
    return '# 1 "prelude" 3\n' + guards + "\n".join(parts)


def unit(request: BuildRequest) -> str:
    """The whole text that the compiler sees: prelude, entries, constants, the user's text under its own line numbers.

    The entries stand before the user's text, so that none of its macros can change them.
    """
    if "\0" in request.source:
        raise CompileError(f"{_FILE}: the text holds a zero byte")
    declared = generate.entries(kernels(request.source, _FILE), _FILE)
    constants = _constants(dict(request.options).get("constants", "{}"))
    return f'{prelude()}\n# 1 "entries" 3\n{declared}\n{constants}# 1 "{_FILE}"\n{request.source}\n'


def _constants(text: str) -> str:
    lines = []
    for name, value in sorted(json.loads(text).items()):
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise UsageError(f"constant {name!r} is no C++ identifier")
        if not isinstance(value, (bool, int, float)):
            raise UsageError(f"constant {name} must be a number, not {value!r}")
        lines.append(f"#define {name} {_number(value)}\n")
    return "".join(lines)


def _number(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": '__builtin_nan("")', "inf": "__builtin_inf()", "-inf": "(-__builtin_inf())"}[str(value)]
    return repr(value)
