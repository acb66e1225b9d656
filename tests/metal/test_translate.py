"""What the translation finds in a source and what it changes there: text in, text and entries out, no compiler."""

import re

import pytest

from kernelwright.errors import CompileError
from kernelwright.metal.translate import Translated, translate

HEAD = '# 1 "a.metal"\n'


def done(text: str, **values: object) -> Translated:
    return translate(HEAD + text, values)  # pyright: ignore[reportArgumentType]


def changed(text: str) -> str:
    """The translated text without the shim's lists of swizzles."""
    return done(text).text.split(HEAD, 1)[1]


def body(statement: str) -> str:
    text = changed(f"void f() {{ {statement} }}")
    return text[len("void f() {") : text.rindex("}")].strip()


@pytest.mark.parametrize(
    "statement",
    [
        "threadgroup float s[32];",
        "threadgroup MD<float> s[N];",
        "threadgroup metal::vec<float, 4> s;",
        "threadgroup pair<A<1>, B<(2 > 1)>> s[4][4];",
        "threadgroup unsigned int s[2];",
        "static threadgroup T s[8];",
        "alignas(16) threadgroup half s[8];",
        "if (x) { threadgroup int s; }",
        "for (;;) threadgroup_barrier(0); threadgroup decltype(a) s;",
    ],
)
def test_an_object_in_threadgroup_memory_is_shared(statement: str) -> None:
    text = body(statement)
    assert "SIMT_GROUP" in text and "threadgroup" in text.split("SIMT_GROUP")[1]
    assert "METAL_GROUP_MEMORY(sizeof(s))" in text and "static threadgroup" not in text


@pytest.mark.parametrize(
    "statement",
    [
        "threadgroup float* p = a;",
        "threadgroup MD<float>* p;",
        "const threadgroup T& r = x;",
        "threadgroup float (*p)[4] = a;",
        "f((threadgroup half*)a);",
        "threadgroup auto* p = a;",
        "g<threadgroup float*>(a);",
    ],
)
def test_a_pointer_to_it_is_not(statement: str) -> None:
    assert body(statement) == statement


def test_group_memory_adds_up_over_a_body() -> None:
    text = body("threadgroup float a[9]; threadgroup float b[9];")
    assert "METAL_GROUP_MEMORY(sizeof(a) + sizeof(b))" in text


def test_object_and_pointer_in_one_declaration_are_refused() -> None:
    with pytest.raises(CompileError, match=r"a\.metal:1:34: error: .*write two"):
        done("void f() { threadgroup float a[2], *p; }")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.0", "1.0f"),
        (".5", ".5f"),
        ("1e-3", "1e-3f"),
        ("1.f", "1.f"),
        ("3", "3"),
        ("0x1p4", "0x1p4f"),
        ("0xFF", "0xFF"),
        ("1.0h", "((half)1.0f)"),
        ("2.5bf", "((bfloat)2.5f)"),
        ("static_cast<half>(x)", "::metal::shim::cast<half>(x)"),
        ("thread float* q = p;", "float* q = p;"),
        ("float4 v = {1, 2};", "float4 v = ::metal::shim::listed<float4>(1, 2);"),
        ("x = c ? a[i] : b;", "x = c ? ::metal::shim::read->*a[i] : ::metal::shim::read->*b;"),
        ("x = c ? 1 : -y;", "x = c ? 1 : -y;"),
        ('f("a" "b");', 'f(((constant char*)"a" "b"));'),
        ('char s[] = "a"; static_assert(x, "b");', 'char s[] = "a"; static_assert(x, "b");'),
    ],
)
def test_words_that_mean_something_else_in_cpp(text: str, expected: str) -> None:
    assert body(text) == expected


def test_swizzles_are_told_apart_by_reading_and_writing() -> None:
    text = done("void f() { a.xy = b.zw; p->xyz += c; d.wx(); }").text
    assert "a.xy = b.get_zw(); p->xyz += c; d.wx();" in text
    lists = text.split(HEAD)[0].splitlines()
    assert (
        lists[2]
        == "#define METAL_SWIZZLES_4 METAL_WRITE(xy, 2, 0, 1) METAL_WRITE(xyz, 3, 0, 1, 2) METAL_READ(zw, 2, 2, 3)"
    )
    assert "zw" not in lists[0] and "xyz" in lists[1]


def test_a_member_called_like_a_swizzle_stays() -> None:
    assert "s.xy + 1" in changed("struct S { float2 xy; };\nfloat2 f(S s) { return s.xy + 1; }")


def test_lines_stay_where_they_are() -> None:
    text = '[[host_name(\n"x")]]\nconstant int n\n[[function_constant(0)]];\nkernel void k(\n device int* a) {\n}\n'
    assert changed(text).count("\n") == text.count("\n")


def test_kernels_and_their_parameters() -> None:
    (entry,) = done(
        "namespace n { [[max_total_threads_per_threadgroup(64)]] kernel void k(device const half4* a [[buffer(2)]], "
        "constant Params& p, device T<int>* o, threadgroup float* s [[threadgroup(1)]], "
        "uint2 g [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {} }"
    ).entries
    assert (entry.name, entry.function, entry.max_threads) == ("n::k", "n::k", 64)
    assert [(p.name, p.kind, p.index, p.builtin, p.writable) for p in entry.parameters] == [
        ("a", "buffer", 2, "", False),
        ("p", "buffer", 0, "", False),
        ("o", "buffer", 1, "", True),
        ("s", "group_memory", 1, "", True),
        ("g", "builtin", 0, "thread_in_grid", False),
        ("lane", "builtin", 0, "lane", False),
    ]
    assert [p.element_bytes for p in entry.parameters[:2]] == [8, 0]


