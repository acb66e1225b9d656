"""What the front end takes and refuses: each feature on a few numbers, each refusal at its line and column."""

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernelwright import loops
from kernelwright.loops import ArrayType, Program, ScalarType, UnsupportedError

F32, F64, I64, BOOL = ScalarType.FLOAT32, ScalarType.FLOAT64, ScalarType.INT64, ScalarType.BOOL
SCALE = 3
OFFSETS = (1, 10)


def interpreted(function: Any, *arguments: Any) -> tuple[Any, ...]:
    types = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            types.append(ArrayType(ScalarType(str(value.dtype)), value.ndim, value.flags.c_contiguous))
        elif isinstance(value, np.generic):
            types.append(ScalarType(str(value.dtype)))
        else:
            types.append(BOOL if isinstance(value, bool) else (I64 if isinstance(value, int) else F64))
    return loops.interpret(loops.parse(function, types), *arguments)


# ---- what is supported ----------------------------------------------------------------------------------------------


def operators(a, b):
    return a // b, a % b, a / b, a**2, a**-1.0, -a, +a, abs(a), a - b * 2, divmod(a, b)[1]


def whole_numbers(a, b):
    return a & b, a | b, a ^ b, ~a, a << 3, a >> 1, a // b, a % b, -a, abs(a), a / b, a**3, 2**b


def comparisons(a, b):
    return a < b <= 5, a == b, a != b, not a > b, 1 if a >= b else 0, (a > 0 and b > 0) or a > 100


def functions(x):
    return (
        math.sin(x),
        np.cos(x),
        math.floor(x),
        np.floor(x),
        math.ceil(x),
        round(x),
        int(x),
        float(3),
        np.int32(x),
        math.hypot(x, 2.0),
        np.arctan2(x, 1.0),
        math.atan2(x, -1.0),
        np.sign(x),
        np.maximum(x, 1.0),
        min(x, 0.5, 2),
        max(1, x),
        math.isnan(x),
        np.where(x > 0, x, 0.0),
        math.fmod(x, 0.7),
        math.copysign(2.0, x),
        math.log1p(abs(x)),
        np.expm1(x),
        math.erf(x),
        math.gamma(abs(x) + 1),
        np.square(x),
        math.pi,
        np.float32(x),
        bool(x),
        math.radians(x),
        np.cbrt(x),
    )


