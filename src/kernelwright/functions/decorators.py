"""The decorators."""

from collections.abc import Callable
from typing import Any

from kernelwright.functions.function import Function
from kernelwright.functions.options import read_options
from kernelwright.functions.signatures import read_signatures


def njit(
    signature_or_function: Any = None,
    *,
    target: str = "cpu",
    boundscheck: bool = True,
    parallel: bool = False,
    deterministic: bool = False,
    precision: str | None = None,
    plan: str | None = None,
    **numba: Any,
) -> Any:
    """Compiles a Python function of arrays and numbers; loops in it run at the speed of C.

        @kw.njit
        def shuffle_mul(a, b, operator, res):
            res[:] = 0.0
            for n in range(operator.shape[0]):
                i, j, k, count = operator[n]
                res[k] += count * a[i] * b[j]

    Compiled for the types of the arguments when they are first met, or ahead for signatures as Numba writes them.
    `boundscheck`: an index outside its axis raises IndexError. `parallel`: loops that can run on several threads do.
    `deterministic`: the same bits in every run. `plan`: one plan for scatter loops instead of the fastest. `target`:
    where it runs. `precision`: what Metal computes float64 in, "float32" or "double-float", pairs of float32.
    docs/loops.md has what of Numba's options and of Python is understood. Raises loops.UnsupportedError, UsageError,
    MissingError.
    """
    options = read_options(
        "njit",
        target,
        precision,
        numba,
        boundscheck=boundscheck,
        parallel=parallel,
        deterministic=deterministic,
        plan=plan,
    )

    def decorate(python: Callable[..., Any]) -> Function:
        plain = getattr(python, "py_func", python)  # of a function that is decorated already, by us or by Numba
        return Function(plain, options, read_signatures(signatures))

    if hasattr(signature_or_function, "__code__") or hasattr(signature_or_function, "py_func"):
        signatures = None
        return decorate(signature_or_function)
    signatures = signature_or_function
    return decorate


def vectorize(
    signatures_or_function: Any = None,
    *,
    target: str = "cpu",
    boundscheck: bool = True,
    parallel: bool = False,
    precision: str | None = None,
    **numba: Any,
) -> Any:
    """Makes a function of numbers one of arrays, with broadcasting.

        @kw.vectorize(["float64(float64, float64)"])
        def hypotenuse(x, y):
            return math.sqrt(x * x + y * y)

    Without signatures it is compiled for the dtypes it meets. `out=` takes the result. `precision="double-float"`: on
    Metal float64 is pairs of float32. Raises as njit does.
    """
    from kernelwright.functions.universal import Universal

    options = read_options("vectorize", target, precision, numba, boundscheck=boundscheck, parallel=parallel)

    def decorate(python: Callable[..., Any]) -> Universal:
        return Universal(python, options, read_signatures(signatures), None)

    if hasattr(signatures_or_function, "__code__"):
        signatures = None
        return decorate(signatures_or_function)
    signatures = signatures_or_function
    return decorate


def guvectorize(
    signatures: Any,
    layout: str,
    *,
    target: str = "cpu",
    boundscheck: bool = True,
    parallel: bool = False,
    precision: str | None = None,
    **numba: Any,
) -> Any:
    """Makes a function of small arrays, which writes its outputs, one of batches of them, with broadcasting.

        @kw.guvectorize(["void(float32[:], float32[:], int32[:, :], float32[:])"], "(n),(n),(l,q)->(k)")
        def shuffle_mul(a, b, operator, res): ...

    Outputs are passed after the inputs, or made (filled with zeros) where their sizes are known from the inputs.
    `precision="double-float"`: on Metal float64 is pairs of float32. Raises as njit does.
    """
    from kernelwright.functions.universal import Universal, read_layout

    options = read_options("guvectorize", target, precision, numba, boundscheck=boundscheck, parallel=parallel)
    axes = read_layout(layout)
    return lambda python: Universal(python, options, read_signatures(signatures), axes)


def prange(*bounds: int) -> range:
    """range() whose turns the user promises to be independent: they may run on several threads."""
    return range(*bounds)
