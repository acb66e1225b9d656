"""From a file to a Problem: what is taken down, what is refused, and in which words."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernelwright.errors import KernelwrightError, ProblemError, UnknownNameError, UsageError
from kernelwright.problems import arguments, load
from kernelwright.records import Case, Constant, Problem, Range, TensorSpec, unflatten

Write = Callable[..., Problem]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file with a class Net, and loads it."""

    def loaded(
        forward: str = "return x * 2",
        inputs: str | None = "[torch.randn(4, 6)]",
        *,
        init: str = "pass",
        takes: str = "x",
        head: str = "",
        tail: str = "",
        **options: object,
    ) -> Problem:
        text = (
            f"import torch\nfrom torch import nn\n{head}\n\nclass Net(nn.Module):\n    def __init__(self):\n"
            f"        super().__init__()\n        {init}\n\n    def forward(self, {takes}):\n        {forward}\n"
        )
        if inputs is not None:
            text += f"\n\ndef get_inputs():\n    return {inputs}\n"
        path = tmp_path / "net.py"
        path.write_text(text + tail)
        return load(f"{path}:Net", **options)  # type: ignore[arg-type]

    return loaded


def test_a_plain_file(write: Write, tmp_path: Path) -> None:
    problem = write()
    assert problem.signature.tensors == (TensorSpec("x", "float32", (4, 6)),)
    assert problem.name == "Net" and problem.origin == f"{tmp_path}/net.py:Net"
    assert problem.source.startswith("import torch\n") and "\nModel = Net\n" in problem.source
    assert problem.region is not None and problem.opaque == ""
    assert not problem.numerics.training
    assert write().digest == problem.digest


def test_arguments_of_every_kind(write: Write) -> None:
    problem = write(
        "return [x[index].masked_fill(~mask, 0), {'sum': pair[0] + pair[1]['b'] * scale}]",
        "{'x': torch.randn(8, 3), 'index': torch.randint(0, 8, (5,)), 'mask': torch.rand(5, 1) < 0.5,"
        " 'pair': (torch.randn(2), {'b': torch.randn(2)}), 'scale': 3, 'mode': 'fast', 'nothing': None}",
        takes="x, index, mask, pair, scale, mode='slow', nothing=1",
    )
    assert [(spec.name, spec.dtype, spec.shape, spec.low, spec.high) for spec in problem.signature.tensors] == [
        ("x", "float32", (8, 3), None, None),
        ("index", "int64", (5,), 0, 7),
        ("mask", "bool", (5, 1), None, None),
        ("pair[0]", "float32", (2,), None, None),
        ("pair[1]", "float32", (2,), None, None),
    ]
    call = unflatten(problem.signature.arguments, arguments(problem, Case()))
    assert call["args"] == [] and call["kwargs"]["mode"] == "fast" and call["kwargs"]["nothing"] is None
    assert problem.opaque == ""


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_other_floats(write: Write, dtype: str) -> None:
    problem = write(inputs=f"[torch.randn(4, 6, dtype=torch.{dtype})]")
    assert problem.signature.tensors[0].dtype == dtype and problem.opaque == ""


def test_autocast(write: Write) -> None:
    problem = write("return self.l(x)", init="self.l = nn.Linear(6, 6)", autocast="bfloat16")
    assert problem.numerics.autocast == "bfloat16" and problem.opaque == ""
    assert problem.digest != write("return self.l(x)", init="self.l = nn.Linear(6, 6)").digest


def test_strides_and_aliases(write: Write) -> None:
    problem = write("return x + y", "[a := torch.randn(6, 4).t(), a]", takes="x, y")
    assert problem.signature.tensors == (
        TensorSpec("x", "float32", (4, 6), stride=(1, 4)),
        TensorSpec("y", "float32", (4, 6), stride=(1, 4), alias_of=0),
    )


def test_constructor_arguments_and_imports_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "beside_net.py").write_text("factor = 3\n")
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\n\nfrom beside_net import factor\n\n\nclass Net(nn.Module):\n"
        "    def __init__(self, n, bias=True):\n        super().__init__()\n        self.l = nn.Linear(n, n, bias)\n\n"
        "    def forward(self, x):\n        return self.l(x) * factor\n\n\n"
        "def get_init_inputs():\n    return [6, False]\n\n\ndef get_inputs():\n    return torch.randn(4, 6)\n"
    )
    problem = load(f"{tmp_path}/net.py:Net")
    assert problem.region is not None and problem.import_paths == (str(tmp_path),)


