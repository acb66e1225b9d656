"""Every schedule computes what the plain nest computes, for odd shapes, types and strides, and at any thread count."""

import itertools
import math

import pytest
import torch

import kernelwright
from kernelwright.loops import (
    Apply,
    Constant,
    For,
    Fusion,
    Kernel,
    Local,
    Op,
    Operand,
    Plan,
    Reduction,
    Result,
    ScalarType,
    Step,
    Variable,
    keep_row,
    nest,
    parallelise,
    print_cpp,
    scheduled,
    split,
)
from kernelwright.loops.nest import check, statements

F32 = ScalarType.FLOAT32
TORCH = {
    ScalarType.FLOAT32: torch.float32,
    ScalarType.FLOAT64: torch.float64,
    ScalarType.BFLOAT16: torch.bfloat16,
    ScalarType.FLOAT16: torch.float16,
}


def value(name: str, type: ScalarType = F32) -> Variable:
    return Variable(name, type)


def apply(op: Op, *operands) -> Apply:
    return Apply(op, operands)


def softmax(rows: int, cols: int, type: ScalarType = F32) -> Fusion:
    """softmax(x + bias) over the last dimension. x: (rows, cols), bias: (cols,)."""
    t = type.compute
    return Fusion(
        "softmax",
        (rows, cols),
        1,
        (Operand("x", type, (cols, 1)), Operand("bias", type, (0, 1))),
        (
            Step("y", apply(Op.ADD, value("x", t), value("bias", t))),
            Step("best", value("y", t), Reduction.MAXIMUM),
            Step("e", apply(Op.EXP, apply(Op.SUB, value("y", t), value("best", t)))),
            Step("total", value("e", t), Reduction.SUM),
            Step("out", apply(Op.DIV, value("e", t), value("total", t))),
        ),
        (Result("out0", type, "out", (cols, 1)), Result("out1", type, "best", (1,), row=True)),
    )


