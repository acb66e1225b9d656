"""The oracle equals a reference rewritten in float64 by hand, whatever the module does with dtypes."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from kernelwright.judge.oracle import oracle


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine make small tensors a hundred times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


WOBBLE = 2.0**-24


class HardCast(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16)

    def forward(self, x):
        return self.inner(self.inner(x).to(torch.float32)).type_as(x)


class PlainAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.randn(16, 16)

    def forward(self, x):
        return x @ self.table + torch.zeros(16) + torch.full((16,), 0.1)


class HalfWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16).bfloat16()

    def forward(self, x):
        return self.inner(x.bfloat16()).float()


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return torch.relu(self.inner(x))


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4, 16))

    def forward(self, x):
        self.seen[:2].add_(x[:2])
        return x * 2 + self.seen.sum(0)


TRUTHS = [
    (HardCast, lambda m, x: F.linear(F.linear(x, m.inner.weight.double(), m.inner.bias.double()), *_double(m.inner))),
    (PlainAttribute, lambda m, x: x @ m.table.double() + 0.1),
    (HalfWeights, lambda m, x: F.linear(x, *_double(m.inner))),
    (Autocast, lambda m, x: torch.relu(F.linear(x, *_double(m.inner)))),
    (InPlace, lambda m, x: x * 2 + x[:2].sum(0)),
]


def _double(linear: nn.Linear) -> tuple[torch.Tensor, torch.Tensor]:
    return linear.weight.double(), linear.bias.double()


@pytest.mark.parametrize(("kind", "by_hand"), TRUTHS, ids=lambda item: getattr(item, "__name__", ""))
def test_equals_the_hand_written_float64(kind, by_hand):
    torch.manual_seed(3)
    module = kind().eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    x = torch.randn(4, 16)
    truth = oracle(module, (x,))
    with torch.no_grad():
        wanted = by_hand(module, x.double())
    assert truth.note == ""
    assert truth.outputs[0].dtype is torch.float64
    torch.testing.assert_close(truth.outputs[0], wanted, rtol=1e-14, atol=1e-14)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_run_in_float64(kind):
    module = kind(8, 16, batch_first=True)
    truth = oracle(module, (torch.randn(2, 5, 8),))
    assert truth.note == ""
    assert {output.dtype for output in truth.outputs} == {torch.float64}


def test_an_opaque_operator_gives_the_next_best_and_says_so():
    @torch.library.custom_op("kernelwright_test::opaque", mutates_args=())
    def opaque(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float32:
            raise RuntimeError("float32 only")
        return x + 1

    class Opaque(nn.Module):
        def forward(self, x):
            return opaque(x)

    truth = oracle(Opaque(), (torch.ones(3),))
    assert "own precision" in truth.note and "float32 only" in truth.note
    assert truth.outputs[0].tolist() == [2.0, 2.0, 2.0]


def test_reading_the_bits_of_a_float_is_not_done_in_float64():
    class Bits(nn.Module):
        def forward(self, x):
            return (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32)

    truth = oracle(Bits(), (torch.tensor([-1.5, 2.0]),))
    assert truth.outputs[0].tolist() == [1.5, 2.0] and "bits of a float" in truth.note


@pytest.mark.parametrize(
    ("function", "length"),
    [
        (lambda x: x @ torch.ones(64, 8), 64),
        (lambda x: x.sum(-1), 64),
        (lambda x: torch.softmax(x, -1), 64),
        (lambda x: x.mean(), 32 * 64),
        (lambda x: F.conv1d(x[None], torch.ones(4, 32, 3)), 96),
        (lambda x: torch.relu(x), 1),
    ],
)
def test_knows_the_longest_sum(function, length):
    assert oracle(function, (torch.randn(32, 64),)).reduction_length == length


def test_wobble_moves_as_far_as_roundings_do():
    x = torch.randn(64, 512)
    still, moved = oracle(torch.sum, (x,)), oracle(torch.sum, (x,), wobble=WOBBLE)
    distance = (still.outputs[0] - moved.outputs[0]).abs().item()
    assert 0 < distance < 10 * WOBBLE * x.double().norm().item()


def test_nested_results_and_wide_integers_pass_through():
    truth = oracle(lambda x: {"best": torch.max(x, 1), "all": (x, 3)}, (torch.randn(2, 3),))
    assert truth.template == (
        '{"dict": {"best": {"tuple": [{"tensor": 0}, {"tensor": 1}]}, "all": {"tuple": [{"tensor": 2}, 3]}}}'
    )
    assert [output.dtype for output in truth.outputs] == [torch.float64, torch.int64, torch.float64]


class WritesToAll(nn.Module):
    def forward(self, x, double, count):
        count.add_(1)
        return x.mul_(2.0) + double.add_(1.0) * count


@pytest.mark.parametrize("wobble", [0.0, WOBBLE])
def test_what_a_module_writes_to_its_inputs_stays_in_copies(wobble: float):
    given = (torch.randn(8), torch.randn(8, dtype=torch.float64), torch.arange(8))
    before = [item.clone() for item in given]
    found = oracle(WritesToAll(), given, wobble=wobble).outputs[0]
    assert all(torch.equal(one, two) for one, two in zip(given, before, strict=True))
    x, double, count = before
    assert torch.allclose(found, x.double() * 2 + (double + 1) * (count + 1), rtol=1e-5, atol=1e-6)
