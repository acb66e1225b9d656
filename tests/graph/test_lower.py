"""Lowered graphs compute what the module computes: against float64, over odd shapes, dtypes, strides and specials."""

import copy
import math
import sys
import types
from collections.abc import Mapping
from typing import cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernelwright.graph import capture, print_module
from kernelwright.graph.kernel_call import KernelCall
from kernelwright.graph.lower import Lowering, lower
from kernelwright.records import Range


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


class Of(nn.Module):
    """A module of a function and some weights."""

    def __init__(self, function, **weights: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in weights.items():
            self.register_parameter(name, nn.Parameter(value)) if value.is_floating_point() else self.register_buffer(
                name, value
            )

    def forward(self, *args):
        return self.function(self, *args)


def lowered(
    module: nn.Module, args: tuple[Tensor, ...], dynamic: Mapping[int, Mapping[int, Range]] | None = None
) -> tuple[nn.Module, Lowering]:
    """The module with kernels, sharing the weights of `module`, and what was lowered."""
    low = lower(capture(module.eval(), args, dynamic=dynamic))
    reference = types.ModuleType("reference")

    class Model(type(module)):  # ModelNew inherits from it; here it takes over the module as it is
        def __init__(self) -> None:
            nn.Module.__init__(self)
            self.__dict__.update(copy.copy(module.__dict__))

    reference.Model = Model  # type: ignore[attr-defined]
    space = {"__kernelwright_sources__": {"kernels.cpp": low.text()}, "__name__": "candidate"}
    held = sys.modules.get("reference")
    sys.modules["reference"] = reference
    try:
        exec(print_module(low.capture), space)
    finally:
        sys.modules.pop("reference") if held is None else sys.modules.update(reference=held)
    fast = space["ModelNew"]()  # type: ignore[operator]
    if hasattr(fast, "prepare"):
        with torch.no_grad():
            fast.prepare()
    return fast, low


def kernels(low: Lowering) -> list[str]:
    return [node.target.name for node in low.capture.graph.graph.nodes if isinstance(node.target, KernelCall)]


def wide(module: nn.Module, args: tuple[Tensor, ...]):
    """The module's results in float64."""
    double = copy.deepcopy(module).double()
    return double(*(arg.double() if arg.is_floating_point() else arg for arg in args))


def check(got: Tensor, module: nn.Module, args: tuple[Tensor, ...], units: float = 1) -> None:
    """Right shape, dtype and stride, and no further from float64 than 1.5 times what torch is.

    Beside that `units` in the last place of the largest result are granted: torch's own may be less than a rounding.
    """
    with torch.no_grad():
        expected, truth = module(*args), wide(module, args)
    for mine, eager, exact in zip(_leaves(got), _leaves(expected), _leaves(truth), strict=True):
        assert mine.shape == eager.shape
        assert mine.dtype == eager.dtype
        assert mine.stride() == eager.stride()
        if not mine.is_floating_point():
            assert torch.equal(mine, eager)
            continue
        plain = exact.isfinite() & eager.isfinite() & mine.isfinite()
        # Beside finite numbers each must be what torch gives or what is true: torch's own gelu of infinity is NaN.
        mine_odd, eager_odd, exact_odd = (value[~plain].to(mine.dtype) for value in (mine, eager, exact))
        assert (_same(mine_odd, eager_odd) | _same(mine_odd, exact_odd)).all(), (mine_odd, eager_odd, exact_odd)
        if plain.any():
            # In float64 the truth is no truer than what is tested.
            unit = (4 if mine.dtype is torch.float64 else units) * torch.finfo(mine.dtype).eps
            scale = exact[plain].abs().max().item()
            own = (eager.double() - exact)[plain].abs().max().item()
            error = (mine.double() - exact)[plain].abs().max().item()
            assert error <= 1.5 * own + unit * scale, (error, own, scale)


def _same(left: Tensor, right: Tensor) -> Tensor:
    return (left == right) | (left.isnan() & right.isnan())


def _leaves(value) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [leaf for item in value for leaf in _leaves(item)]


def verify(module: nn.Module, *args: Tensor, kernel_count: int | None = None, units: float = 1) -> Lowering:
    fast, low = lowered(module, args)
    if kernel_count is not None:
        assert len(kernels(low)) == kernel_count, kernels(low)
    with torch.no_grad():
        check(fast(*args), module, args, units)
    return low


CHAINS = {
    "relu": lambda m, x: F.relu(x) + 1,
    "gelu": lambda m, x: F.gelu(x) * 2,
    "gelu_tanh": lambda m, x: F.gelu(x, approximate="tanh") * 2,
    "silu": lambda m, x: F.silu(x) + x,
    "sigmoid": lambda m, x: torch.sigmoid(x) * x,
    "tanh": lambda m, x: torch.tanh(x) - x,
    "leaky_relu": lambda m, x: F.leaky_relu(x, 0.2) + x,
    "elu": lambda m, x: F.elu(x, 1.3) + F.selu(x),
    "hardtanh": lambda m, x: F.hardtanh(x) + F.relu6(x),
    "hardswish": lambda m, x: F.hardswish(x) + F.hardsigmoid(x),
    "softplus": lambda m, x: F.softplus(x) + F.softplus(x, beta=2, threshold=5),
    "mish": lambda m, x: F.mish(x) + x,
    "exp": lambda m, x: torch.exp(x) * torch.expm1(x),
    "log": lambda m, x: torch.log(x.abs()) + torch.log1p(x.abs()),
    "sqrt": lambda m, x: torch.sqrt(x.abs()) + torch.rsqrt(x.abs() + 1),
    "erf": lambda m, x: torch.erf(x) + 1,
    "pow": lambda m, x: x**2 + x**3 - x**-1 + x.abs() ** 0.5,
    "clamp": lambda m, x: x.clamp(-0.5, 0.7) + x.clamp(min=0.1) + x.clamp(max=0.1),
    "where": lambda m, x: torch.where(x > 0, x * 2, x - 1),
    "compare": lambda m, x: ((x > 0.1) & (x <= 1)) | (x == 0.5),
    "maximum": lambda m, x: torch.maximum(x, x * 0.5) + torch.minimum(x, -x),
    "round": lambda m, x: torch.floor(x) + torch.ceil(x * 2) + torch.round(x * 3) + torch.trunc(x),
    "cast": lambda m, x: x.to(torch.float64) + x.to(torch.int32) + x.to(torch.bfloat16),
    "sign": lambda m, x: torch.sign(x) * 2,
    "isnan": lambda m, x: torch.where(torch.isnan(x), x * 0, x + 1),
    "reciprocal": lambda m, x: torch.reciprocal(x) + x / 3,
    "masked_fill": lambda m, x: x.masked_fill(x > 1, -7.0) * 2,
    "div": lambda m, x: (x + 1) / (x.abs() + 2) - 2 / (x.abs() + 1),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chain(name: str) -> None:
    torch.manual_seed(0)
    verify(Of(CHAINS[name]), torch.randn(37, 53) * 3, kernel_count=1)


@pytest.mark.parametrize("name", CHAINS)
def test_chain_with_specials(name: str) -> None:
    if name in ("cast", "round"):
        pytest.skip("integers of NaN are whatever they are")
    x = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 3e38, -3e38, 1.0, -1.0, 88.5, -90.0] * 3)
    verify(Of(CHAINS[name]), x, kernel_count=1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["gelu", "silu", "softplus", "pow", "where", "log"])