@pytest.mark.parametrize("values", [(7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (-7.25, -0.5)])
def test_operators_on_floats(values: tuple[float, float], build: Callable[..., ctypes.CDLL]) -> None:
    assert interpreted(operators, *values) == operators(*values)
    assert compiled(build, operators, *values) == operators(*values)


@pytest.mark.parametrize("values", [(7, 2), (-7, 2), (7, -2), (-7, -2), (2**20, 3), (0, 5)])
def test_operators_on_whole_numbers(values: tuple[int, int], build: Callable[..., ctypes.CDLL]) -> None:
    wanted = list(whole_numbers(*values))
    if values[1] < 0:
        wanted[-1] = 0  # 2 ** -2 of machine integers
    assert list(interpreted(whole_numbers, *values)) == wanted
    assert list(compiled(build, whole_numbers, *values)) == wanted


@pytest.mark.parametrize("values", [(1, 2), (5, 5), (200, -1), (3, -3)])
def test_comparisons(values: tuple[int, int]) -> None:
    assert interpreted(comparisons, *values) == comparisons(*values)


@pytest.mark.parametrize("x", [1.7, -0.4, 2.5, 0.0])
def test_functions(x: float, build: Callable[..., ctypes.CDLL]) -> None:
    wanted = [float(one) for one in functions(x)]
    assert np.allclose([float(one) for one in interpreted(functions, x)], wanted, rtol=1e-15)
    assert np.allclose([float(one) for one in compiled(build, functions, x)], wanted, rtol=1e-14)


def compiled(build: Callable[..., ctypes.CDLL], function: Any, *arguments: Any) -> tuple[Any, ...]:
    """Of numbers."""
    types = [I64 if isinstance(value, int) else F64 for value in arguments]
    program = loops.parse(function, types)
    values = [np.array(value) for value in arguments]
    scalars = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
    results, error = np.zeros(len(program.result), np.int64), np.zeros(10, np.int32)
    library = build(loops.print_program_cpp(program))
    address = ctypes.c_void_p(results.ctypes.data), ctypes.c_void_p(error.ctypes.data)
    assert not getattr(library, program.symbol)(None, scalars, *address)
    return tuple(results[n : n + 1].view(type.value)[0].item() for n, type in enumerate(program.result))


def test_machine_integers_wrap() -> None:
    def product(a, b):
        return a * b + 1

    assert interpreted(product, 2**62, 4) == (1,)
    assert interpreted(product, 2**62 + 1, 3) == ((3 * (2**62 + 1) + 1) - 2**64,)


def typed(function: Any, *types: Any, real: ScalarType = F64) -> tuple[ScalarType, ...]:
    return loops.parse(function, types, real=real).result


def test_types_are_numbas() -> None:
    def added(a, b):
        return a + b

    def divided(a, b):
        return a / b

    def joined(a, b):
        x = 0
        if b > 0:
            x = a
        return x

    i32, u8, u64 = ScalarType.INT32, ScalarType.UINT8, ScalarType.UINT64
    assert typed(added, i32, i32) == (I64,)
    assert typed(added, u8, u8) == (u64,)
    assert typed(added, u64, I64) == (I64,)
    assert typed(added, F32, F32) == (F32,)
    assert typed(added, F32, u8) == (F32,)
    assert typed(added, F32, I64) == (F64,)
    assert typed(added, F32, I64, real=F32) == (F32,)
    assert typed(divided, I64, I64) == (F64,)
    assert typed(divided, i32, u8, real=F32) == (F32,)
    assert typed(joined, F32, I64) == (F64,)
    assert typed(joined, i32, I64) == (I64,)
    assert typed(joined, BOOL, I64) == (I64,)


def slices(x, y, n):
    x[:] = 1
    x[1:-1] = 2.0
    x[-2:] = 3.0
    x[n:] = 4.0
    x[5:2] = 9.0
    y[0] = x[:3]
    y[1, 1:] = 5.0
    y[..., 0] = 7.0
    row = y[1]
    row[2] = SCALE
    part = x[2:5]
    part[0] = OFFSETS[1]
    return len(part), part.shape[0], y.size, y.ndim, part[-1]


@pytest.mark.parametrize("n", [0, 4, -1, 100, -100])
def test_slices(n: int) -> None:
    wanted, found = (np.zeros(8), np.zeros((2, 3))), (np.zeros(8), np.zeros((2, 3)))
    assert interpreted(slices, *found, n) == slices(*wanted, n)
    assert np.array_equal(found[0], wanted[0]) and np.array_equal(found[1], wanted[1])


def steps(x, start, stop, step):
    count = 0
    for i in range(start, stop, step):
        x[i % 10] += 1
        count += 1
    return count


@pytest.mark.parametrize("bounds", [(0, 10, 3), (9, -1, -1), (9, 0, -4), (3, 3, 1), (5, 0, 2), (0, -7, -2)])
def test_ranges_with_steps(bounds: tuple[int, int, int]) -> None:
    wanted, found = np.zeros(10), np.zeros(10)
    assert interpreted(steps, found, *bounds) == (steps(wanted, *bounds),)
    assert np.array_equal(found, wanted)
    with pytest.raises(ValueError, match="step of a range is 0"):
        interpreted(steps, found, 0, 5, 0)


def index_lives_on(n):
    i = 100
    for i in range(n):
        if i == 3:
            break
    return i


def index_is_changed(n):
    total = 0
    for i in range(n):
        i += 10
        total += i
    return total


def swapped(a, b):
    a, b = b, a
    c = d = a
    c += 1
    return a, b, c, d


def loop_carried(x):
    total = 0.0
    for i in range(len(x)):
        if i > 0:
            total += x[i] - before  # noqa: F821
        before = x[i]  # noqa: F841
    return total


def first_of(x, limit):
    for i in range(len(x)):
        if x[i] > limit:
            return i, x[i]
    return -1, 0.0


def uses_first_of(x, limit):
    place, value = first_of(x, limit)
    other, _ = first_of(x, limit + 1)
    return place * 100 + other, value


def nested_return(x, limit):
    found = first_of(x, limit)[0]
    for _ in range(2):
        for k in range(len(x)):
            if k == found:
                return k * 2
    return -5


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (index_lives_on, (2,)),
        (index_lives_on, (9,)),
        (index_lives_on, (0,)),
        (index_is_changed, (5,)),
        (swapped, (1, 2)),
        (loop_carried, (np.array([1.0, 4.0, 9.0]),)),
        (first_of, (np.array([1.0, 4.0, 9.0]), 3.0)),
        (uses_first_of, (np.array([1.0, 4.0, 9.0]), 3.5)),
        (uses_first_of, (np.array([1.0, 4.0, 9.0]), 100.0)),
        (nested_return, (np.array([1.0, 4.0, 9.0]), 3.5)),
        (nested_return, (np.array([1.0, 4.0, 9.0]), 50.0)),
    ],
)
def test_control_flow(function: Any, arguments: tuple[Any, ...]) -> None:
    wanted = function(*arguments)
    assert interpreted(function, *arguments) == (wanted if isinstance(wanted, tuple) else (wanted,))


