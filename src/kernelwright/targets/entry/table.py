"""The table of addresses that kernels' entries read: Python, NumPy, torch and OpenMP as this process has them.

Everything found by layout is probed first on live objects. What does not probe stays zero, and the entries then send
those arguments the slow way. There is one table per process; it never moves and is only ever filled in.
"""

import ctypes
import os
import sys
import sysconfig
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_FUNCTION = ctypes.c_void_p


class Runtime(ctypes.Structure):
    """`kernelwright::Runtime` of runtime/kernelwright.hpp, field for field."""

    _fields_ = [
        *(
            (name, _FUNCTION)
            for name in (
                "gomp_parallel",
                "omp_get_thread_num",
                "omp_get_num_threads",
                "omp_get_max_threads",
                "torch_get_num_threads",
                "kmpc_fork_call",
                "kmpc_push_num_threads",
                "kmpc_global_thread_num",
                "save_thread",
                "restore_thread",
                "add_reference",
                "drop_reference",
                "call",
                "as_int64",
                "as_double",
                "from_int64",
                "from_uint64",
                "from_double",
                "new_tuple",
                "set_item",
                "bytes_of",
                "none",
                "true_object",
                "false_object",
                "int_type",
                "float_type",
                "array_type",
            )
        ),
        ("array_dtypes", ctypes.c_void_p * 13),
        ("tensor_type", ctypes.c_void_p),
        ("parameter_type", ctypes.c_void_p),
        ("tensor_offset", ctypes.c_int64),
        ("keys_offset", ctypes.c_int64),
        ("keys_required", ctypes.c_uint64),
        ("keys_allowed", ctypes.c_uint64),
        ("tensor_dtypes", ctypes.c_int64 * 13),
        *(
            (name, _FUNCTION)
            for name in (
                "get_dtype",
                "is_contiguous",
                "get_numel",
                "get_data",
                "get_dim",
                "get_sizes",
                "get_strides",
                "requires_grad",
                "grad_enabled",
                "dispatch_modes",
            )
        ),
    ]


# In the order of the enum Dtype of runtime/entry.hpp.
DTYPES = (
    *("float32", "float64", "int64", "int32", "uint8", "bool", "float16", "bfloat16"),
    *("int8", "int16", "uint16", "uint32", "uint64"),
)

_table = Runtime()
_lock = threading.Lock()
_linked: set[str] = set()
_kept: list[Any] = []
"""What the table's addresses belong to."""


def table() -> Runtime:
    """The table, holding whatever of torch and NumPy this process has imported by now."""
    with _lock:
        for name, link in (("python", _link_python), ("threads", _link_threads)):
            if name not in _linked:
                link()
                _linked.add(name)
        for name, link in (("numpy", _link_numpy), ("torch", _link_torch)):
            # A module that is still being imported by another thread is left for later.
            module = sys.modules.get(name)
            if name not in _linked and module is not None and not _initialising(module):
                link(module)
                _linked.add(name)
    return _table


def stale() -> bool:
    """Whether torch or NumPy arrived since the table was last filled in."""
    return any(name not in _linked and name in sys.modules for name in ("numpy", "torch"))


def fast() -> tuple[str, ...]:
    """Which kinds of arguments take the fast way in this process: "numpy", "torch"."""
    now = table()
    return tuple(name for name, there in (("numpy", now.array_type), ("torch", now.tensor_type)) if there)


def _initialising(module: Any) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _address(library: ctypes.CDLL, name: str) -> int | None:
    try:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    except AttributeError:
        return None


def _word(address: int) -> int | None:
    return ctypes.c_void_p.from_address(address).value