def test_chain_in_other_types(name: str, dtype: torch.dtype) -> None:
    verify(Of(CHAINS[name]), (torch.randn(1001) * 2).to(dtype), kernel_count=1)


@pytest.mark.parametrize(
    ("left", "right"),
    [((5, 7), (7,)), ((5, 7), (5, 1)), ((2, 3, 5), (3, 1)), ((1, 7), (5, 1)), ((4, 1, 6), (1, 5, 1)), ((3, 5), ())],
)
def test_broadcasting(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    verify(Of(lambda m, x, y: torch.tanh(x * y) + y), torch.randn(left), torch.randn(right), kernel_count=1)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (torch.float32, torch.int64),
        (torch.bfloat16, torch.float32),
        (torch.int32, torch.int64),
        (torch.bool, torch.float32),
    ],
)
def test_promotion(left: torch.dtype, right: torch.dtype) -> None:
    x, y = (torch.randn(33) * 5).to(left), (torch.randn(33) * 5).to(right)
    verify(Of(lambda m, x, y: (x * y + y, (x > y) | (x == 3))), x, y)


@pytest.mark.parametrize("layout", ["transposed", "sliced", "expanded", "channels_last", "offset"])
def test_strided_arguments(layout: str) -> None:
    base = torch.randn(4, 6, 8, 10)
    x = {
        "transposed": base.transpose(1, 3),
        "sliced": base[:, ::2, 1:, 3:7],
        "expanded": base[:1, :, :, :1].expand(4, 6, 8, 10),
        "channels_last": base.to(memory_format=torch.channels_last),
        "offset": base[1:],
    }[layout]
    verify(Of(lambda m, x: F.gelu(x + 1) * x), x)
    # The same module, captured contiguous, must also be right for this layout.
    module = Of(lambda m, x: F.gelu(x + 1) * x)
    fast, _ = lowered(module, (torch.randn(x.shape),))
    torch.testing.assert_close(fast(x), module(x))


