"""The host of NVIDIA GPUs: entries as PTX, loaded by the driver and launched on torch's current stream."""

import ctypes
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from kernelwright.errors import LaunchError, MissingError, UsageError
from kernelwright.records import digest
from kernelwright.simt import compiling, convergence, glue, matrix_loads, mma, ptx, store, threads, wide
from kernelwright.simt.library import Argument, Grid, Library, Report
from kernelwright.simt.unit import Entry, Unit
from kernelwright.toolchain import clang
from kernelwright.toolchain.driver import ask, driver

ARCH = "sm_80"
"""The oldest GPU with the tensor instructions that runtime/cuda.hpp uses. Newer ones take its PTX as well."""

_FLAGS = (
    "-std=gnu++20",
    "-O3",
    "-ffreestanding",
    "-nostdinc",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fno-color-diagnostics",
    "-ferror-limit=12",
    "-Werror=date-time",
    "-mllvm",
    "-inline-threshold=100000",  # as GPU compilers do: a call would keep matrices in memory
    "-mllvm",
    "-sink-common-insts=false",  # neighbours stay together, for one wide access (wide.py)
)


def _clang(*words: str) -> tuple[str, ...]:
    return tuple(part for word in words for part in ("-Xclang", word))


# Not as CUDA: as C++ for the GPU, in SYCL's mode, which has address spaces that convert to the plain one.
_DEVICE = (
    "-target",
    "nvptx64-nvidia-cuda",
    f"-march={ARCH}",
    *_clang("-fsycl-is-device", "-aux-triple", "x86_64-linux-gnu", "-target-feature", "+ptx80"),
)

_ARGUMENTS = 32
_ALIGNMENT = 256
_ROW_BLOCK = 256
_WIDE = re.compile(r"\b(?:ld|st)\.global\.v[24]\.")
_WAITS = re.compile(r"\b(?:bar|barrier|shfl|vote|activemask|match|mma|movmatrix|ldmatrix|call)\b")
_VALUE_BYTES = 1 << 20
_DYNAMIC_SHARED_ATTRIBUTE = 8
_PLAIN_SHARED_BYTES = 48 << 10
_JIT_MAX_REGISTERS, _JIT_ERROR_LOG, _JIT_ERROR_LOG_BYTES = 0, 5, 6
_REGISTERS = ((256, None), (512, 128), (1024, 64))
"""Threads of a block and what each may have of a multiprocessor's 65536 registers.

None where any number fits: told of 255, NVIDIA's assembler takes 140 for a GEMM to which it gives 101 if not told.
"""
_Position = ctypes.c_uint32 * 3


class _Launch(ctypes.Structure):
    """struct Launch of runtime/cuda.hpp."""

    _fields_ = (
        ("buffers", ctypes.c_void_p * _ARGUMENTS),
        ("group_memory", ctypes.c_uint32 * _ARGUMENTS),
        ("grid", _Position),
        ("group", _Position),
        ("groups", _Position),
    )


def missing() -> str | None:
    """Why no PTX can be made here, as a sentence; None if it can. Running it needs a GPU besides."""
    if libdevice() is None:
        return "NVIDIA's math functions (libdevice) are not installed: pip install nvidia-nvvm, or a torch with CUDA"
    return clang.missing()


@cache
def libdevice() -> Path | None:
    """libdevice.10.bc as triton, the nvidia-nvvm wheel or a CUDA toolkit brings it."""
    folders = [
        *_package("triton", "backends/nvidia/lib"),
        *_package("nvidia", "cu13/nvvm/libdevice", "cuda_nvcc/nvvm/libdevice"),
        *(Path(root) / "nvvm/libdevice" for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if root),
    ]
    return next((path for folder in folders if (path := folder / "libdevice.10.bc").is_file()), None)


def _package(name: str, *below: str) -> list[Path]:
    spec = find_spec(name)
    return [Path(root) / path for root in (spec.submodule_search_locations or ()) for path in below] if spec else []


def build(unit: Unit, entries: Sequence[Entry]) -> Library:
    """The entries as PTX. Raises CompileError, MissingError."""
    reason = missing()
    if reason:
        raise MissingError(reason)
    if unit.simd_width != 32:
        raise UsageError(f"SIMD groups of {unit.simd_width} threads don't run on NVIDIA GPUs, whose warps have 32")
    key = digest(
        "simt",
        "cuda",
        unit.digest,
        glue.cuda(entries),
        _FLAGS,
        _DEVICE,
        _passes(),
        clang.compiler(),
        compiling.runtime_digest(),
    )

    def make(folder: Path) -> tuple[dict, Iterable[Path]]:
        start = time.monotonic()
        log, read = _compile(unit, entries, folder)
        return {"log": log, "seconds": round(time.monotonic() - start, 3)}, read

    stored = store.recall_or(key, make)
    return library(stored.folder / "library.ptx", entries, cached=stored.cached, log=stored.record["log"])


