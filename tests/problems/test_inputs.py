"""Cases: their own numbers, the user's structure, families, layouts, ranges."""

from dataclasses import replace

import pytest
import torch

from kernelwright.errors import ProblemError, UsageError
from kernelwright.problems import FAMILIES, LAYOUTS, arguments
from kernelwright.records import Case, Problem, Range, Signature, TensorSpec

HEAD = "import math\nimport random\nimport numpy as np\nimport torch\nfrom torch import nn\n\n"


def problem(body: str, *specs: TensorSpec, name: str = "Test") -> Problem:
    arguments_ = ", ".join(f'{{"tensor": {index}}}' for index in range(len(specs)))
    return Problem(
        name,
        f"{HEAD}def get_inputs():\n    return {body}\n",
        Signature(specs, f'{{"dict": {{"args": [{arguments_}], "kwargs": {{"dict": {{}}}}}}}}'),
    )


X = TensorSpec("x", "float32", (4, 6))
RANDN = problem("[torch.randn(4, 6)]", X)


def test_golden_values() -> None:
    """What archives rest on: these must not change with torch, NumPy or this package."""
    mixed = problem(
        "[torch.randn(3), torch.rand(3) * 2 - 1, torch.randint(0, 100, (4,)), torch.rand(3) < 0.5]",
        TensorSpec("a", "float32", (3,)),
        TensorSpec("b", "float32", (3,)),
        TensorSpec("c", "int64", (4,), low=0, high=99),
        TensorSpec("d", "bool", (3,)),
    )
    a, b, c, d = arguments(mixed, Case(seed=1))
    torch.testing.assert_close(a, torch.tensor(GOLDEN_A), rtol=1e-6, atol=0)
    torch.testing.assert_close(b, torch.tensor(GOLDEN_B), rtol=1e-6, atol=0)
    assert (c.tolist(), d.tolist()) == (GOLDEN_C, GOLDEN_D)


GOLDEN_A = [-0.160696164, 0.897444665, -1.238392711]
GOLDEN_B = [-0.572613001, -0.849697709, -0.428126454]
GOLDEN_C = [70, 30, 13, 35]
GOLDEN_D = [True, False, False]


@pytest.mark.parametrize(
    ("body", "dtype"),
    [
        ("[torch.randn(2000, dtype=torch.float64)]", "float64"),
        ("[torch.rand(2000)]", "float32"),
        ("[torch.rand(2000, dtype=torch.bfloat16)]", "bfloat16"),
        ("[torch.randn_like(torch.empty(2000, dtype=torch.float16))]", "float16"),
        ("[torch.rand_like(torch.ones(2000))]", "float32"),
        ("[torch.empty(2000).uniform_(-2, 3)]", "float32"),
        ("[torch.empty(2000).normal_(5, 0.1)]", "float32"),
        ("[torch.normal(0.0, 1.0, (2000,))]", "float32"),
        ("[torch.normal(torch.zeros(2000), 2.0)]", "float32"),
        ("[torch.randint(3, 9, (2000,))]", "int64"),
        ("[torch.randint_like(torch.zeros(2000, dtype=torch.int32), 9)]", "int32"),
        ("[torch.randperm(2000)]", "int64"),
        ("[torch.bernoulli(torch.full((2000,), 0.3))]", "float32"),
        ("[torch.empty(2000).bernoulli_(0.3)]", "float32"),
        ("[torch.empty(2000).exponential_()]", "float32"),
        ("[torch.empty(2000).log_normal_()]", "float32"),
        ("[torch.empty(2000).cauchy_()]", "float32"),
        ("[torch.empty(2000).geometric_(0.2)]", "float32"),
        ("[torch.empty(2000, dtype=torch.int64).random_(50)]", "int64"),
        ("[torch.nn.init.xavier_normal_(torch.empty(40, 50)).view(-1)]", "float32"),
        ("[torch.from_numpy(np.random.randn(2000))]", "float64"),
        ("[torch.tensor([random.random() for _ in range(2000)])]", "float32"),
        ("[torch.multinomial(torch.ones(5000), 2000)]", "int64"),
        ("[torch.randn(2000, generator=torch.Generator().manual_seed(0))]", "float32"),
    ],
)
def test_every_draw_follows_the_seed(body: str, dtype: str) -> None:
    drawn = problem(body, TensorSpec("x", dtype, (2000,)))
    torch.manual_seed(123)
    before = torch.get_rng_state()
    first, again, other = (arguments(drawn, Case(seed=seed))[0] for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before), "the process's own generator was moved"