def test_views_inside_and_outside() -> None:
    def forward(m, x):
        y = x.view(6, 4, 5).permute(0, 2, 1) * 2
        z = torch.sigmoid(y + x.view(6, 4, 5).transpose(1, 2))
        return z.reshape(6, 20) + 1, x[:, 3:13:2] * 3 + x[:, :5]

    verify(Of(forward), torch.randn(6, 20))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(2, 64, 33), (1, 17, 100), (3, 130, 16)])
def test_rows_across_memory(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    """A residual that is read, and a norm that is written, along another dimension than the row: through tiles."""
    batch, width, length = shape

    def forward(m, x, y):
        h = x.permute(2, 0, 1) + y
        return F.layer_norm(h, (width,), m.weight).permute(1, 2, 0).reshape(batch, width * length), h

    x, y = torch.randn(batch, width, length, dtype=dtype), torch.randn(length, batch, width, dtype=dtype)
    x[0, 3, 5] = math.nan
    low = verify(Of(forward, weight=torch.randn(width, dtype=dtype)), x, y, kernel_count=1)
    assert "tiles::transpose" in low.text()


ROWS = [(1, 1), (3, 1), (1, 9), (7, 127), (130, 64), (5, 3001), (2, 3, 4, 17)]


@pytest.mark.parametrize("shape", ROWS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_row_families(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    cols = shape[-1]

    def forward(m, x, y):
        h = x + y
        normed = F.layer_norm(h, (cols,), m.weight, m.bias)
        return F.gelu(normed) * 2, h

    weight, bias = torch.randn(cols, dtype=dtype), torch.randn(cols, dtype=dtype)
    x, y = torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)
    verify(Of(forward, weight=weight, bias=bias), x, y, kernel_count=1)
    verify(Of(lambda m, x, y: torch.softmax(x * 0.5 + y, -1) + 1), x, y, kernel_count=1)
    verify(Of(lambda m, x, y: torch.log_softmax(x, -1) * y), x, y, kernel_count=1)
    rms = Of(lambda m, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * m.weight, weight=weight)
    verify(rms, x, kernel_count=1)


def test_row_results() -> None:
    def forward(m, x):
        return x.sum(-1) + x.mean(-1), x.amax(-1, keepdim=True) - x.amin(-1, keepdim=True), F.normalize(x, dim=-1)

    verify(Of(forward), torch.randn(5, 77))
    verify(Of(lambda m, x: x.var(-1) + x.std(-1, correction=0)), torch.randn(5, 77), kernel_count=1)
    verify(Of(lambda m, x: torch.logsumexp(x, -1) * 2), torch.randn(5, 77), kernel_count=1)
    verify(Of(lambda m, x: (x * 2).sum((2, 3))), torch.randn(3, 5, 7, 9), kernel_count=1)


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_rows_with_specials(special: float) -> None:
    x = torch.randn(4, 40)
    x[1, 7] = special
    x[2] = special
    for function in (
        lambda m, x: torch.softmax(x, -1) * 2,
        lambda m, x: torch.log_softmax(x, -1) * 2,
        lambda m, x: F.layer_norm(x, (40,)) + 1,
        lambda m, x: x.amax(-1) + x.amin(-1),
        lambda m, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
    ):
        verify(Of(function), x, kernel_count=1)


@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (1, 4, 1, 1), (3, 2, 9)])
def test_group_and_batch_norm(shape: tuple[int, ...]) -> None:
    channels = shape[1]
    groups = nn.GroupNorm(2, channels)
    batch = (nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d)(channels)
    for norm in (groups, batch):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    nn.init.normal_(batch.running_mean)  # type: ignore[arg-type]
    batch.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    verify(nn.Sequential(groups, nn.ReLU()), torch.randn(shape), kernel_count=1)
    verify(nn.Sequential(batch, nn.SiLU()), torch.randn(shape), kernel_count=1)
    # The second norm divides what the first has rounded by a small deviation.
    verify(nn.Sequential(batch, groups, nn.ReLU()), torch.randn(shape), kernel_count=1, units=2)