@cache
def _passes() -> str:
    """Names what is done to PTX."""
    return digest(
        *(Path(module.__file__ or "").read_text() for module in (ptx, mma, threads, matrix_loads, wide, convergence))
    )


def library(path: Path, entries: Sequence[Entry], *, cached: bool = True, log: str = "") -> Library:
    """The entries in a PTX file, in the order in which they were compiled."""
    return Library(entries, _CudaHost(path, len(entries)), path=path, cached=cached, log=log)


def _compile(unit: Unit, entries: Sequence[Entry], folder: Path) -> tuple[str, list[Path]]:
    reads, bitcode = folder / "raw.d", folder / "libdevice.bc"
    source = libdevice()
    assert source is not None
    bitcode.write_bytes(source.read_bytes())  # the sandbox need not open the folder it comes from
    arguments = [*_DEVICE, *_FLAGS, "-x", "c++", "-DSIMT_CUDA=1", "-DSIMT_WIDTH=32"]
    arguments += [*unit.flags, f"-I{compiling.RUNTIME}", *(f"-I{path}" for path in unit.include_dirs)]
    arguments += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(bitcode), "-MD", "-MF", str(reads)]
    text = unit.text + '\n# 1 "entries" 3\n#include "simt.hpp"\n' + glue.cuda(entries)
    readable = [compiling.RUNTIME, *map(Path, unit.include_dirs)]
    result = folder / "library.ptx"
    log = clang.run([*arguments, "-S", "-", "-o", str(result)], folder, text, readable=readable)
    text = convergence.without_idle_waits(mma.multiplied(result.read_text()))
    result.write_text(convergence.converged(wide.widened(matrix_loads.gathered(text))))
    read = compiling.included(reads.read_text())
    reads.unlink()
    bitcode.unlink()
    return log, [path for path in read if path != bitcode]