def test_draws_mean_what_they_say() -> None:
    body = "[torch.rand(4000), torch.empty(4000).normal_(5, 0.1), torch.randint(3, 9, (4000,)), torch.rand(4000) < 0.2]"
    specs = [
        TensorSpec(str(index), dtype, (4000,)) for index, dtype in enumerate(["float32", "float32", "int64", "bool"])
    ]
    rand, normal, ints, mask = arguments(problem(body, *specs), Case())
    assert float(rand.min()) >= 0 and float(rand.max()) < 1 and abs(float(rand.mean()) - 0.5) < 0.03
    assert abs(float(normal.mean()) - 5) < 0.01 and abs(float(normal.std()) - 0.1) < 0.01
    assert ints.unique().tolist() == [3, 4, 5, 6, 7, 8]
    assert abs(float(mask.float().mean()) - 0.2) < 0.03


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_families_keep_shape_and_type(family: str, dtype: str) -> None:
    made = problem(f"[torch.randn(4, 6, dtype=torch.{dtype})]", replace(X, dtype=dtype))
    (x,) = arguments(made, Case(family, 3))
    assert (tuple(x.shape), x.dtype) == ((4, 6), getattr(torch, dtype))
    assert torch.equal(x.nan_to_num(), arguments(made, Case(family, 3))[0].nan_to_num())
    assert bool(x.isfinite().all()) == (family not in ("nan_probe", "inf_probe"))


def test_families_are_what_they_are_called() -> None:
    positive = problem("[torch.rand(4, 6) + 1]", X)
    of = {family: arguments(positive, Case(family, 5))[0] for family in FAMILIES}
    nominal = of["nominal"]
    assert (nominal > 0).all() and (of["signed"] < 0).any()
    torch.testing.assert_close(of["scaled_small"], nominal * 1e-3)
    torch.testing.assert_close(of["scaled_large"], nominal * 1e3)
    assert (of["one_hot"].count_nonzero(dim=-1) == 1).all()
    assert torch.equal(of["permuted"].flatten().sort().values, nominal.flatten().sort().values)
    assert not torch.equal(of["permuted"], nominal)
    assert of["constant"].unique().numel() == 1
    assert torch.equal(of["sorted"], nominal.sort(-1).values)
    assert 1 <= int(of["nan_probe"].isnan().sum()) <= 3
    assert 1 <= int(of["inf_probe"].isinf().sum()) <= 3


@pytest.mark.parametrize("family", [family for family in FAMILIES if "probe" not in family])
def test_bounds_hold_in_every_family(family: str) -> None:
    bounded = problem("[torch.rand(4, 6)]", replace(X, low=0.0, high=1.0))
    (x,) = arguments(bounded, Case(family, 3))
    assert float(x.min()) >= 0 and float(x.max()) <= 1


def test_integers_stay_as_drawn_and_constants_vary_when_signed() -> None:
    made = problem(
        "[torch.randint(0, 9, (300,)), torch.ones(300, dtype=torch.int64), torch.ones(300).bool()]",
        TensorSpec("drawn", "int64", (300,), low=0, high=8),
        TensorSpec("given", "int64", (300,), low=0, high=1),
        TensorSpec("mask", "bool", (300,)),
    )
    nominal, signed, sorted_ = (arguments(made, Case(family, 2)) for family in ("nominal", "signed", "sorted"))
    assert all(torch.equal(a, b) for a, b in zip(nominal, sorted_, strict=True))
    assert torch.equal(nominal[0], signed[0])
    assert 200 < int(signed[1].sum()) < 300 and 200 < int(signed[2].sum()) < 300