class Block(nn.Module):
    """A pre-norm transformer block: library calls with kernels between them."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def test_block_with_library_calls() -> None:
    torch.manual_seed(0)
    low = verify(nn.Sequential(Block(), Block()).eval(), torch.randn(3, 70, 32))
    called = kernels(low)
    assert any("layer_norm" in name for name in called)
    assert len(low.fusions) < len(called), "equal layers share their kernels"


def test_residual_is_written_once_beside_its_norm() -> None:
    def forward(m, x, y):
        h = x + y
        return F.layer_norm(h, (64,)) @ m.weight + h

    low = verify(Of(forward, weight=torch.randn(64, 64)), torch.randn(50, 64), torch.randn(50, 64))
    (fusion,) = low.fusions
    assert len(fusion.results) == 2


def test_results_of_equal_kernels_keep_apart() -> None:
    """The residual of one layer is an argument of the next layer's kernel, which is the same kernel."""

    def forward(m, x):
        for _ in range(3):
            x = x + F.layer_norm(x, (64,)) @ m.weight
        return x

    low = verify(Of(forward, weight=torch.randn(64, 64)), torch.randn(50, 64))
    assert len(low.fusions) < len(kernels(low))


def test_dynamic_sizes() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(24), nn.Linear(24, 24)

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            y = F.gelu(self.norm(x + self.linear(x)))
            scores = y @ y.transpose(1, 2) + mask
            return torch.softmax(scores, -1) @ (y * 2)

    module = Net().eval()
    example = (torch.randn(2, 10, 24), torch.randn(10, 10))
    ranges = {0: {0: Range(1, 9, 2), 1: Range(2, 64, 10)}, 1: {0: Range(2, 64, 10), 1: Range(2, 64, 10)}}
    fast, low = lowered(module, example, dynamic=ranges)
    assert kernels(low)
    for batch, length in [(2, 10), (1, 2), (9, 64), (3, 17)]:
        args = (torch.randn(batch, length, 24), torch.randn(length, length))
        with torch.no_grad():
            check(fast(*args), module, args)


def test_empty_and_tiny_stay_torch() -> None:
    verify(Of(lambda m, x: F.gelu(x) + 1), torch.randn(0, 5), kernel_count=0)
    verify(Of(lambda m, x: F.gelu(x)), torch.randn(3, 5), kernel_count=0)
    verify(Of(lambda m, x: x + 1), torch.randn(300, 500), kernel_count=0)
    verify(Of(lambda m, x: F.gelu(x)), torch.randn(300, 500), kernel_count=1)
    verify(Of(lambda m, x: x.sum(1)), torch.randn(30, 5), kernel_count=0)


def test_a_large_operator_or_a_reduction_alone_is_a_kernel() -> None:
    alone = (F.relu, F.hardsigmoid, F.hardswish, F.relu6, F.selu, torch.sigmoid, torch.tanh)
    verify(Of(lambda m, x: tuple(function(x) for function in alone)), torch.randn(601, 503), kernel_count=len(alone))
    norm = nn.BatchNorm2d(7)
    norm.running_mean.uniform_()  # type: ignore[union-attr]
    verify(norm, torch.randn(3, 7, 130, 131), kernel_count=1)
    dims = (0, 1, 2, (0, 2))
    reduced = Of(lambda m, x: tuple(f(x, dim) for f in (torch.sum, torch.mean, torch.amax, torch.amin) for dim in dims))
    verify(reduced, torch.randn(13, 37, 41), kernel_count=len(dims))  # of the same rows all four are one


