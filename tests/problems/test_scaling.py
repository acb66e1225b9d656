"""Constants are found and replaced in the text as it stands; halving follows a made-up cost."""

import math

import pytest

from kernelwright.errors import ProblemError, UnknownNameError, UsageError
from kernelwright.problems.scaling import automatic, changed, constants, explicit, replaced
from kernelwright.records import Constant

TEXT = '''"""é: offsets are characters."""
import torch
batch_size = 128  # rows
dim: int = 1024 * 4
seq_len, heads = 512, 8
input_shape = (256, 3)
scale = 0.5
name = "dim = 3"
flag = True
kernel_size = 64


class Model:
    dim = 77
'''


def values(text: str) -> dict[str, int]:
    return {place.name: place.value for place in constants(text)}


def test_constants() -> None:
    assert values(TEXT) == {
        "batch_size": 128,
        "dim": 4096,
        "seq_len": 512,
        "heads": 8,
        "input_shape[0]": 256,
        "input_shape[1]": 3,
        "kernel_size": 64,
    }


def test_only_the_numbers_change() -> None:
    new = replaced(TEXT, {"batch_size": 4, "dim": 64, "input_shape[0]": 32})
    assert values(new) == values(TEXT) | {"batch_size": 4, "dim": 64, "input_shape[0]": 32}
    for old, line in zip(TEXT.splitlines(), new.splitlines(), strict=True):
        assert old == line or old.split("=")[0] == line.split("=")[0]
    assert "batch_size = 4  # rows" in new
    assert "    dim = 77" in new


def test_record() -> None:
    assert changed(TEXT, {"batch_size": 4, "dim": 4096}) == (Constant("batch_size", 128, 4),)


def test_explicit() -> None:
    assert explicit(TEXT, "batch_size=8, dim=64") == {"batch_size": 8, "dim": 64}
    with pytest.raises(UnknownNameError, match="did you mean batch_size"):
        explicit(TEXT, "batchsize=8")
    for wrong in ("batch_size", "batch_size=x", "batch_size=0", "=3", "atuo"):
        with pytest.raises(UsageError, match="write"):
            explicit(TEXT, wrong)


def cost(limit: int):
    def weigh(text: str) -> float:
        found = values(text)
        return math.prod(found[name] for name in ("batch_size", "dim", "seq_len")) / limit

    return weigh


def test_batch_shrinks_first() -> None:
    assert automatic(TEXT, cost(16 * 4096 * 512))["batch_size"] == 16
    assert automatic(TEXT, cost(16 * 4096 * 512))["dim"] == 4096


def test_lengths_shrink_before_widths() -> None:
    chosen = automatic(TEXT, cost(4 * 4096 * 64))
    assert (chosen["batch_size"], chosen["dim"], chosen["seq_len"]) == (4, 4096, 64)
    assert "kernel_size" not in chosen and "heads" not in chosen


def test_what_does_not_divide_is_left_to_others() -> None:
    def weigh(text: str) -> float:
        if values(text)["batch_size"] % 64:
            raise ProblemError("batch must be a multiple of 64")
        return cost(64 * 4096 * 32)(text)

    chosen = automatic(TEXT, weigh)
    assert chosen["batch_size"] == 64 and chosen["seq_len"] <= 32


def test_equals_shrink_together() -> None:
    text = "width = 512\nout_width = 512\n"

    def weigh(text: str) -> float:
        found = values(text)
        if found["width"] != found["out_width"]:
            raise ProblemError("they must be equal")
        return found["width"] / 128

    assert automatic(text, weigh) == {"width": 128, "out_width": 128}


def test_what_cannot_get_light_stays_of_a_sensible_size() -> None:
    text = "batch_size = 64\nheight = 256\nhidden_layer_sizes = [1024, 1024]\nnum_layers = 32\n"
    chosen = automatic(text, lambda text: 2.0 + values(text)["height"] / 256)
    assert chosen == {"batch_size": 4, "height": 32, "hidden_layer_sizes[0]": 64, "hidden_layer_sizes[1]": 64}


def test_what_fits_is_left_alone() -> None:
    assert automatic(TEXT, lambda text: 0.5)["batch_size"] == 128


def test_too_slow_is_tolerated_up_to_a_point() -> None:
    assert automatic("n = 64\n", lambda text: 150.0)["n"] < 64
    with pytest.raises(ProblemError, match="cannot be reduced far enough"):
        automatic("n = 64\n", lambda text: 250.0)