def _link_python() -> None:
    names = {
        "save_thread": "PyEval_SaveThread",
        "restore_thread": "PyEval_RestoreThread",
        "add_reference": "Py_IncRef",
        "drop_reference": "Py_DecRef",
        "call": "PyObject_Vectorcall",
        "as_int64": "PyLong_AsLongLongAndOverflow",
        "as_double": "PyFloat_AsDouble",
        "from_int64": "PyLong_FromLongLong",
        "from_uint64": "PyLong_FromUnsignedLongLong",
        "from_double": "PyFloat_FromDouble",
        "new_tuple": "PyTuple_New",
        "set_item": "PyTuple_SetItem",
        "bytes_of": "PyByteArray_AsString",
    }
    for field, name in names.items():
        setattr(_table, field, _address(ctypes.pythonapi, name))
    _table.none, _table.true_object, _table.false_object = id(None), id(True), id(False)
    # An object's type stands 8 bytes in, except on a free-threaded or tracing Python: nothing is fast there.
    if _plain_python():
        _table.int_type, _table.float_type = id(int), id(float)


def _plain_python() -> bool:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    return all(_word(id(value) + 8) == id(type(value)) for value in (1, 1.5, None, [], _table))


def _link_threads() -> None:
    """OpenMP is whatever torch brought; without torch, the copy in its wheel, which torch then shares if it comes."""
    if sys.platform == "darwin":
        library = _open(_torch_folder(), "libomp.dylib")
        names = {
            "kmpc_fork_call": "__kmpc_fork_call",
            "kmpc_push_num_threads": "__kmpc_push_num_threads",
            "kmpc_global_thread_num": "__kmpc_global_thread_num",
        }
    else:
        library = _open(_torch_folder(), "libgomp.so.1")
        names = {"gomp_parallel": "GOMP_parallel"}
    names |= {name: name for name in ("omp_get_thread_num", "omp_get_num_threads", "omp_get_max_threads")}
    if library is None:
        return
    found = {field: _address(library, name) for field, name in names.items()}
    if all(found.values()):
        for field, address in found.items():
            setattr(_table, field, address)
        _kept.append(library)
        pause = getattr(library, "omp_pause_resource_all", None)
        if sys.platform == "linux" and pause is not None:
            os.register_at_fork(before=lambda: pause(_PAUSE_SOFT))
        elif sys.platform == "linux":
            os.register_at_fork(after_in_child=_stay_serial)


# libgomp waits for ever for helpers that a fork left behind. Pausing dismisses the helpers of the thread that forks;
# parent and child call new ones when they need them. (torch profits: its own operators hang in such a child too.)
_PAUSE_SOFT = 1


def _stay_serial() -> None:
    """After a fork under a libgomp of before GCC 9, which cannot be paused."""
    _table.gomp_parallel = None


def _torch_folder() -> Path | None:
    spec = find_spec("torch") if "torch" not in sys.modules else sys.modules["torch"].__spec__
    return Path(spec.origin).parent / "lib" if spec and spec.origin else None


def _open(folder: Path | None, name: str) -> ctypes.CDLL | None:
    """The library as the process already has it, else torch's own copy."""
    for path in (name, str(folder / name) if folder else ""):
        try:
            if path:
                mode = ctypes.RTLD_GLOBAL | (os.RTLD_NOLOAD if path == name else 0)
                return ctypes.CDLL(path, mode=mode)
        except OSError:
            continue
    return None


_threads_at_fork = 1


def _before_fork() -> None:
    global _threads_at_fork
    try:
        _threads_at_fork = len(os.listdir("/proc/self/task"))
    except OSError:
        _threads_at_fork = 2 if sys.platform == "linux" else 1


def _after_fork() -> None:
    """libgomp waits for ever for helpers that the fork left behind: where there were any, kernels run serially."""
    if _threads_at_fork > 1:
        _table.gomp_parallel = None