def test_defaults_and_constructor_lists_end_no_kernel() -> None:
    found = done(
        "int f(int a = 3) { return a; }\nstruct S { S(int x) : a{x}, b(x) {} S& operator=(S); int a, b; };"
        "\nint n[2] = {1, 2};\nenum E { A };\nkernel void k(device int* a) {}"
    )
    assert [entry.name for entry in found.entries] == ["k"]


@pytest.mark.parametrize(
    "instance",
    [
        'template [[host_name("k_f32")]] kernel void k<float>(device float*);',
        'template [[host_name("k_f32")]] [[kernel]] decltype(k<float>) k<float>;',
        'typedef decltype(k<float>) t; template [[host_name("k_f32")]] kernel t k<float>;',
        'template [[host_name("k_" "f32")]] [[kernel]] void k<float>(device float* a [[buffer(0)]]);',
    ],
)
def test_instances_by_host_name(instance: str) -> None:
    (entry,) = done(f"template <typename T> [[kernel]] void k(device T* a [[buffer(0)]]) {{}}\n{instance}").entries
    assert (entry.name, entry.function) == ("k_f32", "k<float>")


def test_an_instance_told_by_its_parameters_alone() -> None:
    (entry,) = done(
        "template <int N> kernel void k(device Of<N>* a, uint i [[thread_position_in_grid]]) {}\n"
        'template [[host_name("k2")]] kernel void k(device Of<2>* a, uint i [[thread_position_in_grid]]);'
    ).entries
    assert entry.function == "*static_cast<void (*)(device Of < 2 > * a , uint i)>(&k)"


def test_function_constants() -> None:
    text = (
        "constant bool flag [[function_constant(300 + 1)]];\nconstant float scale [[function_constant(2)]];\n"
        "constant uint2 size [[function_constant(3)]];\n"
        "constant int n = is_function_constant_defined(flag) ? 1 : is_function_constant_defined(scale) ? 2 : 3;"
    )
    found = translate(HEAD + text, {301: True, "size": (4, 5)})
    found.text = re.sub(" +;", ";", found.text)
    assert "static constexpr bool flag = (bool)(true);" in found.text
    assert "static constexpr float scale = (float)(0);" in found.text
    assert "static constexpr uint2 size = uint2(4, 5);" in found.text
    assert "constant int n = true ? 1 : false ? 2 : 3;" in found.text
    assert {c.name: (c.number, c.given) for c in found.constants.values()} == {
        "flag": (301, True),
        "scale": (2, False),
        "size": (3, True),
    }


def test_one_method_serves_every_address_space() -> None:
    text = changed(
        "struct C { C(float x) thread : v(x) {} C(float x) device : v(x) {} float v;"
        "operator float() const device { return v; } operator float() const threadgroup { return v; } };"
    )
    assert text.count("C(float x)") == 1 and text.count("operator float()") == 1
    assert "device" not in text and "threadgroup" not in text


def test_a_method_that_returns_into_its_space_serves_all() -> None:
    """As in the array type of every shader that comes from SPIR-V: six times operator[], alike but for the space."""
    text = changed(
        "struct A { float e[2]; thread float& at(int i) { return e[i]; } device float& at(int i) device {"
        " return e[i]; } const constant float& at(int i) const constant { return e[i]; }"
        "const device float& at(int i) const device { return e[i]; } device float* whole(device float* p) device {"
        " return p; } };"
    )
    assert text.count("at(int i)") == 2 and "const constant" not in text  # what one returns converts to no space
    assert "device float* whole(device float* p)" in text  # nothing else is like it


def test_methods_with_two_bodies_are_refused() -> None:
    with pytest.raises(CompileError, match="differ by address space alone"):
        done("struct C { int f() const device { return 1; } int f() const threadgroup { return 2; } };")


def test_array_parameters_become_pointers() -> None:
    assert changed("int f(constant const int n[3], device float m[2][4]);") == (
        "int f(constant const int *n, device float (*m)[4]);"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel void k(device int* a [[buffer(31)]]) {}", r"a\.metal:1:27: error: a of kernel k is buffer 31"),
        ("kernel void k(int* a) {}", "a of kernel k needs an address space"),
        ("kernel void k(device int* a, uint i) {}", "i of kernel k is neither a buffer nor"),
        ("kernel int k(device int* a) {}", "kernel k must return void"),
        ("kernel void k(device int* a [[buffer(0)]], device int* b [[buffer(0)]]) {}", "a second time"),
        ("kernel void k(device int* a [[buffer(N)]]) {}", r"buffer\(N\) is not a number"),
        ('template [[host_name("x")]] kernel void nothing<int>(device int*);', "nothing is no kernel"),
        ("bool b = is_function_constant_defined(c);", "c is no function constant"),
    ],
)
def test_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        done(text)