ACROSS = {
    "sum": lambda m, x, y: (x * y).sum(1),
    "mean": lambda m, x, y: (x + y).mean(1, keepdim=True) - 1,
    "extremes": lambda m, x, y: (x + 1).amax(1) - (x + 1).amin(1),
    "of outer and inner": lambda m, x, y: (x * y).sum((0, 2), keepdim=True) * 0.5,
    "norm": lambda m, x, y: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6) + y,
    "normalize": lambda m, x, y: F.normalize(x, dim=1) * y,
    "variance": lambda m, x, y: (x * y).var(1),
    "softmax": lambda m, x, y: torch.softmax(x, 1) * y,
    "logsumexp": lambda m, x, y: torch.logsumexp(x * y, 1),
}


@pytest.mark.parametrize("shape", [(2, 33, 5), (3, 130, 67), (1, 1000, 19)], ids=str)
def test_rows_across_memory_are_reduced(shape: tuple[int, ...]) -> None:
    module = Of(lambda m, x, y: tuple(reduced(m, x, y) for reduced in ACROSS.values()))
    x, y = torch.randn(shape), torch.randn(shape)
    verify(module, x, y, kernel_count=3 if x.numel() > 2048 else None)
    x[0, 7, 3], x[-1, 5, 2] = math.nan, math.inf
    verify(module, x.transpose(1, 2).contiguous().transpose(1, 2), y)


@pytest.mark.parametrize("norm", [nn.InstanceNorm2d(6), nn.InstanceNorm2d(6, affine=True)], ids=["plain", "affine"])
def test_norm_by_the_statistics_of_the_batch(norm: nn.InstanceNorm2d) -> None:
    own = nn.BatchNorm2d(6, track_running_stats=False)
    for weight in (norm.weight, norm.bias, own.weight, own.bias):
        if weight is not None:
            nn.init.normal_(weight)
    x = torch.randn(3, 6, 11, 13) + 5
    verify(nn.Sequential(norm), x, kernel_count=1)
    verify(nn.Sequential(own, nn.ReLU()), x, kernel_count=1)


def test_what_rows_say_is_put_together_beside_them() -> None:
    """Both distances and their difference in one pass over the three; the mean, of far fewer numbers, by itself."""
    module = Of(lambda m, x, y, z: ((x - y).norm(dim=1) - (x - z).norm(dim=1) + 1).clamp(min=0).mean())
    verify(module, *(torch.randn(3000, 65) for _ in range(3)), kernel_count=2)


NORMS = {
    "batch": nn.BatchNorm2d(16, track_running_stats=False),
    "instance": nn.InstanceNorm2d(16, affine=True),
    "group": nn.GroupNorm(4, 16),
    "layer": nn.LayerNorm((19, 23)),
    "rms": Of(lambda m, x: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)),
}


@pytest.mark.parametrize("mean", [0.0, 0.1, 5.0])
@pytest.mark.parametrize("name", NORMS)
def test_norms_lose_no_more_than_torch(name: str, mean: float) -> None:
    """In the mean over all elements too: they share what their row's mean and scale lose."""
    module, x = copy.deepcopy(NORMS[name]), torch.randn(5, 16, 19, 23) + mean
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    fast, _ = lowered(module, (x,))
    with torch.no_grad():
        exact = wide(module, (x,))
        check(fast(x), module, (x,))
        off, own = ((value.double() - exact).square().mean().sqrt() for value in (fast(x), module(x)))
    assert off <= 1.5 * own, (off / own).item()


SUMS = {
    "sum": lambda x, dim: x.sum(dim),
    "mean": lambda x, dim: x.mean(dim),
    "squares": lambda x, dim: (x * x).mean(dim),
    "variance": lambda x, dim: x.var(dim),
    "norm": lambda x, dim: torch.linalg.vector_norm(x, 2, dim),
}


@pytest.mark.parametrize("mean", [0.0, 3.0])
@pytest.mark.parametrize("shape", [(501, 3001), (3001, 97), (33, 7001)], ids=str)
@pytest.mark.parametrize("dim", [0, 1], ids=["columns", "rows"])
@pytest.mark.parametrize("name", SUMS)
def test_reductions_lose_no_more_than_torch(name: str, dim: int, shape: tuple[int, ...], mean: float) -> None:
    """Half a unit beside it: of numbers as few as these torch's own errors may happen to be small."""
    module, x = Of(lambda m, x: SUMS[name](x, dim)), torch.randn(shape) + mean
    fast, _ = lowered(module, (x,))
    with torch.no_grad():
        check(fast(x), module, (x,), units=0.5)
        off, own = ((value.double() - wide(module, (x,))).square().mean().sqrt() for value in (fast(x), module(x)))
    assert off <= 1.5 * own, (off / own).item()


