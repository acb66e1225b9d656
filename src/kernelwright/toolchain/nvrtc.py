"""NVIDIA's run-time compiler: CUDA C++ to machine code of a GPU. This file run as a program is one compilation.

It needs no GPU, no package and no headers of a system, and reads files only where the sandbox lets it. An order comes
as JSON on standard input; `kernel.cubin` and `names.json` are left in the current folder, the compiler's words on
standard error.
"""

import ctypes
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CODE, NAMES = "kernel.cubin", "names.json"
FLAGS = ("--std=c++17", "--extra-device-vectorization")


PRELUDE = "prelude.h"
_HEADERS = {
    PRELUDE: """
#pragma once
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define NAN __builtin_bit_cast(float, 0x7fc00000)
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-LLONG_MAX - 1)
#define M_PI 3.14159265358979323846
#define M_E 2.7182818284590452354
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define M_2_SQRTPI 1.12837916709551257390
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
"""
}
"""What a text may take for granted that nvcc would compile, and the compiler alone does not know."""
_EMPTY = (
    "cuda.h cuda_runtime.h device_launch_parameters.h math.h cmath float.h cfloat limits.h climits stdint.h cstdint"
)
_HEADERS |= dict.fromkeys(_EMPTY.split(), "")


def missing() -> str | None:
    """Why CUDA C++ cannot be compiled here, as a sentence; None if it can."""
    if library() is None:
        return "NVIDIA's run-time compiler was not found: pip install nvidia-cuda-nvrtc, or a torch with CUDA"
    return None


@cache
def library() -> Path | None:
    """libnvrtc as the wheels or a CUDA toolkit bring it, the newest of them."""
    found = [path for folder in _folders("lib", "lib64") for path in folder.glob("libnvrtc.so*")]
    return max(found, key=_version, default=None)


@cache
def includes() -> tuple[Path, ...]:
    """Folders with NVIDIA's headers, such as cuda_fp16.h."""
    return tuple(folder for folder in _folders("include") if (folder / "cuda_fp16.h").exists())[:1]


def readable() -> tuple[str, ...]:
    """What a run reads beyond Python."""
    found = library()
    return tuple(str(path) for path in (*([found.parent, found.resolve().parent] if found else []), *includes()))


def _folders(*names: str) -> Iterable[Path]:
    spec = find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec else ():
        for part in ("cu*", "cuda_nvrtc", "cuda_runtime"):
            for place in sorted(Path(root).glob(part), reverse=True):
                yield from (place / name for name in names if (place / name).is_dir())
    for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        for name in (*names, *(f"targets/x86_64-linux/{name}" for name in names)):
            if root and (Path(root) / name).is_dir():
                yield Path(root) / name


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", path.name.removeprefix("libnvrtc")))


class _Refused(Exception):
    """The compiler's words about a text it does not take."""


def compile_text(
    nvrtc: ctypes.CDLL, source: str, file: str, names: Sequence[str], options: Sequence[str]
) -> tuple[bytes, dict[str, str]]:
    """Machine code, and what each of the kernels `names` is called in it."""
    program = ctypes.c_void_p()
    count = len(_HEADERS)
    texts = (ctypes.c_char_p * count)(*(text.encode() for text in _HEADERS.values()))
    files = (ctypes.c_char_p * count)(*(name.encode() for name in _HEADERS))
    made = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), file.encode(), count, texts, files)
    _check(nvrtc, made)
    for name in names:
        _check(nvrtc, nvrtc.nvrtcAddNameExpression(program, name.encode()))
    options = [*options, f"--pre-include={PRELUDE}"]
    words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    code = nvrtc.nvrtcCompileProgram(program, len(options), words)
    if code:
        raise _Refused(_text(nvrtc, program, "ProgramLog") or str(code))
    size = ctypes.c_size_t()
    _check(nvrtc, nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    made = ctypes.create_string_buffer(size.value)
    _check(nvrtc, nvrtc.nvrtcGetCUBIN(program, made))
    lowered = {}
    for name in names:
        found = ctypes.c_char_p()
        _check(nvrtc, nvrtc.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(found)))
        lowered[name] = (found.value or b"").decode()
    return made.raw, lowered


def _text(nvrtc: Any, program: ctypes.c_void_p, what: str) -> str:
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    made = ctypes.create_string_buffer(max(size.value, 1))
    getattr(nvrtc, f"nvrtcGet{what}")(program, made)
    return made.value.decode(errors="replace")


def _check(nvrtc: Any, code: int) -> None:
    if code:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise _Refused((nvrtc.nvrtcGetErrorString(code) or b"unknown error").decode())


def main() -> int:
    """Exit code 0: done; 1: standard error says why not."""
    order = json.load(sys.stdin)
    try:
        nvrtc = ctypes.CDLL(order["library"])
        code, names = compile_text(nvrtc, order["source"], order["file"], order["names"], order["options"])
    except _Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    Path(CODE).write_bytes(code)
    Path(NAMES).write_text(json.dumps(names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