def run_softmax(kernel: Kernel, x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    library = kernelwright.compile(print_cpp(kernel), language="cpp")
    out, best = torch.full_like(x, 7), x.new_full((x.shape[0],), 7)
    library.softmax(out, best, x, bias)
    return out, best


@pytest.mark.parametrize("type", TORCH, ids=lambda type: type.value)
@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (3, 1), (1, 17), (5, 127), (257, 64), (2, 9001)])
def test_row_kernel(rows: int, cols: int, type: ScalarType) -> None:
    dtype = TORCH[type]
    torch.manual_seed(0)
    x, bias = torch.randn(rows, cols).to(dtype), torch.randn(cols).to(dtype)
    fusion = softmax(rows, cols, type)
    expected = torch.softmax(x.double() + bias.double(), -1)
    for plan in (Plan(), Plan(keep_row=False, interleave=1, grain_elements=1), Plan(keep_from=1, stream_bytes=1)):
        out, best = run_softmax(scheduled(nest(fusion), plan), x, bias)
        # In float64 what is expected is no more exact than the result: both add up the row.
        tolerance = (32 if dtype is torch.float64 else 8) * torch.finfo(dtype).eps
        torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance * 1e-3)
        torch.testing.assert_close(best.double(), (x.double() + bias.double()).amax(-1), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_row_kernel_treats_specials_as_torch(special: float) -> None:
    x = torch.randn(4, 100)
    x[1, 50] = special
    x[2] = special
    out, _ = run_softmax(scheduled(nest(softmax(4, 100)), Plan()), x, torch.zeros(100))
    torch.testing.assert_close(out, torch.softmax(x, -1), equal_nan=True)


@pytest.mark.parametrize("plan", [Plan(), Plan(keep_row=False)])
def test_answer_does_not_depend_on_threads(plan: Plan) -> None:
    x, bias = torch.randn(101, 1003), torch.randn(1003)
    kernel = scheduled(nest(softmax(101, 1003)), plan)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = run_softmax(kernel, x, bias)
        torch.set_num_threads(3)
        team = run_softmax(kernel, x, bias)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(alone[0], team[0])


def test_keep_row_keeps_what_is_costly() -> None:
    kernel = keep_row(nest(softmax(8, 64)))
    locals_ = [s for s in statements(kernel.body) if isinstance(s, Local)]
    assert [local.buffer.name for local in locals_] == ["e_row"]
    check(kernel)


@pytest.mark.parametrize("cols", [97, 127, 128, 255, 1000, 1001])
def test_what_vectors_leave_over_is_summed_by_itself(cols: int) -> None:
    """And short rows leave less over: one vector is in flight, however many the plan says."""
    kernel = scheduled(nest(softmax(7, cols)), Plan(interleave=4))
    loops = [s for s in statements(kernel.body) if isinstance(s, For) and s.interleave]
    ranges = [(int(loop.start.value), int(loop.stop.value), loop.interleave) for loop in loops]
    whole = (0, cols, 1 if cols < 128 else 4)
    rest = cols % 64
    summed = [(0, cols - rest, 4), (cols - rest, cols, 1)] if cols > 128 and rest else [whole]
    assert ranges == [whole, *summed, whole]


def test_keep_row_leaves_long_and_dynamic_rows() -> None:
    long = nest(softmax(8, 100_000))
    assert keep_row(long) == long


def scaled(dims: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Fusion:
    """2 * x in the order of `dims`, read by `strides`."""
    dense = tuple(math.prod(dims[position + 1 :]) for position in range(len(dims)))
    return Fusion(
        "scaled",
        dims,
        1,
        (Operand("x", F32, strides, offset),),
        (Step("out", apply(Op.MUL, value("x"), Constant(2.0, F32))),),
        (Result("out0", F32, "out", dense),),
    )


@pytest.mark.parametrize("grain", [1, 16384])
@pytest.mark.parametrize("shape", [(7,), (3, 10_007), (2, 3, 5), (1, 1, 4097)])
def test_elementwise_over_transposed_and_broadcast(shape: tuple[int, ...], grain: int) -> None:
    for order in itertools.permutations(range(len(shape))):
        base = torch.randn(5 + math.prod(shape))
        x = base[5:].view(shape).permute(order)
        out = torch.empty(x.shape)
        kernel = scheduled(nest(scaled(tuple(x.shape), x.stride(), 5)), Plan(grain_elements=grain))
        kernelwright.compile(print_cpp(kernel), language="cpp").scaled(out, base)
        assert torch.equal(out, 2 * x)
        x = base[: shape[-1]].expand(shape)
        kernel = scheduled(nest(scaled(shape, x.stride())), Plan(grain_elements=grain))
        out = torch.empty(shape)
        kernelwright.compile(print_cpp(kernel), language="cpp").scaled(out, base)
        assert torch.equal(out, 2 * x)


def test_split_and_parallelise_cover_the_domain_once() -> None:
    kernel = nest(scaled((3, 10), (10, 1)))
    kernel = parallelise(split(kernel, "i1", 4), 2, 1)
    (tasks,) = kernel.body
    assert isinstance(tasks, For)
    assert tasks.grain == 1
    x, out = torch.randn(3, 10), torch.empty(3, 10)
    kernelwright.compile(print_cpp(kernel), language="cpp").scaled(out, x)
    assert torch.equal(out, 2 * x)


def test_dynamic_sizes_are_parameters() -> None:
    fusion = Fusion(
        "scaled",
        ("n", "m"),
        1,
        (Operand("x", F32, ("m", 1)),),
        (Step("out", apply(Op.NEG, value("x"))),),
        (Result("out0", F32, "out", ("m", 1)),),
        ("n", "m"),
    )
    library = kernelwright.compile(print_cpp(scheduled(nest(fusion), Plan())), language="cpp")
    for n, m in [(1, 1), (3, 5000), (0, 4), (17, 31)]:
        x, out = torch.randn(n, m), torch.empty(n, m)
        library.scaled(out, x, n, m)
        assert torch.equal(out, -x)