@pytest.mark.parametrize(
    ("forward", "inputs", "bounds"),
    [
        ("return torch.log(x)", "[torch.rand(4, 6)]", (0.0, 1.0)),
        ("return torch.log(x)", "[torch.empty(4, 6).uniform_(2, 3)]", (2.0, 3.0)),
        ("return torch.relu(x)", "[torch.rand(4, 6)]", (None, None)),
        ("return nn.functional.binary_cross_entropy(x, x)", "[torch.rand(4, 6)]", (0.0, 1.0)),
    ],
)
def test_bounds_are_noted_where_the_reference_needs_them(
    write: Write, forward: str, inputs: str, bounds: tuple[float | None, float | None]
) -> None:
    spec = write(forward, inputs).signature.tensors[0]
    assert (spec.low, spec.high) == bounds


def test_bounds_from_the_data(write: Write) -> None:
    spec = write("return torch.sqrt(x)", "[torch.rand(4, 6) + 1]").signature.tensors[0]
    assert spec.low is not None and 1 <= spec.low < 1.5 and spec.high is not None and 1.5 < spec.high < 2


@pytest.mark.parametrize("text", ["f32[4,6]", "bf16[4,6]", "f32[]", "i64[3]<9"])
def test_described_inputs(tmp_path: Path, text: str) -> None:
    path = tmp_path / "net.py"
    path.write_text(
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x * 2\n"
    )
    problem = load(f"{path}:Net", inputs=[text])
    (x,) = arguments(problem, Case())
    spec = problem.signature.tensors[0]
    assert (tuple(x.shape), x.dtype) == (spec.shape, getattr(torch, spec.dtype))


def test_ranges(tmp_path: Path, write: Write) -> None:
    write()
    problem = load(f"{tmp_path}/net.py:Net", inputs=["f32[1..8,6]"])
    assert problem.signature.tensors[0].shape == (Range(1, 8, 4), 6)
    assert problem.dynamic and problem.region is not None and problem.region.dynamic_text is not None
    assert arguments(problem, Case(sizes=(3,)))[0].shape == (3, 6)
    for wrong in (["f32[5..8,6]"], ["f32[4,7]"], ["f64[4,6]"], ["f32[4,6]", "f32[1]"]):
        with pytest.raises(UsageError, match="describe"):
            load(f"{tmp_path}/net.py:Net", inputs=wrong)


def test_a_size_that_the_code_fixes_makes_it_opaque(tmp_path: Path, write: Write) -> None:
    write("return x.view(2, 12)")
    assert "contract" in load(f"{tmp_path}/net.py:Net", inputs=["f32[1..8,6]"]).opaque


def test_control_flow_on_values_is_opaque(write: Write) -> None:
    problem = write("return x if x.sum() > 0 else -x")
    assert problem.region is None and "values" in problem.opaque


def test_scale(write: Write) -> None:
    options = {"inputs": "[torch.randn(batch, dim)]", "head": "batch = 512  # rows\ndim = 8\n"}
    problem = write(**options, scale="batch=16")
    assert problem.signature.tensors[0].shape == (16, 8)
    assert problem.constants == (Constant("batch", 512, 16),) and "batch = 16  # rows" in problem.source
    assert write(**options, scale="auto").constants == ()


def test_scale_auto_makes_it_fit(write: Write) -> None:
    head = "batch = 2**40\ndim = 64\n"
    problem = write("return sum(x * i for i in range(50))", "[torch.randn(batch, dim)]", head=head, scale="auto")
    assert [constant.name for constant in problem.constants] == ["batch"]
    rows, columns = problem.signature.tensors[0].example_shape
    assert columns == 64 and 64 <= rows <= 16384


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_in_both_modes(write: Write, training: bool) -> None:
    problem = write("return self.n(x)", init="self.n = nn.BatchNorm1d(6)", training=training)
    assert problem.numerics.training is training


