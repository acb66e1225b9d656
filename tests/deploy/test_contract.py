"""Which calls a deployed kernel may answer."""

import pytest
import torch

from kernelwright.deploy.contract import Contract
from kernelwright.records import Numerics, Range, Signature, TensorSpec, flatten


def contract(args, kwargs=None, numerics=Numerics(), shapes=None) -> Contract:
    leaves, template = flatten({"args": args, "kwargs": kwargs or {}}, lambda item: isinstance(item, torch.Tensor))
    specs = tuple(
        TensorSpec(f"t{i}", str(leaf.dtype).removeprefix("torch."), (shapes or {}).get(i, tuple(leaf.shape)))
        for i, leaf in enumerate(leaves)
    )
    return Contract(Signature(specs, template), numerics)


X = torch.zeros(4, 8)


@pytest.mark.parametrize(
    "args, kwargs, fits",
    [
        ((X, 2), {"flag": True}, True),
        ((X.T.contiguous().T, 2), {"flag": True}, True),
        ((X, 3), {"flag": True}, False),
        ((X, 2.0), {"flag": True}, False),
        ((X, 2), {"flag": 1}, False),
        ((X, 2), {}, False),
        ((X, 2, 1), {"flag": True}, False),
        ((X.double(), 2), {"flag": True}, False),
        ((torch.zeros(5, 8), 2), {"flag": True}, False),
        ((torch.zeros(4, 8, device="meta"), 2), {"flag": True}, False),
        (([X], 2), {"flag": True}, False),
        ((None, 2), {"flag": True}, False),
    ],
)
def test_structure_and_tensors(args, kwargs, fits) -> None:
    found = contract([X, 2], {"flag": True}).leaves(args, kwargs)
    assert (found is not None) == fits


@pytest.mark.parametrize("rows, fits", [(1, True), (8, True), (0, False), (9, False)])
def test_ranges(rows: int, fits: bool) -> None:
    ranged = contract([X], shapes={0: (Range(1, 8, 4), 8)})
    assert (ranged.leaves((torch.zeros(rows, 8),), {}) is not None) == fits
    assert ranged.leaves((torch.zeros(4, 9),), {}) is None
    assert ranged.leaves((torch.zeros(4),), {}) is None


def test_subclasses_and_transforms_are_outside() -> None:
    plain = contract([X])

    class Sub(torch.Tensor):
        pass

    assert plain.leaves((X.as_subclass(Sub),), {}) is None
    assert plain.leaves((torch.nn.Parameter(X),), {}) is not None
    seen = []
    torch.func.vmap(lambda x: seen.append(plain.leaves((x,), {})) or x)(torch.zeros(2, 4, 8))
    assert seen == [None]


def test_autocast_must_agree() -> None:
    plain, cast = contract([X]), contract([X], numerics=Numerics(autocast="bfloat16"))
    assert plain.leaves((X,), {}) is not None and cast.leaves((X,), {}) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert plain.leaves((X,), {}) is None and cast.leaves((X,), {}) is not None


def test_an_alias_must_stay_one() -> None:
    _, template = flatten({"args": [X, X], "kwargs": {}}, lambda item: isinstance(item, torch.Tensor))
    tied = Contract(
        Signature((TensorSpec("a", "float32", (4, 8)), TensorSpec("b", "float32", (4, 8), alias_of=0)), template),
        Numerics(),
    )
    assert tied.leaves((X, X), {}) is not None
    assert tied.leaves((X, X.clone()), {}) is None
