"""Which language a candidate's kernels are in, as its own Python text tells."""

import re

_NAMED = re.compile(r"""language\s*=\s*["'](\w+)["']""")
_TRITON = re.compile(r"^\s*(?:import|from)\s+triton\b", re.MULTILINE)


def language_of(text: str) -> str:
    """That of `kernelwright.compile(..., language=...)`; "metal" for torch.mps.compile_shader, "triton" where Triton is
    imported, "torch" without any of these."""
    found = set(_NAMED.findall(text))
    if "compile_shader(" in text:
        found.add("metal")
    if _TRITON.search(text):
        found.add("triton")
    return min(found, default="torch")