def _link_numpy(numpy: Any) -> None:
    if not _plain_python():
        return
    sample = numpy.zeros((2, 3), numpy.float32)
    # PyArrayObject_fields: data, nd, dimensions, strides, base, descr, flags after the 16 bytes of the object's head.
    data, ndim = _word(id(sample) + 16), ctypes.c_int32.from_address(id(sample) + 24).value
    descr, flags = _word(id(sample) + 56), ctypes.c_int32.from_address(id(sample) + 64).value
    if data != sample.ctypes.data or ndim != 2 or descr != id(sample.dtype) or flags & 0x501 != 0x501:
        return
    for index, name in enumerate(DTYPES):
        if name != "bfloat16":
            dtype = numpy.dtype(name)
            _kept.append(dtype)
            _table.array_dtypes[index] = id(dtype)
    _kept.append(numpy.ndarray)
    _table.array_type = id(numpy.ndarray)


def _link_torch(torch: Any) -> None:
    folder = _torch_folder()
    suffix = "dylib" if sys.platform == "darwin" else "so"
    libraries = [_open(folder, f"libtorch_cpu.{suffix}"), _open(folder, f"libc10.{suffix}")]
    if not _plain_python() or folder is None or None in libraries:
        return
    cpu, c10 = libraries
    assert cpu is not None and c10 is not None
    _kept.extend(libraries)
    _table.torch_get_num_threads = _address(cpu, "_ZN2at15get_num_threadsEv")
    functions = {
        "get_dtype": _address(cpu, "aoti_torch_get_dtype"),
        "is_contiguous": _address(cpu, "aoti_torch_is_contiguous"),
        "get_numel": _address(cpu, "aoti_torch_get_numel"),
        "get_data": _address(cpu, "aoti_torch_get_data_ptr"),
        "get_dim": _address(cpu, "aoti_torch_get_dim"),
        "get_sizes": _address(cpu, "aoti_torch_get_sizes"),
        "get_strides": _address(cpu, "aoti_torch_get_strides"),
        "requires_grad": _address(c10, "_ZNK3c1010TensorImpl13requires_gradEv"),
        "grad_enabled": _address(c10, "_ZN3c108GradMode10is_enabledEv"),
        "dispatch_modes": _address(c10, "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"),
    }
    layout = _tensor_layout(torch)
    if layout is None or not all(functions.values()):
        return
    for field, address in functions.items():
        setattr(_table, field, address)
    _table.tensor_offset, _table.keys_offset = layout
    with torch.inference_mode():
        inference = torch.zeros(1)
    _table.keys_required = torch._C._dispatch_keys(inference).raw_repr()
    _table.keys_allowed = torch._C._dispatch_keys(torch.zeros(1)).raw_repr() | _table.keys_required
    for index, name in enumerate(DTYPES):
        code = ctypes.c_int32(-1)
        cpu.aoti_torch_get_dtype(
            ctypes.c_void_p(id(sample := torch.zeros(1, dtype=getattr(torch, name))) + layout[0]), ctypes.byref(code)
        )
        del sample
        _table.tensor_dtypes[index] = code.value
    _kept.extend((torch.Tensor, torch.nn.Parameter))
    _table.parameter_type = id(torch.nn.Parameter)
    _table.tensor_type = id(torch.Tensor)


def _tensor_layout(torch: Any) -> tuple[int, int] | None:
    """Where a tensor object holds its implementation, and where that holds its dispatch keys; None if not found.

    The keys are sought among tensors of five kinds, so that no other word can be mistaken for them.
    """
    plain = torch.zeros(3)
    with torch.inference_mode():
        inference = torch.zeros(3)
    samples = (plain, inference, torch._neg_view(plain), torch.zeros(3, device="meta"), plain.to_sparse())
    if not (hasattr(plain, "_cdata") and hasattr(torch._C, "_dispatch_keys")):
        return None
    offsets = [at for at in (16, 24, 32) if all(_word(id(sample) + at) == sample._cdata for sample in samples)]
    if len(offsets) != 1:
        return None
    keys = [
        at
        for at in range(8, 192, 8)
        if all(
            ctypes.c_uint64.from_address(sample._cdata + at).value == torch._C._dispatch_keys(sample).raw_repr()
            for sample in samples
        )
    ]
    return (offsets[0], keys[0]) if len(keys) == 1 else None
