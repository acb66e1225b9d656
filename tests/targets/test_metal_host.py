"""A candidate written for a Mac finds one: devices, refusals and torch.mps as there, in the host's memory."""

import subprocess
import sys

import pytest
import torch

from kernelwright.errors import LaunchError, MissingError
from kernelwright.targets import metal_host
from kernelwright.targets.metal_host import hosting, put


def there(*shape: int) -> torch.Tensor:
    x = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    put(x)
    return x


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.empty(3, device="mps"),
        lambda x: torch.zeros(3, device=torch.device("mps")),
        lambda x: torch.full((3,), 2.0, device="mps:0"),
        lambda x: torch.tensor([1, 2], device="mps"),
        lambda x: torch.arange(4, device=x.device),
        lambda x: torch.ones(2).to("mps"),
        lambda x: torch.ones(2).to(device="mps", dtype=torch.float16),
        lambda x: torch.ones(2).to(x),
        lambda x: torch.empty_like(x),
        lambda x: x.new_zeros(2),
        lambda x: x.new_tensor([1.0]),
        lambda x: x[0],
        lambda x: x.t().contiguous(),
        lambda x: x.detach(),
        lambda x: torch.nn.Parameter(x),
        lambda x: torch.cat([x, x]),
        lambda x: x.max(-1).values,
        lambda x: x.split(1)[1],
        lambda x: torch.nn.functional.gelu(x),
        lambda x: torch.nn.functional.layer_norm(x, (3,)),
        lambda x: x * torch.tensor(2.0),
        lambda x: torch.nn.Linear(3, 2, device="mps")(x),
    ],
)
def test_on_mps(make: object) -> None:
    with hosting():
        result = make(there(2, 3))  # type: ignore[operator]
        assert result.device == torch.device("mps", 0) and result.device.type == "mps"
        assert result.is_mps and not result.is_cpu and not result.is_cuda and result.get_device() == 0
    assert result.device.type == "cpu"  # where it truly lies


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.empty(3),
        lambda x: x.cpu(),
        lambda x: x.to("cpu"),
        lambda x: x.cpu() + torch.ones(2, 3),
        lambda x: torch.from_numpy(x.cpu().numpy()),
        lambda x: torch.zeros_like(x, device="cpu"),
        lambda x: torch.nn.Linear(3, 2).weight,
    ],
)
def test_on_the_cpu(make: object) -> None:
    with hosting():
        result = make(there(2, 3))  # type: ignore[operator]
        assert result.device.type == "cpu" and result.is_cpu and not result.is_mps and result.get_device() == -1


def test_a_move_copies_and_a_view_does_not() -> None:
    with hosting():
        x = there(2, 3)
        x.cpu().fill_(9)
        assert x[0, 1] == 1
        host = torch.zeros(3)
        moved = host.to("mps")
        moved += 1
        assert host.sum() == 0 and moved.sum() == 3
        x[0].fill_(5)
        assert x[0, 2] == 5 and x.to("mps") is x


WORDS = "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32"


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda x: x.double(), TypeError, WORDS),
        (lambda x: torch.zeros(2, dtype=torch.float64, device="mps"), TypeError, WORDS),
        (lambda x: torch.zeros(2, dtype=torch.float64).to("mps"), TypeError, WORDS),
        (lambda x: torch.ones(2).to("mps", torch.float64), TypeError, WORDS),
        (lambda x: x.sum(dtype=torch.float64), TypeError, WORDS),
        (lambda x: x.numpy(), TypeError, "can't convert mps:0 device type tensor to numpy"),
        (lambda x: x + torch.ones(2, 3), RuntimeError, "at least two devices, mps:0 and cpu"),
        (lambda x: torch.cat([x, torch.ones(2, 3)]), RuntimeError, "at least two devices"),
        (lambda x: torch.nn.Linear(3, 2)(x), RuntimeError, "at least two devices"),
        (lambda x: torch.mode(x), NotImplementedError, "'aten::mode' is not currently implemented for the MPS device"),
        (lambda x: torch.mps.load_metallib("x"), MissingError, "needs a Mac"),
    ],
)
def test_refused_as_on_a_mac(make: object, kind: type[Exception], words: str) -> None:
    with hosting(), pytest.raises(kind) as caught:
        make(there(2, 3))  # type: ignore[operator]
    assert words in str(caught.value)