def test_tied_weights_and_buffers(write: Write) -> None:
    init = "self.a = nn.Linear(6, 6); self.b = nn.Linear(6, 6); self.b.weight = self.a.weight; "
    init += "self.register_buffer('shift', torch.ones(6))"
    assert write("return self.b(self.a(x)) + self.shift", init=init).opaque == ""


REFUSED = {
    "draws": (dict(forward="return x + torch.rand(4, 6)"), "draws random numbers in forward"),
    "dropout": (
        dict(forward="return self.d(x)", init="self.d = nn.Dropout()", training=True),
        "leave out --train-mode",
    ),
    "state": (dict(forward="self.n += 1; return x * self.n", init="self.n = 0"), "keeps state between calls"),
    "in place": (dict(forward="return x.mul_(2)"), "changes its inputs in place"),
    "no tensor": (dict(forward="return 3"), "returns no tensor"),
    "odd result": (dict(forward="return {x.sum()}"), "cannot be compared: the value is a set"),
    "forward raises": (dict(forward="return x @ x"), r"forward of Net failed: line \d+: RuntimeError: "),
    "init raises": (dict(init="self.a = 1 / 0"), r"line \d+: ZeroDivisionError"),
    "text raises": (dict(head="1 / 0"), "line 3: ZeroDivisionError"),
    "inputs raise": (dict(inputs="[unknown]"), r"get_inputs of Net failed: line \d+: NameError"),
    "odd input": (dict(inputs="[object()]"), r"the inputs cannot be passed: .* is a object"),
    "inputs no list": (dict(inputs="3"), "get_inputs\\(\\) returns a int; a list"),
    "wrong count": (dict(inputs="[torch.ones(2), torch.ones(2)]"), "does not take what get_inputs"),
    "no inputs": (dict(inputs=None), "defines no get_inputs.*give --input: write dtype"),
    "too large": (dict(inputs="[torch.randn(1 << 20, 1 << 20)]"), "is too large: judging it needs .* GB, this machine"),
    "too large inside": (
        dict(forward="return (x[:, None] * x).sum(1)", inputs="[torch.randn(1 << 20)]"),
        "is too large: judging it needs",
    ),
    "sparse": (dict(inputs="[torch.eye(2).to_sparse()]"), "dense real tensors"),
    "exit": (dict(forward="raise SystemExit(3)"), r"forward of Net failed: line \d+: SystemExit: 3"),
    "complex": (dict(inputs="[torch.ones(2, dtype=torch.complex64)]"), "dense real tensors"),
    "syntax": (dict(head="def ("), r"does not parse: .* \(line 3\)"),
}


@pytest.mark.parametrize("case", REFUSED, ids=list(REFUSED))
def test_refused_in_one_sentence(write: Write, case: str) -> None:
    given, words = REFUSED[case]
    with pytest.raises(ProblemError, match=words) as caught:
        write(**given)
    assert "\n" not in str(caught.value).strip()


def test_not_a_module(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("class Net:\n    pass\n\n\ndef get_inputs():\n    return []\n")
    with pytest.raises(ProblemError, match=r"not a class derived from torch\.nn\.Module"):
        load(f"{path}:Net")
    with pytest.raises(UnknownNameError, match="did you mean Net"):
        load(f"{path}:Nett")


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("nowhere.py:Net", "there is no file nowhere.py"),
        ("nowhere.py:", "names no class"),
        ("nothing", "no problem is called 'nothing'"),
        ("suite:sofmax", "did you mean softmax"),
        ("kernelbench:level1/1", "names no checkout"),
        ("kernelbench:1", "write kernelbench:level2/40@DIR"),
    ],
)
def test_unknown_references(ref: str, words: str) -> None:
    with pytest.raises(KernelwrightError, match=words):
        load(ref)


def test_a_missing_file_shows_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("")
    with pytest.raises(ProblemError, match=r"holds net\.py"):
        load(f"{tmp_path}/nett.py:Net")


def test_nan_of_its_own_is_told(write: Write) -> None:
    with pytest.warns(UserWarning, match="gives NaN or Inf"):
        write("return torch.log(x - 100)")


def test_loading_leaves_the_generator_alone(write: Write) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    write("return self.l(x)", init="self.l = nn.Linear(6, 6)")
    assert torch.equal(before, torch.get_rng_state())
