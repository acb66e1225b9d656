"""The user's text through clang's preprocessor: macros and includes resolved, line markers kept.

Metal's own headers are names without content here: the translated text includes the shim instead (shim/metal.hpp).
"""

import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.errors import CompileError, UsageError
from kernelwright.toolchain import clang

SHIM = Path(__file__).parent / "shim"
"""Headers that translated text includes."""

HEADERS = (
    "metal_stdlib",
    *(
        f"metal_{name}"
        for name in re.findall(
            r"\w+",
            "array assert atomic bfloat common compute config extended_vector geometric graphics half integer limits "
            "logging math matrix numeric pack packed_vector quadgroup relational simdgroup simdgroup_matrix stdlib "
            "texture type_traits types uniform utility",
        )
    ),
    "simd/simd.h",
)
"""Metal's own headers that may be included; what they hold is in the shim."""

_DEFINED = (
    "-D__METAL__=1",
    "-D__METAL_VERSION__=400",
    "-D__METAL_MACOS__=1",
    "-D__HAVE_BFLOAT__=1",
    "-D__HAVE_ATOMIC_ULONG__=1",
    "-D__HAVE_SIMDGROUP_REDUCTION__=1",
    "-D__HAVE_SIMDGROUP_MATRIX__=1",
)
_NOT_DEFINED = ("__x86_64__", "__amd64__", "__linux__", "__gnu_linux__", "__ELF__", "__SSE2__", "__STDC_HOSTED__")


@dataclass(frozen=True)
class Preprocessed:
    """Text with line markers, and the files that went into it, the source itself apart."""

    text: str
    files: tuple[str, ...]


def preprocess(source: str, name: str, include_dirs: Sequence[str], defines: Sequence[str] = ()) -> Preprocessed:
    """`name` stands for the source in messages; includes in quotes are looked for beside it first.

    Raises CompileError with clang's words, UsageError for an include folder that is none.
    """
    for folder in include_dirs:
        if not Path(folder).is_dir():
            raise UsageError(f"include folder {folder} is not there")
    with tempfile.TemporaryDirectory(prefix="kernelwright-metal-") as scratch:
        folder = Path(scratch).resolve()
        headers, result = folder / "headers.yaml", folder / "result.ii"
        headers.write_text(_overlay())
        arguments = ["-E", "-x", "c++", "-std=gnu++17", "-nostdinc", "-target", "x86_64-linux-gnu"]
        arguments += ["-fno-color-diagnostics", "-Wno-everything", *_DEFINED]
        arguments += [f"-U{word}" for word in _NOT_DEFINED]
        arguments += [f"-D{define}" for define in defines]
        arguments += ["-ivfsoverlay", str(headers), "-isystem", "/kernelwright-metal"]
        beside = [str(Path(name).parent)] if "/" in name else []
        arguments += [word for path in beside for word in ("-iquote", path)]
        arguments += [f"-I{path}" for path in include_dirs]
        arguments += ["-include", str(SHIM / "macros.h"), "-", "-o", str(result)]
        readable = [SHIM, *map(Path, include_dirs), *map(Path, beside)]
        try:
            clang.run(arguments, folder, f'#line 1 "{name}"\n{source}', readable=readable)
        except CompileError as error:
            raise _told(error) from None
        text = result.read_text()
    files = sorted(set(re.findall(r'(?m)^# \d+ "((?:[^"\\]|\\.)+)"', text)))
    return Preprocessed(text, tuple(file for file in files if file != name and Path(file).is_file()))


def _overlay() -> str:
    """A file system that holds Metal's header names, all of them empty."""
    empty = str(SHIM / "empty.h")
    files = [{"type": "file", "name": f"/kernelwright-metal/{name}", "external-contents": empty} for name in HEADERS]
    return json.dumps({"version": 0, "use-external-names": False, "roots": files})


def _told(error: CompileError) -> CompileError:
    """Without the compiler's advice for kernels in plain C++, which have no headers."""
    log = error.log.partition("\nKernels are compiled without headers")[0]
    match = re.search(r"fatal error: '([^']+)' file not found", log)
    if match and match[1].startswith(("MetalPerformancePrimitives", "metal_tensor", "metal_cooperative_tensor")):
        return CompileError(f"{match[1]} holds Metal 4 tensors, which are not hosted here", log)
    if match := re.search(r"fatal error: cannot open file '([^']+)'", log):
        file = Path(match[1]).resolve()
        sentence = f"{file} may not be read: it lies outside the source's folder and the include folders"
        return CompileError(f"{sentence}; if it is meant, make {file.parent} one (-I, include_dirs=)", log)
    return CompileError(str(error).split("\n", 1)[0], log)