class _CudaHost:
    def __init__(self, path: Path, entries: int) -> None:
        self._path = path
        text = path.read_text()
        self._rows = [_gains_by_rows(text, index) for index in range(entries)]
        self._modules: dict[tuple[int, int | None], ctypes.c_void_p] = {}  # by context and registers
        self._functions: dict[tuple[int, int | None, str], ctypes.c_void_p] = {}  # by those and the name
        self._values: dict[tuple[int, bytes], int] = {}  # addresses of values given as bytes, by context
        self._blocks: dict[int, tuple[int, int]] = {}  # the memory they lie in and how much of it is taken, by context

    def launch(
        self, index: int, entry: Entry, arguments: Mapping[int, Argument], grid: Grid, group_memory: Mapping[int, int]
    ) -> Report:
        context, stream = _current()
        block = -(-grid.group[0] * grid.group[1] * grid.group[2] // 32) * 32
        name = f"simt_entry_{index}"
        if self._rows[index] and _can_be_cut(arguments, grid):
            name, grid = f"simt_row_{index}", Grid(grid.threads, (4 * _ROW_BLOCK, 1, 1))
            block = _ROW_BLOCK
        function = self._function(context, next(r for most, r in _REGISTERS if block <= most), name)
        launch = _Launch()
        launch.grid[:], launch.group[:], launch.groups[:] = grid.threads, grid.group, grid.groups
        self._give(entry, launch, arguments, context)
        shared = 0
        for number, size in sorted(group_memory.items()):
            launch.group_memory[number] = shared
            shared += -(-size // _ALIGNMENT) * _ALIGNMENT
        if shared > _PLAIN_SHARED_BYTES:
            ask(entry.name, "cuFuncSetAttribute", function, _DYNAMIC_SHARED_ATTRIBUTE, shared)
        pointer = (ctypes.c_void_p * 1)(ctypes.addressof(launch))
        ask(entry.name, "cuLaunchKernel", function, *grid.groups, block, 1, 1, shared, stream, pointer, None)
        x, y, z = grid.groups
        return Report(entry.name, "gpu", x * y * z, 0)

    def _function(self, context: int, registers: int | None, name: str) -> ctypes.c_void_p:
        found = self._functions.get((context, registers, name))
        if found is None:
            module = self._modules.get((context, registers))
            if module is None:
                module = self._modules[context, registers] = _load(self._path, registers)
            found = ctypes.c_void_p()
            ask(str(self._path), "cuModuleGetFunction", ctypes.byref(found), module, name.encode())
            self._functions[context, registers, name] = found
        return found

    def _give(self, entry: Entry, launch: _Launch, arguments: Mapping[int, Argument], context: int) -> None:
        """Writes the buffers' addresses."""
        for number, argument in arguments.items():
            if not 0 <= number < _ARGUMENTS:
                raise LaunchError(f"{entry.name}: there is no buffer {number}; 0 to {_ARGUMENTS - 1} are there")
            launch.buffers[number] = (
                self._value(entry, context, argument) if isinstance(argument, bytes) else argument[0]
            )

    def _value(self, entry: Entry, context: int, value: bytes) -> int:
        """The address of device memory that holds `value`; it stays there, so that the next launch finds it."""
        address = self._values.get((context, value))
        if address is None:
            size = -(-max(len(value), 1) // _ALIGNMENT) * _ALIGNMENT
            if size > _VALUE_BYTES:
                raise LaunchError(
                    f"{entry.name}: a value of {len(value)} bytes; at most {_VALUE_BYTES} can be given so"
                )
            block, used = self._blocks.get(context, (0, 0))
            if not block:
                fresh = ctypes.c_uint64()
                ask(entry.name, "cuMemAlloc_v2", ctypes.byref(fresh), _VALUE_BYTES)
                block = fresh.value
            if used + size > _VALUE_BYTES:  # begin anew, once no launch reads the old ones
                ask(entry.name, "cuCtxSynchronize")
                self._values = {key: at for key, at in self._values.items() if key[0] != context}
                used = 0
            address = self._values[context, value] = block + used
            self._blocks[context] = block, used + size
            ask(entry.name, "cuMemcpyHtoD_v2", address, value, len(value))
        return address


def _gains_by_rows(ptx: str, index: int) -> bool:
    """Whether entry `index` may run four threads as one, as they never wait, and does larger accesses then."""
    one, four = (_body(ptx, f"simt_{kind}_{index}") for kind in ("entry", "row"))
    return bool(_WIDE.search(four)) and not _WIDE.search(one) and not _WAITS.search(four)


def _body(ptx: str, name: str) -> str:
    start = ptx.find(f".entry {name}(")
    return ptx[start : ptx.find("\n}", start)] if start >= 0 else ""


def _can_be_cut(arguments: Mapping[int, Argument], grid: Grid) -> bool:
    """Whether four neighbours may run as one: a row of fours, in aligned buffers that don't overlap."""
    if grid.threads[0] % 4 or grid.threads[1:] != (1, 1):
        return False
    places = sorted(argument for argument in arguments.values() if not isinstance(argument, bytes))
    apart = all(start + size <= following for (start, size), (following, _) in pairwise(places))
    return apart and all(address % 16 == 0 for address, _ in places)


def _load(path: Path, registers: int | None) -> ctypes.c_void_p:
    """The PTX, compiled by the driver (which keeps a cache of its own), for at most `registers` a thread if given."""
    module = ctypes.c_void_p()
    log = ctypes.create_string_buffer(4096)
    count = 2 if registers is None else 3
    options = (ctypes.c_int * 3)(_JIT_ERROR_LOG, _JIT_ERROR_LOG_BYTES, _JIT_MAX_REGISTERS)
    values = (ctypes.c_void_p * 3)(ctypes.addressof(log), len(log), registers)
    if driver().cuModuleLoadDataEx(ctypes.byref(module), path.read_bytes() + b"\0", count, options, values):
        raise LaunchError(f"{path}: the NVIDIA driver refuses the PTX: {log.value.decode(errors='replace').strip()}")
    return module


def _current() -> tuple[int, int]:
    """The CUDA context and stream to launch in: torch's, else the first GPU's own."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.init()
        stream = torch.cuda.current_stream().cuda_stream
    else:
        stream = 0
    context = ctypes.c_void_p()
    ask("cuda", "cuInit", 0)
    ask("cuda", "cuCtxGetCurrent", ctypes.byref(context))
    if not context.value:
        device = ctypes.c_int()
        ask("cuda", "cuDeviceGet", ctypes.byref(device), 0)
        ask("cuda", "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        ask("cuda", "cuCtxSetCurrent", context)
    return context.value or 0, stream
