"""Reads `kernel void name(parameters)` out of C++ text."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelwright.errors import CompileError

# Spellings of a type, and the one word for it used everywhere else.
TYPES = {
    "float": "float32",
    "double": "float64",
    "int64": "int64",
    "int64_t": "int64",
    "long": "int64",
    "long long": "int64",
    "int": "int32",
    "int32": "int32",
    "int32_t": "int32",
    "uint8": "uint8",
    "uint8_t": "uint8",
    "unsigned char": "uint8",
    "bool": "bool",
    "half": "half",
    "bfloat16": "bfloat16",
}
CPP = {"float32": "float", "float64": "double"}
"""The prelude's name of a type, where it is not the same word."""
_NO_SCALARS = frozenset({"uint8", "half", "bfloat16"})
_RESTRICT = frozenset({"__restrict__", "__restrict", "restrict"})

# Comments and literals first, so that what they hold is not taken for code; then words, then any other character.
_TOKEN = re.compile(
    r"""//(?:\\\n|[^\n])* | /\*.*?\*/ | R"(?P<fence>[^(\s]*)\(.*?\)(?P=fence)"
      | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
      | (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*) | (?P<word>[A-Za-z_]\w*) | \d[\w.']* | (?P<mark>\S)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: str
    type: str
    """"float32", "float64", "int64", "int32", "uint8", "bool", "half", "bfloat16"."""
    pointer: bool
    const: bool
    """Whether what it points to is only read."""

    @property
    def cpp(self) -> str:
        """The type as C++."""
        name = CPP.get(self.type, self.type)
        return f"{'const ' if self.const else ''}{name}*" if self.pointer else name


@dataclass(frozen=True)
class KernelSignature:
    """A kernel's name, parameters, and the line of the text it stands in (from 1)."""

    name: str
    parameters: tuple[Parameter, ...]
    line: int

    def __str__(self) -> str:
        return f"{self.name}({', '.join(parameter.name for parameter in self.parameters)})"


@dataclass(frozen=True)
class _Token:
    text: str
    line: int
    word: bool


def kernels(
    text: str, file: str = "kernel.cpp", mark: str = "kernel", types: Mapping[str, str] = TYPES
) -> tuple[KernelSignature, ...]:
    """Every kernel of `text` in order: what `mark` stands before. `types`: spellings, as TYPES has them. Raises
    CompileError with file and line where a signature does not fit."""
    tokens = list(_without_bounds(_tokens(text)))
    found: list[KernelSignature] = []
    for i, token in enumerate(tokens):
        if token.word and token.text == mark:
            found.append(_kernel(tokens, i, file, types))
    if not found:
        raise CompileError(
            f"{file}: no kernel found; write one as `{mark} void name(float* out, const float* x, int64 n)`"
        )
    names = [kernel.name for kernel in found]
    for kernel in found:
        if names.count(kernel.name) > 1:
            raise CompileError(f"{file}:{kernel.line}: two kernels are called {kernel.name!r}")
    return tuple(found)


def _tokens(text: str) -> Iterator[_Token]:
    line, at = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        if match["word"] or match["mark"]:
            yield _Token(match[0], line, bool(match["word"]))


def _without_bounds(tokens: Iterator[_Token]) -> Iterator[_Token]:
    """Without CUDA's `__launch_bounds__(256)`, which may stand on either side of `void`."""
    for token in tokens:
        if token.text != "__launch_bounds__":
            yield token
            continue
        depth = 0
        for inside in tokens:
            depth += {"(": 1, ")": -1}.get(inside.text, 0)
            if not depth:
                break


def _kernel(tokens: list[_Token], start: int, file: str, types: Mapping[str, str]) -> KernelSignature:
    line = tokens[start].line
    mark = tokens[start].text
    head = [token.text for token in tokens[start + 1 : start + 4]]
    if len(head) < 3 or head[0] != "void" or not tokens[start + 2].word or head[2] != "(":
        raise CompileError(f"{file}:{line}: after `{mark}` the form is `void name(parameters)`, not `{' '.join(head)}`")
    name = head[1]
    parts: list[list[_Token]] = [[]]
    for token in tokens[start + 4 :]:
        if token.text == ")":
            break
        if token.text in "({;":
            raise CompileError(f"{file}:{token.line}: kernel {name}: `{token.text}` among its parameters")
        if token.text == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    else:
        raise CompileError(f"{file}:{line}: kernel {name}: its parameters are not closed")
    if parts == [[]] or [token.text for token in parts[0]] == ["void"]:
        parts = []
    return KernelSignature(name, tuple(_parameter(part, name, line, file, types) for part in parts), line)


def _parameter(tokens: list[_Token], kernel: str, line: int, file: str, types: Mapping[str, str]) -> Parameter:
    place = f"{file}:{tokens[0].line if tokens else line}: kernel {kernel}"
    text = " ".join(token.text for token in tokens)
    words = [token.text for token in tokens if token.text not in _RESTRICT]
    stars = words.count("*")
    if len(words) < 2 or not tokens[-1].word or any(not token.word and token.text != "*" for token in tokens):
        raise CompileError(f"{place}: parameter `{text}` is not of the form `type name` or `const type* name`")
    name, before = words[-1], words[:-1]
    if stars == 1:
        before = before[: before.index("*")]
    const = "const" in before
    spelled = " ".join(word for word in before if word not in ("const", "*"))
    kind = types.get(spelled)
    if stars > 1 or kind is None or (not stars and kind in _NO_SCALARS):
        words = [CPP.get(one, one) for one in dict.fromkeys(types.values()) if stars or one not in _NO_SCALARS]
        allowed = ", ".join(words)
        raise CompileError(
            f"{place}: parameter `{text}` has a type that cannot be passed; "
            f"{'pointers to' if stars else 'scalars of type'} {allowed} can"
        )
    return Parameter(name, kind, stars == 1, const and stars == 1)