def guarded(x, i):
    return 0 <= i < len(x) and x[i] > 0


def test_what_a_condition_guards_is_not_read() -> None:
    x = np.array([1.0, -1.0])
    assert [interpreted(guarded, x, i) for i in (0, 1, 2)] == [(True,), (False,), (False,)]


def chained(x, i):
    return 0 <= i < len(x) <= x[i] < 10


def test_what_a_chain_does_not_reach_is_not_read() -> None:
    x = np.array([5.0, 1.0])
    assert [interpreted(chained, x, i) for i in (0, 1, 2)] == [(True,), (False,), (False,)]


def overwrites(x):
    x[0] = 100.0
    return 1.0


def adds_to_what_is_overwritten(x):
    x[0] += overwrites(x)
    x[1] += x[0]


def test_an_element_is_read_before_the_value_is_computed() -> None:
    wanted, found = np.array([1.0, 2.0]), np.array([1.0, 2.0])
    adds_to_what_is_overwritten(wanted)
    interpreted(adds_to_what_is_overwritten, found)
    assert np.array_equal(found, wanted) and found[0] == 2.0


class Decorated:
    """As the decorators make them."""

    def __init__(self, function: Any) -> None:
        self.py_func = function


@Decorated
def twice(x):
    return 2 * x


def calls_a_decorated_one(x):
    return twice(x) + other(x)  # noqa: F821


def test_decorated_functions_and_given_ones_are_called() -> None:
    def tripled(x):
        return 3 * x

    program = loops.parse(calls_a_decorated_one, [I64], callees={"other": tripled})
    assert loops.interpret(program, 5) == (25,)
    assert loops.parse(twice, [F64]).name == "twice"


# ---- what is refused ------------------------------------------------------------------------------------------------


def takes_complex(x):
    return x * 1j


def makes_a_list(x):
    y = [1, 2]
    return y


def calls_print(x):
    print(x)


def unknown_name(x):
    return x + nowhere  # noqa: F821


def array_arithmetic(x, y):
    x[:] = x + y


def returns_an_array(x, y):
    return x


def rebinds(x, y):
    x = y
    return x[0]


def grows(x, y):
    z = np.zeros(len(x))
    z[0] = 1


