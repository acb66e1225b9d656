"""What may be said to a decorator: our own options, and Numba's, each honoured, without effect, or refused by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelwright.errors import MissingError, UnknownNameError, UsageError

TARGETS = ("auto", "cpu", "cuda", "metal")
MISSING_TARGETS = {
    "rocm": "target='rocm' is not there yet: it needs a HIP printer of the loops and a host for waves of 64",
    "sycl": "target='sycl' is not there yet: it needs a SYCL printer of the loops and a SYCL compiler in the package",
}
PRECISIONS = (None, "float32", "double-float")

# Numba's options. The second column of docs/loops.md is made of these sentences: tests hold it to that.
WITHOUT_EFFECT = {
    "nopython": "there is no object mode to fall back to",
    "nogil": "the GIL is always released while a function runs",
    "cache": "compiled code is always kept on disk",
    "fastmath": "sums and products keep the order of the program; plans for scatter loops may regroup sums",
    "inline": "the compiler decides",
    "forceinline": "the compiler decides",
    "looplift": "loops are never taken out of a function",
    "no_rewrites": "there are no rewrites to switch off",
    "no_cpython_wrapper": "the entry is always made",
    "no_cfunc_wrapper": "there is no C callback to switch off",
    "error_model": "a float divided by zero is inf or nan, as in NumPy; an integer raises ZeroDivisionError",
}
REFUSED = {
    "forceobj": "there is no object mode; call .py_func for plain Python",
    "locals": "types of locals come from their assignments; write x = np.float32(0) to choose one",
    "debug": "there are no debugging symbols; call .py_func under a debugger",
    "pipeline_class": "there is no Numba pipeline here",
    "target_backend": "use target=",
    "identity": "reductions of ufuncs are not supported; write the loop with njit",
    "writable_args": "arguments after -> are the ones that are written",
}
# Values that ask for what is not there, of options that otherwise have no effect.
_REFUSED_VALUES = {("nopython", False): REFUSED["forceobj"], ("error_model", "python"): WITHOUT_EFFECT["error_model"]}


@dataclass(frozen=True)
class Options:
    """What a decorated function was asked for."""

    target: str = "cpu"
    boundscheck: bool = True
    parallel: bool = False
    deterministic: bool = False
    precision: str | None = None
    plan: str | None = None
    """The plan for arrays that cannot change, instead of the fastest."""


def read_options(decorator: str, target: str, precision: str | None, given: Mapping[str, Any], **own: Any) -> Options:
    """The options of one decorator. Raises UsageError, or MissingError for a target that is not there yet."""
    if target in MISSING_TARGETS:
        raise MissingError(MISSING_TARGETS[target])
    if target == "parallel":  # Numba's word for vectorize and guvectorize
        target, own = "cpu", {**own, "parallel": True}
    if target not in TARGETS:
        raise UnknownNameError("target of a loop", target, (*TARGETS, *MISSING_TARGETS))
    if precision not in PRECISIONS:
        known = "leave it out, or write 'float32' or 'double-float'"
        raise UsageError(f"{decorator}: precision={precision!r} is not known; {known}")
    if precision == "double-float" and target not in ("metal", "auto"):
        raise UsageError(
            f"{decorator}: precision='double-float' is for Metal; target={target!r} has float64: leave it out"
        )
    if precision == "float32" and decorator != "njit":
        raise UsageError(f"{decorator}: precision='float32' is said by its signatures: declare it for float32")
    for name, value in given.items():
        if name in REFUSED and value not in (False, None):
            raise UsageError(f"{decorator}: {name}={value!r} is not supported: {REFUSED[name]}")
        if name not in WITHOUT_EFFECT and name not in REFUSED:
            known = (*WITHOUT_EFFECT, *Options.__dataclass_fields__)
            raise UnknownNameError(f"option of {decorator}", name, known)
        for (option, refused), reason in _REFUSED_VALUES.items():
            if name == option and value == refused:
                raise UsageError(f"{decorator}: {name}={value!r} is not supported: {reason}")
    return Options(target=target, precision=precision, **own)