def test_torch_mps_answers() -> None:
    with hosting():
        assert torch.backends.mps.is_available() and torch.backends.mps.is_built() and torch.mps.is_available()
        assert not torch.cuda.is_available()
        start, end = torch.mps.Event(enable_timing=True), torch.mps.Event(enable_timing=True)
        start.record()
        torch.mps.synchronize()
        end.record()
        assert start.elapsed_time(end) >= 0 and end.query()
        with torch.random.fork_rng(devices=[]):
            torch.mps.manual_seed(3)
            assert torch.equal(
                torch.rand(2, device="mps").cpu(), torch.rand(2, generator=torch.Generator().manual_seed(3))
            )


def test_all_is_as_it_was_afterwards() -> None:
    before = (
        torch.mps.synchronize,
        torch.backends.mps.is_available,
        hasattr(torch.mps, "Event"),
        torch.cuda.is_available,
    )
    with pytest.raises(ZeroDivisionError), hosting():
        raise ZeroDivisionError
    after = (
        torch.mps.synchronize,
        torch.backends.mps.is_available,
        hasattr(torch.mps, "Event"),
        torch.cuda.is_available,
    )
    assert before == after and not metal_host.active()
    assert torch._C._len_torch_function_stack() == 0 and torch._C._len_torch_dispatch_stack() == 0


class Scaled(torch.nn.Module):
    offset: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("offset", torch.zeros(3))
        self.register_buffer("table", None)

    def prepare(self) -> None:
        self.table = self.weight * 2 + torch.zeros(3, device="mps")

    def forward(self, x: torch.Tensor, back: bool = False) -> torch.Tensor:
        y = x * self.table + self.offset
        return y.cpu() if back else y


def test_a_module_is_housed() -> None:
    module = metal_host.housed(Scaled())
    module.load_state_dict({"weight": torch.full((3,), 3.0), "offset": torch.ones(3)})
    module.prepare()  # type: ignore[operator]
    x = torch.ones(2, 3)
    result = module(x)
    assert torch.equal(result, torch.full((2, 3), 7.0)) and result.device.type == "cpu"
    assert type(module).__name__ == "Scaled" and isinstance(module, Scaled)
    assert list(module.state_dict()) == ["weight", "offset", "table"]
    with pytest.raises(LaunchError, match="output 0 lies on cpu"):
        module(x, back=True)


def test_a_buffer_of_float64_cannot_go_there() -> None:
    module = torch.nn.Module()
    module.register_buffer("b", torch.zeros(2, dtype=torch.float64))
    with pytest.raises(TypeError, match="float64"):
        metal_host.housed(module)


def test_on_a_mac_tensors_are_carried_there_and_back() -> None:
    seen = []

    class Noting(torch.nn.Module):
        def forward(self, x: torch.Tensor, more: list[torch.Tensor]) -> dict[str, torch.Tensor]:
            seen.append((x.device.type, more[0].device.type))
            return {"sum": x}

    module = metal_host.carried(Noting(), device="meta")  # the only device that is neither cpu nor a GPU
    with pytest.raises(NotImplementedError, match="meta"):  # its tensors have no values that could come back
        module(torch.ones(2), [torch.ones(1)])
    assert seen == [("meta", "meta")]


def test_torchs_compiler_is_not_imported() -> None:
    program = (
        "import sys, torch\nfrom kernelwright.targets.metal_host import hosting\n"
        "with hosting(): torch.ones(3, device='mps') + 1\nsys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
