"""Inputs described in words of one line: "f32[2,512,128]", "f32[1..8,512]", "i64[2,16]<100", "bool[4]"."""

import re
from collections.abc import Sequence

from kernelwright.errors import UsageError
from kernelwright.records import Range, TensorSpec

GRAMMAR = (
    'write dtype[sizes], as "f32[2,512,128]"; dtypes f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool; '
    'a size may be a range "1..8" or "1..8@4" (4 is the size that is timed, else the largest); '
    '"i64[2,16]<100" holds integers from 0 to 99, "f32[8]<1" numbers from 0 to 1'
)

_DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
}
_WHOLE = re.compile(r"(?P<dtype>\w+)\[(?P<sizes>[^\]]*)\](?:<(?P<bound>[\d.]+))?")
_SIZE = re.compile(r"(?P<low>\d+)(?:\.\.(?P<high>\d+)(?:@(?P<example>\d+))?)?")


def parse(text: str, index: int = 0) -> TensorSpec:
    """The spec that `text` describes. Raises UsageError that shows the grammar."""
    whole = _WHOLE.fullmatch(text.replace(" ", ""))
    if whole is None:
        raise UsageError(f"input {text!r} is not understood: {GRAMMAR}")
    dtype = _DTYPES.get(whole["dtype"], whole["dtype"])
    if dtype not in _DTYPES.values():
        raise UsageError(f"input {text!r} has an unknown dtype {whole['dtype']!r}: {GRAMMAR}")
    sizes = tuple(_size(size, text) for size in whole["sizes"].split(",") if whole["sizes"])
    low, high = _bounds(dtype, whole["bound"], text)
    return TensorSpec(f"input{index}", dtype, sizes, low=low, high=high)


def _size(text: str, whole: str) -> int | Range:
    size = _SIZE.fullmatch(text)
    if size is None:
        raise UsageError(f"input {whole!r} has a size {text!r} that is not understood: {GRAMMAR}")
    if size["high"] is None:
        return int(size["low"])
    low, high = int(size["low"]), int(size["high"])
    example = int(size["example"] or high)
    if not 0 < low <= example <= high:
        raise UsageError(f"input {whole!r} has a range {text!r} that is empty or leaves its example outside")
    return Range(low, high, example)


def _bounds(dtype: str, bound: str | None, whole: str) -> tuple[float | None, float | None]:
    floating = "float" in dtype
    if dtype == "bool":
        if bound is not None:
            raise UsageError(f"input {whole!r}: a bool takes no bound")
        return None, None
    if bound is None:
        return None, None
    try:
        value = float(bound) if floating else int(bound)
    except ValueError:
        raise UsageError(f"input {whole!r} has a bound {bound!r} that is not understood: {GRAMMAR}") from None
    if value <= 0:
        raise UsageError(f"input {whole!r}: the bound must be above 0")
    return (0.0, value) if floating else (0, int(value) - 1)


def get_inputs_text(specs: Sequence[TensorSpec]) -> str:
    """`get_inputs` in the KernelBench dialect that draws tensors of the specs' example shapes."""
    lines = "".join(f"        {_draw(spec)},\n" for spec in specs)
    return f"\n\ndef get_inputs():\n    import torch\n\n    return [\n{lines}    ]\n"


def _draw(spec: TensorSpec) -> str:
    shape = spec.example_shape
    if spec.dtype == "bool":
        return f"torch.rand({shape}) < 0.5"
    if "float" not in spec.dtype:
        high = 2 if spec.high is None else int(spec.high) + 1
        return f"torch.randint(0, {high}, {shape}, dtype=torch.{spec.dtype})"
    dtype = "" if spec.dtype == "float32" else f", dtype=torch.{spec.dtype}"
    if spec.high is None:
        return f"torch.randn({shape}{dtype})"
    scale = "" if spec.high == 1 else f" * {spec.high}"
    return f"torch.rand({shape}{dtype}){scale}"