def test_masks_of_minus_infinity_stay() -> None:
    mask = problem('[torch.full((4, 6), float("-inf")).triu(1)]', X)
    assert torch.equal(arguments(mask, Case("signed"))[0], torch.full((4, 6), float("-inf")).triu(1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_hold_the_same_values(layout: str) -> None:
    image = problem("[torch.randn(2, 3, 4, 5)]", TensorSpec("x", "float32", (2, 3, 4, 5)))
    plain, laid = arguments(image, Case())[0], arguments(image, Case(layout=layout))[0]
    assert torch.equal(plain, laid)
    expected = {
        "contiguous": laid.is_contiguous(),
        "strided": laid.stride() == (120, 40, 10, 2),
        "offset": laid.storage_offset() == 3 and laid.is_contiguous(),
        "channels_last": laid.is_contiguous(memory_format=torch.channels_last),
    }
    assert expected[layout]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (1,), (0, 3)])
def test_layouts_of_little(layout: str, shape: tuple[int, ...]) -> None:
    small = problem(f"[torch.randn({shape})]", TensorSpec("x", "float32", shape))
    for family in FAMILIES:
        assert tuple(arguments(small, Case(family, layout=layout))[0].shape) == shape


@pytest.mark.parametrize(("stride", "shape"), [((1, 4), (4, 6)), ((0, 1), (4, 6)), ((12, 2), (4, 6))])
def test_declared_strides_are_kept(stride: tuple[int, ...], shape: tuple[int, ...]) -> None:
    (x,) = arguments(problem("[torch.randn(4, 6)]", replace(X, stride=stride)), Case("signed"))
    assert x.stride() == stride and tuple(x.shape) == shape


def test_aliases_are_the_same_tensor() -> None:
    made = problem("[a := torch.randn(4, 6), a]", X, TensorSpec("y", "float32", (4, 6), alias_of=0))
    first, second = arguments(made, Case("signed", layout="strided"))
    assert first is second


def test_leaves_are_fresh_each_time() -> None:
    arguments(RANDN, Case())[0].zero_()
    assert arguments(RANDN, Case())[0].count_nonzero() == 24


OPEN = problem(
    "[torch.rand(4, 6), torch.randint(0, 5, (4,))]",
    TensorSpec("x", "float32", (Range(1, 8, 4), 6), low=0.0, high=1.0),
    TensorSpec("y", "int64", (Range(1, 8, 4),), low=0, high=4),
)


@pytest.mark.parametrize("sizes", [(1,), (7,), (8, 8)])
def test_ranges_are_drawn_at_other_sizes(sizes: tuple[int, ...]) -> None:
    for family in FAMILIES:
        x, y = arguments(OPEN, Case(family, sizes=sizes))
        assert tuple(x.shape) == (sizes[0], 6) and tuple(y.shape) == (sizes[0],)
        assert int(y.min()) >= 0 and int(y.max()) <= 4


def test_example_sizes_are_the_users_own_inputs() -> None:
    assert torch.equal(arguments(OPEN, Case())[0], arguments(OPEN, Case(sizes=(4,)))[0])


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case("nominl"), "no family"),
        (Case(layout="diagonal"), "no layout"),
        (Case(sizes=(9,)), "outside 1..8"),
        (Case(sizes=(1, 2, 3)), "leaves 1 sizes open"),
    ],
)
def test_wrong_cases(case: Case, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        arguments(OPEN, case)


def test_get_inputs_that_raises_names_its_line() -> None:
    with pytest.raises(ProblemError, match="get_inputs of Test failed: line 8: ZeroDivisionError"):
        arguments(problem("[1 / 0]", X), Case())


def test_get_inputs_of_random_shape() -> None:
    with pytest.raises(UsageError, match="other shapes or types"):
        arguments(problem("[torch.randn(int(torch.randint(1, 99, ())), 7)]", X), Case(seed=4))
