"""NVIDIA's driver, by ctypes: it launches kernels and shares memory, and knows what GPU there is."""

import ctypes
from functools import cache
from typing import Any

from kernelwright.errors import LaunchError, MissingError

_POINTER, _SIZE, _FLAGS = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_ulonglong
_TYPES: dict[str, list[Any]] = {
    "cuFuncSetAttribute": [_POINTER, ctypes.c_int, ctypes.c_int],
    "cuLaunchKernel": [_POINTER, *[ctypes.c_uint] * 7, _POINTER, _POINTER, _POINTER],
    "cuMemAddressFree": [ctypes.c_uint64, _SIZE],
    "cuMemAddressReserve": [_POINTER, _SIZE, _SIZE, ctypes.c_uint64, _FLAGS],
    "cuMemAlloc_v2": [_POINTER, _SIZE],
    "cuMemCreate": [_POINTER, _SIZE, _POINTER, _FLAGS],
    "cuMemExportToShareableHandle": [_POINTER, _FLAGS, ctypes.c_int, _FLAGS],
    "cuMemGetAllocationGranularity": [_POINTER, _POINTER, ctypes.c_int],
    "cuMemImportFromShareableHandle": [_POINTER, _POINTER, ctypes.c_int],
    "cuMemMap": [ctypes.c_uint64, _SIZE, _SIZE, _FLAGS, _FLAGS],
    "cuMemRelease": [_FLAGS],
    "cuMemSetAccess": [ctypes.c_uint64, _SIZE, _POINTER, _SIZE],
    "cuMemUnmap": [ctypes.c_uint64, _SIZE],
    "cuMemcpyHtoD_v2": [ctypes.c_uint64, ctypes.c_char_p, _SIZE],
    "cuModuleGetFunction": [_POINTER, _POINTER, ctypes.c_char_p],
    "cuModuleLoadDataEx": [_POINTER, ctypes.c_void_p, ctypes.c_uint, _POINTER, _POINTER],
}


@cache
def driver() -> Any:
    """The library. Raises MissingError where there is none."""
    try:
        found = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise MissingError(
            "there is no NVIDIA driver on this machine (libcuda.so.1); use the CPU, or host='cpu'"
        ) from None
    for name, types in _TYPES.items():
        getattr(found, name).argtypes = types  # by name: found[name] is another object each time
    return found


def ask(what: str, function: str, *arguments: Any) -> None:
    """Calls a function of the driver. Raises LaunchError, which begins with `what`, where it fails."""
    library = driver()
    code = getattr(library, function)(*arguments)
    if code:
        text = ctypes.c_char_p()
        library.cuGetErrorString(code, ctypes.byref(text))
        raise LaunchError(f"{what}: {function} failed: {(text.value or b'unknown error').decode()} ({code})")
