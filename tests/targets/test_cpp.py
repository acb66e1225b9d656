"""C++ kernels: compiled, hermetic, right, and with messages that point into the user's text."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernelwright
from kernelwright.errors import CompileError, MissingError, UnknownNameError, UsageError
from kernelwright.records import BuildRequest
from kernelwright.targets.languages.cpp import CppLanguage, unit
from kernelwright.toolchain import clang

SCALE = """
kernel void scale(float* out, const float* x, int64 n, float factor) {
    parallel_for(n, 1000, [&](int64 begin, int64 end) {
        for (int64 i = begin; i < end; i++) out[i] = x[i] * factor;
    });
}
"""


def test_a_kernel_runs() -> None:
    library = kernelwright.compile(SCALE, language="cpp")
    x = np.arange(100_003, dtype=np.float32)
    out = np.empty_like(x)
    library.scale(out, x, x.size, 2.0)
    np.testing.assert_array_equal(out, x * 2)


@pytest.mark.parametrize("n", [0, 1, 999, 1000, 1001, 4097])
@pytest.mark.parametrize("grain", [-1, 0, 1, 1000])
def test_parallel_for_covers_every_item_once(n: int, grain: int) -> None:
    library = kernelwright.compile(
        "kernel void count(int32* seen, int64 n, int64 grain) {"
        " parallel_for(n, grain, [&](int64 b, int64 e) { for (int64 i = b; i < e; i++) seen[i]++; }); }"
    )
    seen = np.zeros(n + 1, np.int32)
    library.count(seen, n, grain)
    assert seen.tolist() == [1] * n + [0]


def test_storage_types_round_as_torch_does() -> None:
    import torch

    text = "".join(
        f"kernel void {name}({kind}* out, float* back, const float* x, int64 n)"
        "{ for (int64 i = 0; i < n; i++) { out[i] = x[i]; back[i] = out[i]; } }"
        for name, kind in (("halves", "half"), ("brains", "bfloat16"))
    )
    bits = torch.randint(-(2**31), 2**31 - 1, (50_000,), dtype=torch.int64).to(torch.int32)
    edges = torch.tensor(
        [0.0, -0.0, 65504.0, 65519.99, 65520.0, 1e-8, 6e-8, 2**-14, 2**-25, float("inf"), float("nan")]
    )
    x = torch.cat([bits.view(torch.float32), torch.randn(10_000), edges])
    for without in ((), ("f16c",)):
        library = _compiled(text, without)
        for name, dtype in (("halves", torch.float16), ("brains", torch.bfloat16)):
            out, back = torch.empty(len(x), dtype=dtype), torch.empty_like(x)
            getattr(library, name)(out, back, x, len(x))
            torch.testing.assert_close(out, x.to(dtype), rtol=0, atol=0, equal_nan=True)
            torch.testing.assert_close(back, x.to(dtype).float(), rtol=0, atol=0, equal_nan=True)


def _compiled(text: str, without: tuple[str, ...]) -> object:
    """The library of `text`, compiled for this processor as if it had no `without`."""
    from kernelwright.home import home
    from kernelwright.toolchain import features

    request = BuildRequest("cpp", text)
    folder = home() / f"without-{'-'.join(without)}"
    folder.mkdir(exist_ok=True)
    kept = () if without else features.features()
    clang.compile_object(unit(request), folder / "kernel.o", system=sys.platform, arch=features.arch(), features=kept)
    clang.link(folder / "kernel.o", folder / "kernel.so", system=sys.platform, arch=features.arch())
    return CppLanguage().load(folder / "kernel.so", request)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel void f(float* x) {\n    x[0] = y;\n}", r"kernel\.cpp:2:12: error: use of undeclared identifier 'y'"),
        ("kernel void f(float* x) {\n#error no\n}", r"kernel\.cpp:2:2: error: no"),
        ("#if 0\nkernel void f(float* x) {}\n#endif", r"kernel f is declared and not defined"),
        ("kernel void f(float* x) { throw 1; }", r"kernel\.cpp:1:\d+: error: cannot use 'throw'"),
        ("#define float double\nkernel void f(float* x) {}", r"kernel\.cpp:\d+:\d+: error"),
        ("kernel void f(int32* x) { constexpr int n = [] { for (;;) {} return 1; }(); x[0] = n; }", r"kernel\.cpp:1"),
    ],
)
def test_errors_point_into_the_users_text(text: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        kernelwright.compile(text)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "/tmp" not in str(caught.value) and str(Path.home()) + "/" not in str(caught.value)


TAIL = "\nkernel void f(float* x) { x[0] = 1; }\n"


@pytest.mark.parametrize(
    "text",
    [
        '#include "SECRET"',
        "#include <SECRET>",
        "#include <stdio.h>",
        '#import "SECRET"',
        '#include_next "SECRET"',
        '%:include "SECRET"',
        '??=include "SECRET"',
        '#inc\\\nlude "SECRET"',
        '/* */ # /* */ include "SECRET"',
        '#define F "SECRET"\n#include F',
        '#if __has_include("SECRET")\n#endif',
        '#define CAT(a, b) a##b\n#if CAT(__has_, include)("SECRET")\n#endif',
        '#if __has_embed("SECRET")\n#endif',
        'const char text[] = {\n#embed "SECRET"\n};',
        'asm(".incbin \\"SECRET\\"");',
        'asm(".include \\"SECRET\\"");',
        'static void g() { asm volatile(".incbin \\"SECRET\\""); }',
        'asm(".macro m a, b\\n.\\\\a\\\\b \\"SECRET\\"\\n.endm\\nm inc bin");',
        'import "SECRET";',
        "import <SECRET>;",
        "export module m;",
        '_Pragma("GCC dependency \\"SECRET\\"")\n#error refused anyway',
        "#include __BASE_FILE__",
        "#include __FILE__",
        "const char* when = __DATE__;",
        "const char* when = __TIME__ __TIMESTAMP__;",
    ],
)
def test_no_other_file_can_be_reached(text: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("static const int hush = 42;\n")
    with pytest.raises(CompileError) as caught:
        kernelwright.compile(text.replace("SECRET", str(secret)) + TAIL)
    assert "hush" not in str(caught.value)


def test_the_compilers_environment_is_not_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "found.h").write_text("")
    for name in ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    with pytest.raises(CompileError, match="without headers"):
        kernelwright.compile("#include <found.h>" + TAIL)


def test_a_library_named_in_a_pragma_is_not_linked() -> None:
    kernelwright.compile('#pragma comment(lib, "no-such-library")' + TAIL)


def test_a_kernel_may_have_the_name_of_a_c_function() -> None:
    library = kernelwright.compile("kernel void malloc(float* x) { x[0] = 7; }")
    x = np.zeros(1, np.float32)
    library.malloc(x)
    assert x[0] == 7


def test_constants_are_macros() -> None:
    text = "kernel void f(double* x) { x[0] = WIDTH; x[1] = SCALE; x[2] = FLAG ? 1 : 2; x[3] = LIMIT; }"
    library = kernelwright.compile(text, constants={"WIDTH": 3, "SCALE": 0.1, "FLAG": True, "LIMIT": float("-inf")})
    x = np.zeros(4)
    library.f(x)
    assert x.tolist() == [3, 0.1, 1, float("-inf")]
    for constants in ({"A B": 1}, {"A": "1; #include"}):
        with pytest.raises(UsageError):
            kernelwright.compile(text, constants=constants)


def test_unknown_languages_and_options_are_named() -> None:
    with pytest.raises(UnknownNameError, match="did you mean cpp"):
        kernelwright.compile(SCALE, language="cpq")
    with pytest.raises(UnknownNameError, match="did you mean constants"):
        kernelwright.compile(SCALE, constant={})


def test_a_missing_compiler_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clang, "_zig", lambda: Path("nowhere"))
    with pytest.raises(MissingError, match="pip install ziglang"):
        kernelwright.compile(SCALE + "// never compiled before")


@pytest.mark.parametrize("arch", ["x86_64", "arm64"])
@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_the_prelude_compiles_for_every_platform(system: str, arch: str, tmp_path: Path) -> None:
    from kernelwright.toolchain import features

    known = {"x86_64": ("avx2", "f16c", "fma"), "arm64": ("bf16", "dotprod", "fp16", "i8mm", "lse")}[arch]
    assert set(known) <= set(features.resolve(arch, frozenset({*known, "asimdhp", "asimddp", "atomics"})))
    clang.compile_object(unit(BuildRequest("cpp", SCALE)), tmp_path / "k.o", system=system, arch=arch, features=known)
    clang.link(tmp_path / "k.o", tmp_path / "k.so", system=system, arch=arch)
    magic = (tmp_path / "k.so").read_bytes()[:4]
    assert magic == (b"\x7fELF" if system == "linux" else b"\xcf\xfa\xed\xfe")


def test_without_torch_kernels_run_on_the_threads_of_its_wheel() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"""
import sys, numpy as np, kernelwright
library = kernelwright.compile('''{SCALE}''')
x = np.arange(100_000, dtype=np.float32); out = np.empty_like(x)
library.scale(out, x, x.size, 2.0)
assert 'torch' not in sys.modules and (out == 2 * x).all()
import torch
t = torch.from_numpy(x); o = torch.empty_like(t)
library.scale(o, t, t.numel(), 3.0)  # the table takes torch in
assert torch.equal(o, t * 3)
from kernelwright.targets.entry import table
assert table.fast() == ('numpy', 'torch'), table.fast()
"""],
        capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "2"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_an_error_is_placed_in_the_file_that_holds_the_text(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        'import kernelwright\n\nlib = kernelwright.compile("""\nkernel void f(float* out) {\n    out[0] = y;\n}\n""")\n'
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert "mine.py:5:14: error: use of undeclared identifier 'y'" in done.stderr
    assert re.search(r"^ +5 \|     out\[0\] = y;", done.stderr, re.MULTILINE)
    assert done.stderr.count("undeclared identifier") == 1


def test_an_error_in_a_text_made_up_at_run_time_keeps_the_compilers_name() -> None:
    with pytest.raises(CompileError, match=r"kernel\.cpp:1:\d+: error: use of undeclared identifier 'z0'"):
        kernelwright.compile("kernel void f(float* out) { out[0] = z%d; }" % 0)  # noqa: UP031
