"""Words that mean something else in C++, or nothing: literals, strings, casts, spaces of parameters, choices."""

import re
from collections.abc import Callable, Mapping

from kernelwright.metal.declarations import SPACES, after_type
from kernelwright.metal.kernels import Constant
from kernelwright.metal.tokens import Tokens, words

_DECIMAL = re.compile(r"(\d+\.\d*|\.\d+)([eE][+-]?\d+)?|\d+[eE][+-]?\d+|0[xX][\da-fA-F]*\.?[\da-fA-F]*[pP][+-]?\d+")
_TEXT = "(constant char*)"
_NO_OBJECTS = frozenset({"true", "false", "nullptr", "this"})
_VECTOR = re.compile(r"(bool|u?(char|short|int|long)|float|half|bfloat)[234]")
_SUFFIXED = re.compile(rf"({_DECIMAL.pattern}|\d+)([hH]|bf|BF)")


def reword(tokens: Tokens, constants: Mapping[str, Constant], in_attribute: Callable[[int], bool]) -> None:
    """Changes the words of `tokens` in place. `constants` are the source's function constants by name."""
    _Wording(tokens, constants, in_attribute).change()


class _Wording:
    def __init__(self, tokens: Tokens, constants: Mapping[str, Constant], in_attribute: Callable[[int], bool]) -> None:
        self.tokens = tokens
        self._constants, self._in_attribute = constants, in_attribute
        self._asserted = 0  # where the last static_assert ends

    def change(self) -> None:
        tokens, items = self.tokens, self.tokens.items
        for index in tokens.significant:
            token = items[index]
            if not token:
                continue
            if token[0].isdigit() or token[0] == ".":
                if _DECIMAL.fullmatch(token):
                    items[index] = f"{token}f"
                elif match := _SUFFIXED.fullmatch(token):
                    kind = "half" if match[match.lastindex or 1] in ("h", "H") else "bfloat"
                    number = match[1] if _DECIMAL.fullmatch(match[1]) else f"{match[1]}.0"
                    items[index] = f"(({kind}){number}f)"
            elif token in SPACES:
                if token == "thread":
                    items[index] = ""
                self._array_parameter(index)
            elif token[0] == '"' and not self._in_attribute(index):
                self._text(index)
            elif token in ("__func__", "__FUNCTION__", "__PRETTY_FUNCTION__"):
                items[index] = f"({_TEXT}{token})"
            elif token == "static_assert":
                self._asserted = tokens.closing(tokens.after(index))
            elif _VECTOR.fullmatch(token):
                self._listed(index)
            elif token == "static_cast":
                items[index] = "::metal::shim::cast"
            elif token == "is_function_constant_defined":
                self._defined(index)
        for index in tokens.significant:
            if tokens[index] == "?":
                self._choice(index)
        for index, token in enumerate(items):
            if token.startswith("#"):
                items[index] = _pragma(token)

    def _array_parameter(self, index: int) -> None:
        """`constant int n[2]` as a parameter is a pointer, which clang wants to see once there is a space."""
        tokens = self.tokens
        begin = index
        while tokens.word(tokens.before(begin)) in ("const", "volatile"):
            begin = tokens.before(begin)
        if tokens.word(tokens.before(begin)) not in ("(", ","):
            return
        name = after_type(tokens, tokens.after(index))
        bracket = tokens.after(name)
        if tokens.word(name).isidentifier() and tokens.word(bracket) == "[":
            further = tokens.word(tokens.after(tokens.closing(bracket))) == "["
            tokens.items[name] = f"(*{tokens[name]})" if further else f"*{tokens[name]}"
            tokens.blank(bracket, tokens.closing(bracket))

    def _choice(self, index: int) -> None:
        """`c ? a : b` where a and b are objects in two spaces: each is read first (shim/types.hpp, `read`)."""
        tokens = self.tokens
        at, nested = index + 1, 0
        while at < len(tokens):
            token = tokens[at]
            if token in ("(", "[", "{"):
                at = tokens.closing(at)
            elif token == "?":
                nested += 1
            elif token == ":" and nested:
                nested -= 1
            elif token == ":":
                break
            elif token in (")", "]", "}", ";"):
                return
            at += 1
        for operand in (tokens.after(index), tokens.after(at)):
            now = tokens.items[operand] if operand < len(tokens) else ""
            if tokens.word(operand) in ("*", "(") or (now[:1].isidentifier() and now not in _NO_OBJECTS):
                tokens.items[operand] = f"::metal::shim::read->*{now}"

    def _text(self, index: int) -> None:
        """A string lies in constant memory, but where it makes an array, or is no value at all."""
        tokens = self.tokens
        before = tokens.before(index)
        makes_array = tokens.word(before) == "=" and tokens.word(tokens.before(before)) == "]"
        if index < self._asserted or makes_array or tokens.word(before) == "extern" or tokens.word(before)[:1] == '"':
            return
        last = index
        while tokens.word(tokens.after(last))[:1] == '"':
            last = tokens.after(last)
        tokens.items[index] = f"({_TEXT}{tokens.items[index]}"
        tokens.items[last] += ")"

    def _listed(self, index: int) -> None:
        """`float4 v = {a, b}` may leave parts out, which a constructor may not."""
        tokens = self.tokens
        name = tokens.after(index)
        equals = tokens.after(name)
        brace = tokens.after(equals)
        if tokens.word(name).isidentifier() and tokens.word(equals) == "=" and tokens.word(brace) == "{":
            tokens.items[brace] = f"::metal::shim::listed<{tokens[index]}>("
            tokens.items[tokens.closing(brace)] = ")"

    def _defined(self, index: int) -> None:
        tokens = self.tokens
        bracket = tokens.after(index)
        inner = [tokens[i] for i in words(tokens, bracket + 1, tokens.closing(bracket) - 1)]
        known = self._constants.get(inner[-1] if inner else "")
        if known is None:
            raise tokens.error(index, f"{' '.join(inner) or 'this'} is no function constant")
        tokens.blank(index, tokens.closing(bracket))
        tokens.items[index] = "true" if known.given else "false"


def _pragma(line: str) -> str:
    """A line marker as it is; a pragma only if clang knows it as it stands here."""
    if not re.match(r"#\s*pragma\b", line):
        return line
    if re.match(r"#\s*pragma\s+(clang\s+loop\b.*|(no)?unroll(\s*\(?\s*\d+\s*\)?)?)\s*$", line):
        return line
    return ""
