"""A compiled kernel file in this process."""

import ctypes
import types
from pathlib import Path
from typing import Any

from kernelwright.records import BuildRequest
from kernelwright.targets.entry.call import SlowCall
from kernelwright.targets.entry.generate import ADDRESS, ENTRY
from kernelwright.targets.entry.signature import KernelSignature
from kernelwright.targets.entry.table import table

_METH_FASTCALL_KEYWORDS = 0x82


class _MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class Library:
    """One attribute for each kernel: `lib.scale(out, x, n, 2.0)` with torch tensors or NumPy arrays.

    A kernel takes its arguments in order, by position. It raises LaunchError for whatever does not fit. Calls are
    thread-safe, release the GIL, and are seen by no part of torch: not by autograd, nor by tracing.
    """

    def __init__(self, path: Path, signatures: tuple[KernelSignature, ...], request: BuildRequest) -> None:
        library = ctypes.CDLL(str(path))
        ctypes.c_void_p.in_dll(library, "kernelwright_runtime").value = ctypes.addressof(table())
        self._request = request
        self._names = tuple(signature.name for signature in signatures)
        for signature in signatures:
            address = ctypes.c_void_p.in_dll(library, ADDRESS + signature.name).value
            entry = ctypes.cast(getattr(library, ENTRY + signature.name), ctypes.c_void_p).value
            assert address is not None
            slow = SlowCall(signature, address, library)
            self.__dict__[signature.name] = builtin(signature.name, str(signature), entry, slow)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no kernel is called {name!r}; this library has {', '.join(self._names)}")

    def __deepcopy__(self, memo: dict[int, Any]) -> "Library":
        return self

    def __reduce__(self) -> Any:
        from kernelwright.targets.kernels import rebuild

        return rebuild, (self._request,)


_methods: dict[tuple[str, str, int | None], _MethodDef] = {}
"""Never dropped: the garbage collector may look at a builtin after whatever else would keep its definition."""


def builtin(name: str, doc: str, entry: int | None, bound: Any) -> types.BuiltinFunctionType:
    """A function like those of an extension module, bound to an object."""
    method = _MethodDef(name.encode(), entry, _METH_FASTCALL_KEYWORDS, doc.encode())
    method = _methods.setdefault((name, doc, entry), method)
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype, create.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return create(ctypes.byref(method), bound, None)
