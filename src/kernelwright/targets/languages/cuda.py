"""CUDA C++ kernels on NVIDIA GPUs."""

import ctypes
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelwright import sandbox
from kernelwright.errors import CompileError, LaunchError, UnknownNameError, UsageError
from kernelwright.records import BuildRequest, digest_bytes
from kernelwright.targets.devices import cuda
from kernelwright.targets.entry.signature import TYPES, KernelSignature, kernels
from kernelwright.toolchain import nvrtc
from kernelwright.toolchain.driver import ask

_FILE = "kernel.cu"
_MARK = "__global__"
_TYPES = {
    **TYPES,
    "__half": "half",
    "half2": "half",
    "__half2": "half",
    "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "__nv_bfloat162": "bfloat16",
    "float2": "float32",
    "float4": "float32",
    "double2": "float64",
    "int2": "int32",
    "int4": "int32",
    "int8": "int8",
    "int16": "int16",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
    "unsigned": "int32",
    "unsigned int": "int32",
    "size_t": "int64",
}
_SCALARS = {
    "int64": ctypes.c_int64,
    "int32": ctypes.c_int32,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "bool": ctypes.c_bool,
    "int8": ctypes.c_int8,
    "int16": ctypes.c_int16,
    "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
}
_DTYPES = {"half": "float16"}
_LIMIT_S = 300
_DYNAMIC_SHARED_ATTRIBUTE = 8
_PLAIN_SHARED_BYTES = 48 << 10


class CudaLanguage:
    """Text with `__global__ void name(...)` functions, as NVIDIA's run-time compiler takes it: cuda_fp16.h and its
    like may be included where they are installed. Option `constants`: names to numbers, as macros."""

    name = "cuda"
    file = _FILE
    options = frozenset({"constants"})

    def missing(self) -> str | None:
        return nvrtc.missing()

    def key(self, request: BuildRequest) -> Sequence[str]:
        path = nvrtc.library()
        return (str(path and path.resolve().name), cuda.arch(), *nvrtc.FLAGS, digest_bytes(_text(nvrtc.__file__)))

    def build(self, request: BuildRequest, folder: Path) -> Path:
        found = kernels(request.source, _FILE, _MARK, _TYPES)
        options = [f"--gpu-architecture={cuda.arch()}", *nvrtc.FLAGS, *_constants(request)]
        options += [f"--include-path={path}" for path in nvrtc.includes()]
        names = [kernel.name for kernel in found]
        order = {"library": str(nvrtc.library()), "source": request.source, "file": _FILE}
        order |= {"names": names, "options": options}
        words = [sys.executable, "-I", "-S", nvrtc.__file__]
        if sandbox.missing() is None:
            limits = sandbox.Limits(memory_bytes=8 << 30, cpu_s=_LIMIT_S)
            readable = [*_PYTHON, nvrtc.__file__, *nvrtc.readable()]
            words = sandbox.command(words, readable=readable, writable=[folder], limits=limits)
        else:
            _refuse_includes(request.source)
        done = subprocess.run(
            words, input=json.dumps(order), capture_output=True, text=True, errors="replace", cwd=folder
        )
        if done.returncode:
            log = done.stderr.strip() or f"the compiler ended with code {done.returncode}"
            first = next((line for line in log.splitlines() if "error" in line), log.splitlines()[0])
            raise CompileError(first, log[-8000:])
        return folder / nvrtc.CODE

    def load(self, path: Path, request: BuildRequest) -> "CudaLibrary":
        names = json.loads((path.parent / nvrtc.NAMES).read_text())
        return CudaLibrary(path, kernels(request.source, _FILE, _MARK, _TYPES), names)


class CudaLibrary:
    """A callable attribute for each kernel: `lib.scale(out, x, n, 2.0, threads=(n,), group_size=(256,))`."""

    def __init__(self, path: Path, signatures: Sequence[KernelSignature], names: Mapping[str, str]) -> None:
        self._kernels = {item.name: CudaKernel(path, item, names[item.name]) for item in signatures}
        self.path = path

    def __getattr__(self, name: str) -> "CudaKernel":
        found = self.__dict__.get("_kernels", {})
        if name.startswith("__") or name not in found:
            raise AttributeError(str(UnknownNameError("kernel", name, found)))
        return found[name]

    def __dir__(self) -> list[str]:
        return sorted(self._kernels)

    def __deepcopy__(self, memo: dict[int, Any]) -> "CudaLibrary":
        return self


