"""From Metal source to a Unit that the SIMT host compiles; what was translated once is kept by content."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kernelwright.home import home
from kernelwright.metal import rules
from kernelwright.metal.constants import Constants
from kernelwright.metal.kernels import Constant
from kernelwright.metal.preprocess import SHIM, preprocess
from kernelwright.metal.translate import translate
from kernelwright.records import digest
from kernelwright.records.digest import digest_bytes
from kernelwright.simt import Entry, Parameter, Unit
from kernelwright.toolchain import clang

FLAGS = (
    "-std=gnu++17",  # what Metal 4 is made of; in C++20 a struct with a defaulted constructor is no aggregate
    "-fdeclspec",
    # Address spaces as types that convert to the default one. clang wants a second target in this mode.
    "-Xclang",
    "-fsycl-is-device",
    "-Xclang",
    "-aux-triple",
    "-Xclang",
    "x86_64-linux-gnu",
    f"-DMETAL_GROUP_MEMORY_BYTES={rules.GROUP_MEMORY_BYTES}",
    "-Wno-everything",
)
"""What the shim needs of clang. The user's own warnings would tell of words that we put there."""


@dataclass(frozen=True)
class Source:
    """A Metal source and what decides its meaning. `name` stands for it in messages."""

    text: str
    name: str = "shader.metal"
    include_dirs: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    constants: tuple[tuple[int | str, Any], ...] = ()


@dataclass(frozen=True)
class Module:
    """A translated source: its unit, and its function constants by name."""

    unit: Unit
    constants: tuple[Constant, ...]


def source(
    text: str,
    *,
    name: str = "shader.metal",
    include_dirs: Sequence[str | os.PathLike[str]] = (),
    defines: Sequence[str] = (),
    constants: Constants | None = None,
) -> Source:
    """A Source of plain values: folders made absolute, constants sorted."""
    folders = tuple(os.path.abspath(os.fspath(folder)) for folder in include_dirs)
    values = {
        key: tuple(v) if isinstance(v, Sequence) and not isinstance(v, str) else v
        for key, v in (constants or {}).items()
    }
    return Source(text, name, folders, tuple(defines), tuple(sorted(values.items(), key=str)))


def module(given: Source) -> Module:
    """Translates a source, or recalls it. Raises CompileError with the user's own places."""
    key = digest(
        "metal", given.text, given.name, given.include_dirs, given.defines, repr(given.constants), _own_digest()
    )
    path = home() / "metal" / key[:2] / f"{key}.json"
    known = _recalled(path)
    if known is not None:
        return known
    before = preprocess(given.text, given.name, given.include_dirs, given.defines)
    found = translate(before.text, dict(given.constants))
    unit = Unit(_headed(found.text), found.entries, (str(SHIM),), FLAGS)
    made = Module(unit, tuple(found.constants.values()))
    _keep(path, made, before.files)
    return made


def _headed(text: str) -> str:
    """The lists of swizzles come before the shim, the source after it."""
    lines = text.split("\n", 3)
    return "\n".join([*lines[:3], '#include "metal.hpp"', lines[3]])


@cache
def _own_digest() -> str:
    """Names the content of the shim and of the front end."""
    files = [*SHIM.rglob("*"), *Path(__file__).parent.glob("*.py")]
    found = [(path.name, digest_bytes(path.read_bytes())) for path in sorted(files) if path.is_file()]
    return digest(clang.compiler(), *found)


def _keep(path: Path, made: Module, files: Sequence[str]) -> None:
    record = {
        "text": made.unit.text,
        "digest": made.unit.digest,
        "entries": [asdict(entry) for entry in made.unit.entries],
        "constants": [asdict(constant) for constant in made.constants],
        "files": {file: digest_bytes(Path(file).read_bytes()) for file in files},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps(record))
    scratch.replace(path)


def _recalled(path: Path) -> Module | None:
    try:
        record = json.loads(path.read_text())
        unchanged = all(digest_bytes(Path(file).read_bytes()) == known for file, known in record["files"].items())
    except (OSError, ValueError, KeyError):
        return None
    if not unchanged:
        return None
    unit = Unit(record["text"], tuple(map(_entry, record["entries"])), (str(SHIM),), FLAGS)
    vars(unit)["digest"] = record["digest"]  # for a file of a hundred entries worth a few milliseconds
    return Module(unit, tuple(Constant(**constant) for constant in record["constants"]))


def _entry(fields: Mapping[str, Any]) -> Entry:
    return Entry(**{**fields, "parameters": tuple(Parameter(**parameter) for parameter in fields["parameters"])})
