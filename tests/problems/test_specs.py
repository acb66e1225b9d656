import pytest

from kernelwright.errors import UsageError
from kernelwright.problems.specs import get_inputs_text, parse
from kernelwright.records import Range, TensorSpec


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("f32[2,512,128]", TensorSpec("input0", "float32", (2, 512, 128))),
        ("f32[]", TensorSpec("input0", "float32", ())),
        ("bf16[1..8,512]", TensorSpec("input0", "bfloat16", (Range(1, 8, 8), 512))),
        ("f16[1..8@4, 512]", TensorSpec("input0", "float16", (Range(1, 8, 4), 512))),
        ("float64[3]", TensorSpec("input0", "float64", (3,))),
        ("i64[2,16]<100", TensorSpec("input0", "int64", (2, 16), low=0, high=99)),
        ("f32[8]<1", TensorSpec("input0", "float32", (8,), low=0.0, high=1.0)),
        ("bool[4]", TensorSpec("input0", "bool", (4,))),
    ],
)
def test_grammar(text: str, spec: TensorSpec) -> None:
    assert parse(text) == spec


@pytest.mark.parametrize(
    "text", ["", "f32", "f32[a]", "f99[2]", "f32[2", "f32[8..1]", "f32[1..8@9]", "bool[2]<3", "i64[2]<0", "i64[2]<1.5"]
)
def test_malformed(text: str) -> None:
    with pytest.raises(UsageError, match=r"input ") as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_the_grammar_is_shown() -> None:
    with pytest.raises(UsageError, match=r'write dtype\[sizes\], as "f32\[2,512,128\]"'):
        parse("2x512")


def test_text_draws_the_specs() -> None:
    torch = pytest.importorskip("torch")
    texts = ["f32[2,3]", "f64[2]<5", "bf16[1..4]", "i32[7]<9", "i64[3]", "bool[4]", "f32[]"]
    specs = [parse(text) for text in texts]
    scope: dict = {}
    exec(get_inputs_text(specs), scope)
    drawn = scope["get_inputs"]()
    assert [(tuple(item.shape), item.dtype) for item in drawn] == [
        (spec.example_shape, getattr(torch, spec.dtype)) for spec in specs
    ]
