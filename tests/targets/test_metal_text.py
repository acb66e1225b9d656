"""A kernel's text may name no file of this machine, however it spells the directive."""

import pytest

from kernelwright.errors import CompileError
from kernelwright.targets.metal_text import refuse_files


@pytest.mark.parametrize(
    "text",
    [
        "#include <metal_stdlib>\nusing namespace metal;",
        '# include "c10/metal/utils.h"',
        "#include <c10/metal/reduction_utils.h>",
        "#include <simd/simd.h>",
        "#define A 1\n#ifdef A\n#elif 2\n#else\n#endif\n#pragma unroll\n#",
        "#line 7",
        "// see #include \"x.h\"\nfloat a; // #include 'y'",
        "#define CAT(a, b) a##b\n#define STR(a) #a",
    ],
)
def test_what_a_kernel_needs(text: str) -> None:
    refuse_files(text, "kernel.metal")


@pytest.mark.parametrize(
    "text",
    [
        '#include "/etc/passwd"',
        "#include </etc/passwd>",
        '# /* a */ include "x.h"',
        '#inc\\\nlude "x.h"',
        '#inc\\ \nlude "x.h"',
        '/* a\n*/ #include "x.h"',
        '/* a */ /* b */ #include "x.h" /* c */',
        '%:include "x.h"',
        '#import "x.h"',
        '#include_next "x.h"',
        "#define H </etc/passwd>\n#include H",
        '#embed "x"',
        '#line 1 "/etc/passwd"',
        '# 1 "/etc/passwd"',
        '\v#include "x.h"',
        'a\r#include "x.h"',
        '#if __has_include("/etc/passwd")\n#endif',
        "#if __has_\\\ninclude(</etc/passwd>)\n#endif",
        'auto a = R"(/*)";',
        "a\0b",
        '#include "c10/metal/../../../x.h"',
        "#include <metal_../x>",
    ],
)
def test_what_names_a_file(text: str) -> None:
    with pytest.raises(CompileError, match="kernel.metal"):
        refuse_files(text, "kernel.metal")
