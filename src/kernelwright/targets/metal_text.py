"""What a Metal text from elsewhere may ask the preprocessor for. It comes from a candidate, and is compiled outside of
the candidate's sandbox: it may not name files of this machine, neither to read them nor to have them quoted."""

import re

from kernelwright.errors import CompileError

_SPLICE = re.compile(r"\\[ \t\f\v]*(\r\n|\n|\r)")
_ALLOWED = re.compile(r"<(metal_\w+|simd/simd\.h)>|[<\"]c10/metal/\w+\.h[>\"]")
_FREE = ("define", "undef", "if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif", "error", "warning")
_PROBES = re.compile(r"__has_(include|include_next|embed)\b|__has_\w*\s*##")


def refuse_files(text: str, name: str) -> None:
    """Raises CompileError for a directive that names a file, Metal's own headers and c10/metal's apart.

    Whatever could be a directive is taken for one, also inside a comment: a line whose first word, or first word behind
    the end of a comment, is a hash.
    """
    if "\0" in text:
        raise CompileError(f"{name}: the text holds a zero byte")
    if re.search(r'\b(u8|[uUL])?R"', text):
        raise CompileError(f"{name}: raw strings are not taken; write an ordinary one")
    if _PROBES.search(_SPLICE.sub("", text)):
        raise CompileError(f"{name}: a kernel cannot ask which files there are")
    for line in re.split(r"\r\n|\n|\r", _SPLICE.sub("", text)):
        ends = [0, *(match.end() for match in re.finditer(r"\*/", line))]
        for end in ends:
            start = re.match(r"\s*(#|%:|\?\?=)(.*)", line[end:], re.DOTALL)
            if start:
                _directive(start[2], name)


def _directive(rest: str, name: str) -> None:
    rest = re.sub(r"/\*.*?\*/", " ", rest).strip()
    match = re.match(r"([A-Za-z_]\w*)\s*(.*)", rest, re.DOTALL)
    if not rest or (match and match[1] in (*_FREE, "pragma")):
        return
    if match and match[1] in ("include", "import"):
        if _ALLOWED.match(match[2]):
            return
        raise CompileError(
            f"{name}: #{match[1]} {match[2]}: only Metal's own headers and <c10/metal/...> can be included: "
            "put what else it needs into the source"
        )
    if match and match[1] == "line" and re.fullmatch(r"\d+", match[2].strip()):
        return
    raise CompileError(f"{name}: #{rest[:80]}: this directive is not taken from a candidate's kernel")