ROWS_OF = {
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax of scaled": lambda x: torch.softmax(x * 0.125, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "std": lambda x: x.std(-1),
}


@pytest.mark.parametrize("length", [31, 63, 97, 128, 191, 255, 319, 1000, 1001, 2049, 4097, 7001])
@pytest.mark.parametrize("name", ROWS_OF)
def test_rows_of_any_length_lose_no_more_than_torch(name: str, length: int) -> None:
    """What vectors leave over at the end of a row counts no more than the rest of it. Half a unit beside the largest
    error, as above."""
    module = Of(lambda m, x: ROWS_OF[name](x))
    torch.manual_seed(length)
    x = torch.randn(max(16, 65536 // length), length) * 2 + 1
    fast, _ = lowered(module, (x,))
    with torch.no_grad():
        check(fast(x), module, (x,), units=0.5)
        off, own = ((value.double() - wide(module, (x,))).square().mean().sqrt() for value in (fast(x), module(x)))
    assert off <= 1.5 * own, (off / own).item()


def test_statistics_of_long_rows_lose_no_more_than_torch() -> None:
    """Torch adds them up in float64."""
    module, x = nn.BatchNorm2d(4, track_running_stats=False), torch.randn(9, 4, 101, 103) + 0.1
    fast, _ = lowered(module, (x,))
    with torch.no_grad():
        exact = wide(module, (x,))
        assert (fast(x).double() - exact).abs().max() <= 1.5 * (module(x).double() - exact).abs().max()


def test_what_is_not_covered_stays_torch() -> None:
    low = verify(Of(lambda m, x: torch.cumsum(x, -1).sin() + x.sort(-1).values), torch.randn(8, 9))
    assert not low.fusions
    verify(Of(lambda m, x: torch.softmax(x, 0) * 2), torch.randn(8, 9))


def test_no_circles_between_groups() -> None:
    def forward(m, x):
        a = torch.exp(x) + 1
        b = (a * 2) @ m.weight
        c = torch.tanh(b) + a
        d = torch.sigmoid(c) @ m.weight
        return F.softmax(d + c, -1) + a, torch.tanh(d) * b

    verify(Of(forward, weight=torch.randn(16, 16) * 0.1), torch.randn(20, 16))


LOSSES = {
    "mse": lambda m, x, y: F.mse_loss(x, y),
    "smooth_l1": lambda m, x, y: F.smooth_l1_loss(x, y, beta=0.5),
    "hinge": lambda m, x, y: torch.mean(torch.clamp(1 - x * y, min=0)),
    "largest": lambda m, x, y: (x - y).abs().amax(),
    "sum": lambda m, x, y: (x * y).sum() * 0.5 + 1,
}


@pytest.mark.parametrize("size", [40, 70_001])
def test_a_lone_row_is_shared_out(size: int) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(3, size), torch.randn(3, size)
    module = Of(lambda m, x, y: tuple(loss(m, x, y) for loss in LOSSES.values()))
    low = verify(module, x, y)
    assert ("_partial" in low.text()) == ("parallel_for" in low.text()) == (3 * size > 128)
    x[1, 7], y[2, 5] = math.nan, math.inf
    fast, _ = lowered(module, (x, y))
    check(fast(x, y), module, (x, y))


def test_a_variance_of_a_long_row_stays_with_torch() -> None:
    assert kernels(lower(capture(Of(lambda m, x: (x * 2).var()).eval(), (torch.randn(200_000),)))) == []


def test_what_a_group_reads_by_way_of_a_borrowed_node_is_written() -> None:
    """The last group computes the first relu itself, from what another group would have kept to itself."""

    def block(m: Of, x: Tensor) -> Tensor:
        y = F.relu(F.layer_norm(x, (48,)))
        second = torch.mm(y.view(-1, 48), cast(Tensor, m.weight)).view_as(y)
        return F.max_pool2d(y + F.layer_norm(second, (48,)), 2)

    verify(Of(block, weight=torch.randn(48, 48) / 7), torch.randn(2, 3, 40, 48))
