"""Kernel signatures read out of C++ text."""

import pytest

from kernelwright.errors import CompileError
from kernelwright.targets.entry.signature import kernels

TEXT = r"""
// kernel void commented(float* out) {}
/* kernel void commented_too() {} */
#define TWICE(x) \
    kernel void in_a_macro(float* out)
const char* text = "kernel void quoted()"; const char* raw = R"x(kernel void raw("))x";
static inline float helper(float x) { return x; }

kernel void first(float* __restrict__ out, const double *x, long long n,
                  unsigned char const * mask, bool flag) { }
kernel
void second(void) {}
kernel void third(half* h, bfloat16* restrict b, int64_t* i, int* j, float scale, int32 k) {}
"""


def test_every_kernel_is_found_and_nothing_else() -> None:
    first, second, third = kernels(TEXT)
    assert (first.name, first.line) == ("first", 9)
    assert [(p.name, p.type, p.pointer, p.const) for p in first.parameters] == [
        ("out", "float32", True, False),
        ("x", "float64", True, True),
        ("n", "int64", False, False),
        ("mask", "uint8", True, True),
        ("flag", "bool", False, False),
    ]
    assert (second.name, second.parameters, second.line) == ("second", (), 11)
    assert [p.cpp for p in third.parameters] == ["half*", "bfloat16*", "int64*", "int32*", "float", "int32"]
    assert str(first) == "first(out, x, n, mask, flag)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("float f() { return 1; }", "no kernel found"),
        ("\n\nkernel int f() {}", "kernel.cpp:3: after `kernel` the form is"),
        ("kernel void f(float** x) {}", "cannot be passed"),
        ("kernel void f(float x[4]) {}", "is not of the form"),
        ("kernel void f(float& x) {}", "is not of the form"),
        ("kernel void f(float) {}", "is not of the form"),
        ("kernel void f(float* x,) {}", "is not of the form"),
        ("kernel void f(half x) {}", "scalars of type float, double, int64"),
        ("kernel void f(unsigned n) {}", "scalars of type float, double, int64"),
        ("kernel void f(short* n) {}", "pointers to float"),
        ("kernel void f(float* x = nullptr) {}", "is not of the form"),
        ("kernel void f(void (*g)(int)) {}", "`(` among its parameters"),
        ("kernel void f(float* x", "not closed"),
        ("kernel void f() {}\nkernel void f() {}", "two kernels are called 'f'"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=r"kernel\.cpp") as caught:
        kernels(text)
    assert message in str(caught.value)