def float_index(x, y):
    return x[0.5]


def too_many(x, y):
    return x[0, 0]


def loops_over_it(x, y):
    for value in x:
        y[0] = value


def tries(x, y):
    try:
        x[0] = 1
    except IndexError:
        pass


def sometimes(x, y):
    if x[0] > 0:
        return 1


def recurses(x):
    return recurses(x - 1) if x > 0 else 0


def overlaps(x, y):
    x[1:] = x[:-1]


VECTOR = ArrayType(F64, 1)


@pytest.mark.parametrize(
    ("function", "types", "line", "column", "words"),
    [
        (takes_complex, (F64,), 1, 16, "complex numbers are not supported; supported: bool, int and float"),
        (makes_a_list, (F64,), 1, 9, "a list is not supported"),
        (calls_print, (F64,), 1, 5, "print is not supported; supported: functions of math and NumPy"),
        (unknown_name, (F64,), 1, 16, "nowhere has no value here"),
        (array_arithmetic, (VECTOR, VECTOR), 1, 12, "a whole array (of x, 1 axes left)"),
        (returns_an_array, (VECTOR, VECTOR), 1, 5, "an array is returned; supported: numbers; write arrays"),
        (rebinds, (VECTOR, VECTOR), 0, 13, "the array x is given another value"),
        (grows, (VECTOR, VECTOR), 1, 9, "a local array whose size is not a constant"),
        (float_index, (VECTOR, VECTOR), 1, 14, "an index of type float64; supported: whole numbers"),
        (too_many, (VECTOR, VECTOR), 1, 12, "2 indices into 1 axes of x"),
        (loops_over_it, (VECTOR, VECTOR), 1, 5, "a loop over x; supported: for NAME in range(...)"),
        (tries, (VECTOR, VECTOR), 1, 5, "the statement 'try' is not supported"),
        (sometimes, (VECTOR, VECTOR), 0, 1, "sometimes returns numbers, but not on every way"),
        (recurses, (I64,), 1, 12, "recurses calls itself"),
        (overlaps, (VECTOR, VECTOR), 1, 5, "a copy between parts of one array that may overlap"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_refusals_name_the_place(function: Any, types: tuple[Any, ...], line: int, column: int, words: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        loops.parse(function, types)
    place = f"{__file__}:{function.__code__.co_firstlineno + line}:{column}: "
    assert str(caught.value).startswith(place), str(caught.value)
    assert words in str(caught.value)


def test_a_function_without_source_is_refused() -> None:
    scope: dict[str, Any] = {}
    exec("def made(x):\n    return x", scope)
    with pytest.raises(UnsupportedError, match="source text of 'made' cannot be read"):
        loops.parse(scope["made"], [F64])
    with pytest.raises(UnsupportedError, match="takes 1 arguments \\(x\\), and types of 2 were given"):
        loops.parse(takes_complex, [F64, F64])


def divides(a, b, x):
    x[0] = 1.0
    return a // b


def unpacks(x):
    i, j = x
    return i + j


def test_failures_of_the_interpreter() -> None:
    x = np.zeros(3)
    with pytest.raises(ZeroDivisionError, match=rf"{__file__}:\d+:12: an integer is divided by 0"):
        interpreted(divides, 1, 0, x)
    assert x[0] == 1.0  # what was written stays
    with pytest.raises(ValueError, match="2 values and 3 places"):
        interpreted(unpacks, x)


def named_like_a_module(math):
    return math.shape[0]


def test_a_local_name_hides_a_global_one() -> None:
    assert interpreted(named_like_a_module, np.zeros(4)) == (4,)


def is_program(value: Any) -> bool:
    return isinstance(value, Program)


def test_a_program_is_a_value() -> None:
    one, other = (loops.parse(swapped, [I64, I64]) for _ in range(2))
    assert is_program(one) and one == other and hash(one) == hash(other)
