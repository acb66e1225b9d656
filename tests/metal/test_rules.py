"""What Apple's compiler rejects is rejected here, with the user's own line."""

import numpy as np
import pytest

from kernelwright.errors import CompileError
from kernelwright.metal import compile_shader, rules
from kernelwright.metal.tokens import Tokens

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: sorted(rule.words)[0])
def test_words_that_metal_does_not_have(rule: rules.Rule) -> None:
    assert rule.source
    for word in rule.words:
        with pytest.raises(CompileError, match=rule.message):
            rules.check(Tokens(f"void f() {{ {word} x; }}"))


def test_textures_are_refused_by_name() -> None:
    with pytest.raises(CompileError, match=r"shader\.metal:3:15: error: texture2d is a texture"):
        compile_shader(HEAD + "kernel void k(texture2d<float> t [[buffer(0)]]) {}")


def test_samplers_are_refused_by_name() -> None:
    with pytest.raises(CompileError, match="a sampler is for textures"):
        rules.check(Tokens("constexpr sampler s(filter::nearest);"))
    rules.check(Tokens("int sampler = 1;"))


def test_metal_4_tensors_are_refused_by_name() -> None:
    with pytest.raises(CompileError, match="Metal 4 tensors"):
        compile_shader("#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>\n")


CROSSING = """
  threadgroup float* p = a;
  device float* q = s;
  device float* r = &local;
  threadgroup float* t = &local;
  device float* u = c;
  constant float* v = a;
  device float* w = (device float*)s;
  c[0] = 1;
"""


def test_pointers_keep_their_address_space() -> None:
    source = HEAD + (
        "kernel void k(device float* a, constant float* c, threadgroup float* s [[threadgroup(0)]]) {\n"
        f"  float local = 0;{CROSSING}}}\n"
    )
    with pytest.raises(CompileError) as caught:
        compile_shader(source).k(np.zeros(1, np.float32), 1.0, threads=1, group_memory={0: 4})
    for offset, line in enumerate(CROSSING.strip().splitlines()):
        assert f"shader.metal:{5 + offset}:" in str(caught.value), line
    assert "'threadgroup float *'" in str(caught.value) and "'device float *'" in str(caught.value)
    assert "__global" not in str(caught.value)


def test_too_much_threadgroup_memory() -> None:
    source = HEAD + (
        "kernel void k(device float* a, uint i [[thread_position_in_grid]]) {\n"
        "  threadgroup float s[4096];\n  threadgroup float t[4097];\n  s[i] = a[i]; t[i] = s[i]; a[i] = t[i];\n}\n"
    )
    with pytest.raises(
        CompileError, match=r"shader\.metal:5:\d+: error: static assertion failed.*more threadgroup memory than 32 KB"
    ):
        compile_shader(source).k(np.zeros(1, np.float32), threads=1)
