"""Other weights: new memory, ties, positive variances, structure left alone."""

import pytest
import torch

from kernelwright.errors import UsageError
from kernelwright.graph import build_reference
from kernelwright.problems import weights
from kernelwright.problems.parameters import VARIANTS
from kernelwright.records import Problem, Signature

SOURCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 6)
        self.b = nn.Linear(6, 6)
        self.b.weight = self.a.weight
        self.norm = nn.BatchNorm1d(6)
        self.narrow = nn.Parameter(torch.randn(3, 2, dtype=torch.bfloat16))
        self.alone = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("mask", torch.ones(6, 6).tril())
        self.register_buffer("hidden", torch.full((2,), float("-inf")))

def get_init_inputs():
    return []
"""
PROBLEM = Problem("Weights", SOURCE, Signature((), "{}"))
ORIGINAL = build_reference(PROBLEM).state_dict()


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_a_state_dict(variant: str) -> None:
    made = weights(PROBLEM, None, variant, 1)
    assert list(made) == list(ORIGINAL)
    for name, tensor in made.items():
        assert (tensor.shape, tensor.dtype) == (ORIGINAL[name].shape, ORIGINAL[name].dtype)
        assert tensor.data_ptr() != ORIGINAL[name].data_ptr() and not tensor.requires_grad
    build_reference(PROBLEM, made)
    assert made["a.weight"] is made["b.weight"]
    assert (made["norm.running_var"] > 0).all()
    for name in ("mask", "hidden", "norm.num_batches_tracked"):
        assert torch.equal(made[name], ORIGINAL[name])


def test_original_is_equal() -> None:
    assert all(torch.equal(tensor, ORIGINAL[name]) for name, tensor in weights(PROBLEM, None, "original", 1).items())


@pytest.mark.parametrize("variant", ["permuted", "scaled"])
def test_variants_change_what_was_learned(variant: str) -> None:
    made, again, other = (weights(PROBLEM, None, variant, seed) for seed in (1, 1, 2))
    learned = ["a.weight", "a.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var", "narrow"]
    for name in learned:
        assert torch.equal(made[name], again[name])
        assert not torch.equal(made[name], ORIGINAL[name]), name
        assert not torch.equal(made[name], other[name]) or variant == "permuted"


def test_permuted_keeps_the_values_and_scaled_the_size() -> None:
    permuted, scaled = weights(PROBLEM, None, "permuted", 3), weights(PROBLEM, None, "scaled", 3)
    assert torch.equal(permuted["a.weight"].sort(0).values, ORIGINAL["a.weight"].sort(0).values)
    ratio = scaled["a.weight"] / ORIGINAL["a.weight"]
    assert ((ratio > 0.49) & (ratio < 2.01)).all()
    torch.testing.assert_close(ratio, ratio[:, :1].expand_as(ratio))


def test_given_weights_are_taken_and_left_alone() -> None:
    given = {name: tensor.clone() for name, tensor in ORIGINAL.items()}
    given["alone"].fill_(7)
    made = weights(PROBLEM, given, "scaled", 1)
    assert float(given["alone"]) == 7 and float(made["alone"]) != 2
    assert made["a.weight"] is made["b.weight"], "ties are the module's, whatever the dict shares"


def test_unknown_variant() -> None:
    with pytest.raises(UsageError, match="known: original, permuted, scaled"):
        weights(PROBLEM, None, "shuffled", 0)