class CudaKernel:
    """One kernel, launched on torch's current stream; it has not ended when the call returns."""

    def __init__(self, path: Path, signature: KernelSignature, symbol: str) -> None:
        self.signature = signature
        self._path, self._symbol = path, symbol
        self._function: ctypes.c_void_p | None = None
        self._most_shared = _PLAIN_SHARED_BYTES
        self._dtypes: list[Any] = []
        """Of tensors; None for numbers. Empty until the first call, since it is torch that has them."""

    def __call__(
        self, *arguments: Any, threads: Sequence[int], group_size: Sequence[int] = (256,), shared_bytes: int = 0
    ) -> None:
        """Runs so many `threads` in blocks of `group_size`, both one to three numbers, x first; the last blocks are
        whole ones, so the kernel must look whether its index is in range. Raises LaunchError."""
        import torch

        parameters = self.signature.parameters
        if len(arguments) != len(parameters):
            raise LaunchError(f"{self.signature} takes {len(parameters)} arguments, got {len(arguments)}")
        dtypes = self._dtypes or self._read_dtypes()
        count = len(parameters)
        cells = (ctypes.c_uint64 * count)()
        first = ctypes.addressof(cells)
        for place, (dtype, argument) in enumerate(zip(dtypes, arguments, strict=True)):
            if dtype is None:
                _SCALARS[parameters[place].type].from_buffer(cells, 8 * place).value = argument
            elif type(argument) is torch.Tensor and argument.dtype is dtype and argument.is_cuda:
                cells[place] = argument.data_ptr() if argument.is_contiguous() else self._address(place, argument)
            else:
                cells[place] = self._address(place, argument)
        x, y, z = _three(group_size)
        blocks = [-(-count // size) for count, size in zip(_three(threads), (x, y, z), strict=True)]
        pointers = (ctypes.c_void_p * count)(*range(first, first + 8 * count, 8))
        function = self._function or self._load()
        name = self.signature.name
        if shared_bytes > self._most_shared:
            ask(name, "cuFuncSetAttribute", function, _DYNAMIC_SHARED_ATTRIBUTE, shared_bytes)
            self._most_shared = shared_bytes
        stream = torch.cuda.current_stream().cuda_stream
        ask(name, "cuLaunchKernel", function, *blocks, x, y, z, shared_bytes, stream, pointers, None)

    def _read_dtypes(self) -> list[Any]:
        import torch

        names = [_DTYPES.get(item.type, item.type) if item.pointer else None for item in self.signature.parameters]
        self._dtypes = [name and getattr(torch, name) for name in names]
        return self._dtypes

    def _address(self, place: int, value: Any) -> int:
        """Of a tensor that is not just what is wanted. Raises LaunchError where it will not do."""
        import torch

        wanted, got = self._dtypes[place], f"a {type(value).__name__}"
        if isinstance(value, torch.Tensor):
            got = f"a {_word(value.dtype)} tensor on {value.device}"
            bytes = wanted is torch.uint8 and value.dtype is torch.bool  # a kernel may see booleans as what they are
            if not value.is_contiguous():
                got += f" of strides {value.stride()}"
            elif value.is_cuda and (value.dtype is wanted or bytes):
                return value.data_ptr()
        signature = self.signature
        raise LaunchError(
            f"{signature.name}: argument {place + 1}, {signature.parameters[place].name!r}: expected a contiguous "
            f"{_word(wanted)} tensor on the GPU, got {got}"
        )

    def _load(self) -> ctypes.c_void_p:
        import torch

        torch.cuda.current_stream().synchronize()  # makes torch's context this thread's
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        name = self.signature.name
        ask(name, "cuModuleLoadDataEx", ctypes.byref(module), self._path.read_bytes(), 0, None, None)
        ask(name, "cuModuleGetFunction", ctypes.byref(function), module, self._symbol.encode())
        self._function = function
        return function


def _word(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _three(numbers: Sequence[int]) -> tuple[int, int, int]:
    values = tuple(numbers)
    if not 1 <= len(values) <= 3 or any(value < 1 for value in values):
        raise LaunchError(f"threads and group_size are one to three numbers of at least 1, not {values}")
    x, y, z = (*values, 1, 1)[:3]
    return int(x), int(y), int(z)


def _refuse_includes(text: str) -> None:
    """For machines without a sandbox: nothing but headers of the compiler's own folders is read."""
    for line, directive in enumerate(text.replace("\\\n", "").splitlines(), 1):
        if re.match(r"\s*#\s*include", directive) and not re.match(r"\s*#\s*include\s*<\w[\w./]*>", directive):
            raise CompileError(f"{_FILE}:{line}: only headers of CUDA, in angle brackets, can be included here")
        if ".." in directive and "include" in directive:
            raise CompileError(f"{_FILE}:{line}: only headers of CUDA can be included here")


def _constants(request: BuildRequest) -> list[str]:
    found = []
    for name, value in sorted(json.loads(dict(request.options).get("constants", "{}")).items()):
        if not name.isidentifier() or not isinstance(value, (bool, int, float)):
            raise UsageError(f"constant {name!r} must be an identifier with a number, not {value!r}")
        found.append(f"--define-macro={name}={str(value).lower() if isinstance(value, bool) else value!r}")
    return found


_PYTHON = (sys.prefix, sys.base_prefix, "/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/urandom")


def _text(path: str) -> bytes:
    return Path(path).read_bytes()
