"""The error budget: honest evaluations lie well inside, steps of lower precision far outside, at every scale."""

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.judge import budget
from kernelwright.judge.budget import allowances, row_length
from kernelwright.judge.examination import alike, examine
from kernelwright.judge.oracle import oracle


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine make small tensors a hundred times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


torch.manual_seed(5)
WEIGHT = torch.randn(64, 512) * 0.05
KERNEL = torch.randn(8, 4, 3, 3)


def serial_linear(x):
    total = torch.zeros(x.shape[0], 64)
    for k in range(512):
        total += x[:, k : k + 1] * WEIGHT[:, k]
    return total


def unfolded(x):
    columns = F.unfold(x, 3, padding=1).transpose(1, 2)
    return F.linear(columns, KERNEL.flatten(1)).transpose(1, 2).reshape(x.shape[0], 8, *x.shape[2:])


def one_pass_norm(x):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt((x * x).mean(-1, keepdim=True) - mean * mean + 1e-5)


HONEST = {
    "linear, one addend after the other": (lambda x: F.linear(x, WEIGHT), serial_linear, (16, 512)),
    "sum, one addend after the other": (lambda x: x.sum(-1), lambda x: torch.cumsum(x, -1)[:, -1], (16, 4096)),
    "mean of signed numbers, to a scalar": (
        lambda x: x.mean(), lambda x: torch.cumsum(x.flatten(), 0)[-1] / x.numel(), (256, 1024)
    ),
    "softmax without the maximum": (
        lambda x: torch.softmax(x, -1), lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True), (16, 1000)
    ),
    "layer norm in one pass": (lambda x: F.layer_norm(x, (512,)), one_pass_norm, (16, 512)),
    "convolution as a matmul": (lambda x: F.conv2d(x, KERNEL, padding=1), unfolded, (2, 4, 12, 12)),
    "sum of a linear, folded": (
        lambda x: F.linear(x, WEIGHT).sum(-1), lambda x: x @ WEIGHT.sum(0), (16, 512)
    ),
    "gelu by sigmoid": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: x / (1 + torch.exp(-1.5957691216057308 * (x + 0.044715 * x * x * x))),
        (16, 512),
    ),
}  # fmt: skip


def judged(reference, x, got, **options):
    own = reference(x)
    wanted = allowances(oracle(reference, (x,)), oracle(reference, (x,), wobble=budget.WOBBLE), (own,), **options)[0]
    return examine(got, wanted)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 10.0])
@pytest.mark.parametrize("name", HONEST)
def test_another_order_of_evaluation_is_inside(name, scale):
    reference, honest, shape = HONEST[name]
    x = torch.randn(*shape) * scale
    found = judged(reference, x, honest(x))
    assert not found.wrong, found


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [1e-2, 1.0, 10.0])
@pytest.mark.parametrize("name", ["linear, one addend after the other", "convolution as a matmul", "gelu by sigmoid"])
def test_a_step_in_lower_precision_is_far_outside(name, scale, dtype):
    reference, _, shape = HONEST[name]
    x = torch.randn(*shape) * scale
    found = judged(reference, x, reference(x.to(dtype).float()))
    assert found.worst > 20, found


def test_tf32_is_allowed_only_where_the_user_runs_it():
    x = torch.randn(16, 512)
    rounded = ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
    got = F.linear(rounded, WEIGHT)
    assert judged(lambda t: F.linear(t, WEIGHT), x, got).wrong
    assert not judged(lambda t: F.linear(t, WEIGHT), x, got, tf32=True).wrong


def test_a_bfloat16_problem_may_be_solved_in_bfloat16_but_not_worse():
    reference = lambda x: F.linear(x.bfloat16(), WEIGHT.bfloat16())
    x = torch.randn(16, 512)
    assert not judged(reference, x, F.linear(x, WEIGHT).bfloat16()).wrong
    assert not judged(reference, x, serial_linear(x.bfloat16().float()).bfloat16()).wrong
    assert judged(reference, x, (F.linear(x, WEIGHT) * 1.1).bfloat16()).wrong


def test_nothing_is_absolute():
    reference = lambda x: torch.softmax(x, -1) * 1e-6
    x = torch.randn(8, 64)
    assert judged(reference, x, torch.zeros(8, 64)).wrong == 8 * 64
    assert not judged(reference, x, reference(x)).wrong


def test_masks_of_nan_and_infinity_are_compared():
    x = torch.tensor([[1.0, float("nan"), float("inf"), -float("inf")] * 4])
    assert not judged(lambda t: t * 2, x, x * 2).wrong
    dropped = judged(lambda t: t * 2, x, torch.nan_to_num(x * 2, nan=0.0, posinf=float("inf"), neginf=-float("inf")))
    assert (dropped.lost, dropped.strange) == (4, 0)
    flipped = judged(lambda t: t * 2, x, (x * 2).abs())
    assert (flipped.lost, flipped.strange) == (0, 4)


def test_an_overflow_of_the_reference_is_as_good_as_its_exact_value():
    reference = lambda x: torch.exp(x) / torch.exp(x)
    x = torch.full((16,), 100.0)
    assert not judged(reference, x, reference(x)).wrong
    assert not judged(reference, x, torch.ones(16)).wrong
    assert judged(reference, x, torch.zeros(16)).wrong


CHOOSERS = {
    "argmax": lambda x: torch.argmax(x, -1),
    "argmax of all": lambda x: torch.argmax(x),
    "max": lambda x: torch.max(x, 1)[1],
    "max keeping": lambda x: torch.max(x * 2 + 1, dim=0, keepdim=True)[1],
    "sort": lambda x: torch.sort(x, dim=-1)[1],
    "argsort": lambda x: torch.argsort(x, dim=0, descending=True),
    "topk": lambda x: torch.topk(x, 4, dim=-1)[1],
}


@pytest.mark.parametrize("name", CHOOSERS)
def test_indices_may_point_at_equals_and_at_nothing_else(name):
    choose = CHOOSERS[name]
    x = torch.randn(8, 50)
    assert not judged(choose, x, choose(x)).wrong
    assert judged(choose, x, choose(-x)).wrong
    assert judged(choose, x, choose(x) - 1000).wrong
    tied = x.round().clamp(-1, 1)
    swapped = tied.flip(1).flip(0)
    size = 400 if name == "argmax of all" else 8 if name in ("max keeping", "argsort") else 50
    other = size - 1 - choose(swapped)
    other = other.flip(1) if name in ("max keeping", "argsort") else other if not other.dim() else other.flip(0)
    assert not torch.equal(other, choose(tied))
    assert not judged(choose, tied, other).wrong


@pytest.mark.parametrize("most", [float("inf"), float("nan")])
def test_of_two_infinities_either_is_the_largest(most: float):
    choose = lambda x: torch.max(x, -1)[1]
    x = torch.randn(3, 9)
    x[:, 2] = x[:, 7] = most
    assert not judged(choose, x, 9 - choose(x)).wrong, "2 or 7, whichever the reference does not take"
    assert judged(choose, x, torch.full((3,), 4)).wrong
    x[0, 2], x[0, 7] = -float("inf"), float("inf")
    assert judged(choose, x, torch.full((3,), 2)).wrong


def test_an_index_twice_is_no_order():
    choose = lambda x: torch.topk(x, 3)[1]
    assert judged(choose, torch.zeros(2, 9), torch.tensor([[1, 2, 3], [4, 4, 5]])).wrong


def test_other_whole_numbers_are_equal_or_undecided():
    x = torch.linspace(-0.5, 0.5, 1600).view(32, 50)
    assert judged(lambda t: t > 0, x, x > 0.001).wrong
    on_the_edge = torch.full((1000,), 0.5)
    found = judged(lambda t: t > 0.5, on_the_edge, torch.rand(1000) > 0.5)
    assert found.undecided > 300 and found.wrong < 350


class _Largest(TorchDispatchMode):
    """The bytes of the largest tensor made."""

    seen = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and func._schema.returns[0].alias_info is None:
            self.seen = max(self.seen, made.nbytes)
        return made


def test_what_is_so_is_counted_without_another_tensor_as_large():
    numbers = torch.ones(1 << 18, dtype=torch.float64)
    numbers[[5, 70_000, -1]] = torch.tensor([float("inf"), float("nan"), -float("inf")], dtype=torch.float64)
    assert budget.counted(torch.isinf, numbers) == 2
    assert budget.counted(torch.isfinite, numbers.view(512, 512).T) == numbers.numel() - 3
    with _Largest() as largest:
        budget.counted(torch.isfinite, numbers)
    assert largest.seen <= numbers.nbytes // 4


def test_rows():
    assert [row_length(shape) for shape in [(), (3,), (8, 64), (8, 4), (2, 3, 1)]] == [1, 3, 64, 32, 6]


def test_alike_takes_nan_for_equal():
    nan = torch.tensor([1.0, float("nan")])
    assert alike(nan, nan.clone()) and not alike(nan, torch.tensor([2.0, float("nan")]))
    assert not alike(nan, nan.double())


def test_empty_outputs_are_fine():
    assert judged(lambda x: x * 2, torch.ones(0, 5), torch.ones(0, 5)).count == 0


PUBLISHED = {
    "zeros for a softmax of 65536": (lambda x: torch.softmax(x, -1), (4, 65536), torch.zeros_like),
    "zeros for a Frobenius norm": (lambda x: x / torch.norm(x), (256, 1024), torch.zeros_like),
    "a uniform answer for a flat softmax": (
        lambda x: torch.softmax(F.linear(x, WEIGHT) * 0.01, -1), (16, 512), lambda own: torch.full_like(own, 1 / 64)
    ),
    "half of a mean": (
        lambda x: (x * x).mean(), (512, 512), lambda own: own * (1 + 1e-3)
    ),
    "one for a hinge loss": (
        lambda x: torch.clamp(1 - x * 1e-3, min=0).mean(), (512, 512), torch.ones_like
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_shortcuts_are_outside(name):
    """What passes an absolute tolerance of 1e-4 (notes of KernelBench's users) does not pass a relative budget."""
    reference, shape, answer = PUBLISHED[name]
    x = torch.rand(shape)
    assert judged(reference, x, answer(reference(x))).worst > 10
