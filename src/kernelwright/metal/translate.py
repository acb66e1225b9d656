"""From preprocessed Metal text to C++ on the shim: entries found, and words changed that C++ reads differently.

The text keeps its lines. Address spaces stay in it as types (shim/types.hpp), so clang itself tells overloads apart and
refuses pointers that cross; what is changed here is written down in docs/design/metal.md.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.metal import attributes, rules, swizzles
from kernelwright.metal.attributes import Attribute
from kernelwright.metal.constants import Value, literal
from kernelwright.metal.kernels import Constant, Instance, Kernel, entries, parameters
from kernelwright.metal.tokens import Tokens, words
from kernelwright.simt import Entry

SPACES = frozenset({"device", "constant", "threadgroup", "thread"})
_SPECIFIERS = frozenset({"static", "const", "volatile", "constexpr", "inline", "typename", "struct", "class"})
_BUILT_IN_TYPE_WORDS = frozenset({"unsigned", "signed", "char", "short", "int", "long", "float"})
_DECIMAL = re.compile(r"(\d+\.\d*|\.\d+)([eE][+-]?\d+)?|\d+[eE][+-]?\d+|0[xX][\da-fA-F]*\.?[\da-fA-F]*[pP][+-]?\d+")
_TEXT = "(constant char*)"
_NO_OBJECTS = frozenset({"true", "false", "nullptr", "this"})
_VECTOR = re.compile(r"(bool|u?(char|short|int|long)|float|half|bfloat)[234]")
_SUFFIXED = re.compile(rf"({_DECIMAL.pattern}|\d+)([hH]|bf|BF)")


Methods = dict[str, tuple[str, list[int]]]
"""Methods of a class by what tells them apart here: the body, and the words of the result that name its space."""


@dataclass
class Translated:
    """The C++ text, the kernels with their instances and the function constants, each by its name."""

    text: str = ""
    entries: tuple[Entry, ...] = ()
    constants: dict[str, Constant] = field(default_factory=dict)


def translate(text: str, values: Mapping[int | str, Value]) -> Translated:
    """`text`: one file as the preprocessor leaves it, line markers included. Raises CompileError with the place."""
    return _Translation(Tokens(text), values).run()


class _Translation:
    def __init__(self, tokens: Tokens, values: Mapping[int | str, Value]) -> None:
        self.tokens, self.values = tokens, values
        self.found = Translated()
        self.kernels: dict[str, list[Kernel]] = {}
        self.instances: list[Instance] = []
        self.attributes: dict[int, tuple[list[Attribute], int]] = {}
        self._starts: list[int] = []
        self._asserted = 0
        self.members: set[str] = set()

    def run(self) -> Translated:
        rules.check(self.tokens)
        self._read_attributes()
        self._scope(0, len(self.tokens) - 1, "namespace", "")
        head = swizzles.rewrite(self.tokens, frozenset(self.members))
        self._change_words()
        self.found.text = head + self.tokens.joined()
        self.found.entries = entries(self.tokens, self.kernels, self.instances)
        return self.found

    def _read_attributes(self) -> None:
        tokens = self.tokens
        for index in tokens.significant:
            if tokens[index] == "[" and tokens.word(index + 1) == "[" and self._inside(index) is None:
                found, end = attributes.read(tokens, index)
                self.attributes[index] = found, end
                self._starts.append(index)
                if not found or not all(attribute.name in attributes.KEPT for attribute in found):
                    tokens.blank(index, end)

    def _inside(self, index: int) -> int | None:
        """The double bracket that holds the token, None without one."""
        at = bisect_right(self._starts, index) - 1
        return self._starts[at] if at >= 0 and index <= self.attributes[self._starts[at]][1] else None

    def _attributes_in(self, first: int, last: int) -> list[Attribute]:
        starts = self._starts[bisect_left(self._starts, first) : bisect_right(self._starts, last)]
        return [attribute for start in starts for attribute in self.attributes[start][0]]

    # Scopes: statement by statement, down to the bodies of functions.

    def _scope(self, first: int, last: int, kind: str, path: str) -> None:
        tokens = self.tokens
        seen: Methods = {}
        start = at = first
        while at <= last:
            token = tokens[at]
            if token in ("(", "["):
                at = tokens.closing(at)
            elif token == ";":
                self._statement(start, at, kind, path, seen)
                start = at + 1
            elif token == ":" and kind == "class" and tokens.text(start, at - 1) in ("public", "private", "protected"):
                start = at + 1
            elif token == "{":
                end = tokens.closing(at)
                inner = self._kind(start, at, kind)
                if inner == "initializer":
                    at = end
                else:
                    self._block(start, at, end, inner, kind, path, seen)
                    at = end
                    if inner != "class":
                        start = end + 1
            at += 1

    def _kind(self, start: int, brace: int, outer: str) -> str:
        """What the braces after start..brace hold: "namespace", "class", "function" or "initializer"."""
        tokens = self.tokens
        header = words(tokens, start, brace - 1)
        plain = [tokens[i] for i in header]
        if "namespace" in plain or plain[:1] == ["extern"]:
            return "namespace"
        begin = self._after_template(start, brace)
        leading = [tokens[i] for i in words(tokens, begin, brace - 1)]
        if any(word in ("struct", "class", "union") for word in leading[:3]) and "(" not in leading:
            return "class"
        if "enum" in leading[:2] or "(" not in leading or self._assigned(begin, brace):
            return "initializer"
        previous = tokens.word(tokens.before(brace))
        # In a constructor's list `a(1), b{2} { }` the braces that follow a name are an initializer.
        if (previous.isidentifier() and self._constructor_list(header) and previous not in SPACES) or previous == ",":
            return "initializer"
        return "function"

    def _assigned(self, begin: int, brace: int) -> bool:
        """Whether a `=` stands before the braces, outside of brackets: `int n[] = {1}`, not `operator=(C c) {`."""
        tokens, at = self.tokens, begin
        while at < brace:
            if tokens[at] in ("(", "["):
                at = tokens.closing(at)
            elif tokens[at] == "=" and tokens.word(tokens.before(at)) != "operator":
                return True
            at += 1
        return False

    def _constructor_list(self, header: Sequence[int]) -> bool:
        tokens = self.tokens
        return any(tokens[at] == ":" and tokens.word(tokens.before(at)) in (")", "const", *SPACES) for at in header)

    def _after_template(self, start: int, last: int) -> int:
        tokens = self.tokens
        at = start if start in tokens else tokens.after(start)
        while tokens.word(at) == "template" and tokens.word(tokens.after(at)) == "<" and at < last:
            at = tokens.after(tokens.closing_angle(tokens.after(at)))
        return at

    def _block(self, start: int, brace: int, end: int, inner: str, outer: str, path: str, seen: Methods) -> None:
        tokens = self.tokens
        if inner == "namespace":
            names = [tokens[i] for i in words(tokens, start, brace - 1) if tokens[i].isidentifier()]
            name = names[-1] if names and names[-1] not in ("namespace", "inline") and "extern" not in names else ""
            self._scope(brace + 1, end - 1, "namespace", f"{path}{name}::" if name else path)
        elif inner == "class":
            self._scope(brace + 1, end - 1, "class", path)
        else:
            kernel = self._kernel_word(start, brace)
            if kernel is not None and outer == "namespace":
                self._kernel(kernel, start, brace, path)
            elif outer == "class" and self._method(start, brace, end, seen):
                return
            self._body(brace, end, None if kernel is None else self._name_before_parameters(start, brace))

    def _statement(self, start: int, end: int, kind: str, path: str, seen: Methods) -> None:
        """A declaration without braces."""
        tokens = self.tokens
        found = words(tokens, start, end)
        if not found or len(found) == 1:
            return
        first = found[0]
        held = self._attributes_in(start, end)
        if kind == "class":
            for index in found:
                if swizzles.NAME.fullmatch(tokens[index]) and tokens.word(tokens.after(index)) in (";", ",", "["):
                    self.members.add(tokens[index])
            self._method(start, end, end, seen)
        elif tokens[first] == "template" and tokens.word(tokens.after(first)) != "<":
            named = [a for a in held if a.name == "host_name"]
            if named:
                self._instance(named[0], start, end, path)
        elif any(a.name == "function_constant" for a in held):
            self._constant(next(a for a in held if a.name == "function_constant"), start, end)
        else:
            kernel = self._kernel_word(start, end)
            if kernel is not None:
                tokens.blank(kernel, kernel)

    # Kernels.

    def _kernel_word(self, start: int, last: int) -> int | None:
        """Where start..last says that it declares a kernel; None if it does not."""
        tokens = self.tokens
        for index in words(tokens, self._after_template(start, last), last):
            if self._inside(index) is not None:
                continue
            if tokens[index] == "kernel" and tokens.word(tokens.before(index)) not in (".", "->", "::", "[", ","):
                return index
            if tokens[index] in ("(", "{"):
                break
        return next((a.index for a in self._attributes_in(start, last) if a.name == "kernel"), None)

    def _name_before_parameters(self, start: int, last: int) -> tuple[int, int]:
        """The kernel's name and the bracket before its parameters."""
        tokens = self.tokens
        at = self._after_template(start, last)
        while at < last:
            if at in self.attributes:
                at = self.attributes[at][1]
            elif tokens[at] == "(" and tokens.word(tokens.before(at)) not in ("__attribute__", "alignas"):
                return tokens.before(at), at
            elif tokens[at] in ("(", "["):
                at = tokens.closing(at)
            at += 1
        raise tokens.error(start, "a kernel without parameters")

    def _kernel(self, word: int, start: int, brace: int, path: str) -> None:
        tokens = self.tokens
        name_at, bracket = self._name_before_parameters(start, brace)
        if tokens.word(tokens.before(name_at)) != "void":
            raise tokens.error(name_at, f"kernel {tokens[name_at]} must return void")
        held = self._attributes_in(start, bracket)
        limit = next((a.number for a in held if a.name == "max_total_threads_per_threadgroup"), None)
        if tokens[word] == "kernel":
            tokens.blank(word, word)
        template = self._after_template(start, brace) > tokens.after(start - 1)
        name = f"{path}{tokens[name_at]}"
        close = tokens.closing(bracket)
        found = parameters(tokens, bracket, close, name, self._attributes_in)
        kernel = Kernel(name, found, template, limit)
        self.kernels.setdefault(name, []).append(kernel)

    def _instance(self, host_name: Attribute, start: int, end: int, path: str) -> None:
        """`template [[host_name("k")]] kernel decltype(f<T>) f<T>;` or `... void f<T>(parameters);`"""
        tokens = self.tokens
        name = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', host_name.argument))
        if not name:
            raise tokens.error(host_name.index, "host_name needs a text in quotes")
        at = tokens.after(tokens.after(start - 1))  # behind "template"
        while at in self.attributes or tokens.word(at) in ("kernel", *_SPECIFIERS):
            at = tokens.after(self.attributes[at][1] if at in self.attributes else at)
        first = self._after_type(at)
        last, at, types = first, first, None
        while at < end:
            if tokens[at] == "<":
                at = last = tokens.closing_angle(at)
            elif tokens[at] == "(":
                types = at
                break
            elif not tokens[at].isspace() and at not in self.attributes:
                last = at
            at = self.attributes[at][1] + 1 if at in self.attributes else at + 1
        template = tokens[first]
        at = first
        while tokens.word(tokens.after(at)) == "::":
            at = tokens.after(tokens.after(at))
            template += f"::{tokens[at]}"
        self.instances.append(
            Instance(
                name,
                template,
                path,
                tokens.text(first, last),
                None if types is None or tokens[last] == ">" else self._types(types),
                tokens.after(start - 1),
            )
        )
        tokens.blank(start, end)

    def _types(self, bracket: int) -> str:
        """The parameters behind `bracket` as C++ has them."""
        tokens = self.tokens
        kept = words(tokens, bracket + 1, tokens.closing(bracket) - 1)
        return " ".join(tokens.items[i] for i in kept if tokens.items[i] and tokens[i] != "thread")

    # Function constants.

    def _constant(self, attribute: Attribute, start: int, end: int) -> None:
        tokens = self.tokens
        number = attribute.number
        if number is None:
            raise tokens.error(attribute.index, f"function_constant({attribute.argument}) is not a number")
        kept = [
            i for i in words(tokens, start, end - 1) if tokens.items[i] and tokens[i] not in (*SPACES, *_SPECIFIERS)
        ]
        name_at = kept[-1]
        type_text = (
            "".join(tokens[i] for i in kept[:-1])
            if "::" in [tokens[i] for i in kept]
            else " ".join(tokens[i] for i in kept[:-1])
        )
        name = tokens[name_at]
        given = name in self.values or number in self.values
        value = self.values.get(name, self.values.get(number, 0))
        self.found.constants[name] = Constant(name, number, type_text, given)
        first = tokens.after(start - 1)
        tokens.blank(start, end - 1)
        tokens.items[first] = f"static constexpr {type_text} {name} = {literal(value, type_text)}"

    # Members: a qualifier after the parameters says for which space a method is. One method serves all here.

    def _method(self, start: int, last: int, end: int, seen: Methods) -> bool:
        """Takes the space qualifiers of a method away; True if it was a second copy of one and is gone."""
        tokens = self.tokens
        found = words(tokens, start, last - 1)
        closing = next((i for i in range(len(found) - 1, -1, -1) if tokens[found[i]] == ")"), None)
        colon = next(
            (
                k
                for k, i in enumerate(found)
                if tokens[i] == ":" and tokens.word(tokens.before(i)) in (")", "const", *SPACES)
            ),
            None,
        )
        if colon is not None:
            closing = next((i for i in range(colon, -1, -1) if tokens[found[i]] == ")"), None)
        if closing is None:
            return False
        tail = found[closing + 1 : colon]
        spaces = [i for i in tail if tokens[i] in SPACES]
        for index in spaces:
            tokens.items[index] = ""
        # `device T& at(size_t) device` beside `thread T& at(size_t) thread`: one that returns a plain T& serves both.
        own = {tokens[i] for i in spaces} or {"thread"}
        results = [i for i in found[: self._opening(found, closing)] if tokens[i] in own]
        key = " ".join(tokens[i] for i in found[: closing + 1] if i not in results) + (
            " const" if any(tokens[i] == "const" for i in tail) else ""
        )
        body = " ".join(token for i in words(tokens, found[closing] + 1, end) if (token := tokens[i]) not in SPACES)
        if key not in seen:
            seen[key] = body, results
            return False
        first, spaced = seen[key]
        if not spaces and first != body:
            return False
        for index in spaced:
            tokens.items[index] = ""
        if first != body:
            raise tokens.error(
                found[0], "two methods that differ by address space alone have different bodies, which is not hosted"
            )
        tokens.blank(start, end)
        return True

    def _opening(self, found: Sequence[int], closing: int) -> int:
        """Where among the words `found` the bracket opens that closes at `closing`."""
        depth = 0
        for at in range(closing, -1, -1):
            depth += (self.tokens[found[at]] == ")") - (self.tokens[found[at]] == "(")
            if not depth:
                return at
        return 0

    # Bodies.

    def _body(self, first: int, last: int, kernel: tuple[int, int] | None) -> None:
        tokens = self.tokens
        outer: list[str] = []
        for index in words(tokens, first, last):
            if tokens[index] == "threadgroup":
                begin = self._declaration_start(index)
                if begin is not None:
                    self._group_object(index, begin, first, last, outer)

    def _declaration_start(self, index: int) -> int | None:
        """The first token of the declaration whose specifiers hold `index`; None where it is no declaration."""
        tokens = self.tokens
        at = index
        while True:
            before = tokens.before(at)
            word = tokens.word(before)
            if word in ("static", "const", "volatile", "constexpr"):
                at = before
            elif word == ")" and tokens.word(self._alignas(before)) == "alignas":
                at = self._alignas(before)
            elif word in ("{", "}", ";", ":", ""):
                return at
            else:
                return None

    def _alignas(self, closing: int) -> int:
        tokens = self.tokens
        at = closing
        while at > 0 and tokens[at] != "(":
            at = tokens.before(at)
        return tokens.before(at)

    def _group_object(self, index: int, begin: int, first: int, last: int, outer: list[str]) -> None:
        """An object in threadgroup memory: after its type comes a name, where a pointer has `*` and a reference `&`."""
        tokens = self.tokens
        at = self._after_type(tokens.after(index))
        if not tokens.word(at).isidentifier():
            return
        name, end = tokens[at], at
        while end <= last and tokens[end] != ";":
            if tokens[end] in ("(", "[", "{"):
                end = tokens.closing(end)
            elif tokens[end] == "," and tokens.word(tokens.after(end)) in ("*", "&"):
                raise tokens.error(
                    end, "a threadgroup object and a pointer in one declaration are not hosted: write two"
                )
            end += 1
        for i in words(tokens, begin, index - 1):
            if tokens[i] == "static":
                tokens.items[i] = ""
        tokens.items[begin] = f"SIMT_GROUP {tokens.items[begin]}"
        if self._depth(first, index) == 1:
            outer.append(name)
        measured = outer if self._depth(first, index) == 1 else [*outer, name]
        sizes = " + ".join(f"sizeof({each})" for each in measured)
        tokens.items[end] = f"; METAL_GROUP_MEMORY({sizes})"

    def _depth(self, first: int, index: int) -> int:
        tokens = self.tokens
        return sum((tokens[i] == "{") - (tokens[i] == "}") for i in range(first, index))

    def _after_type(self, at: int) -> int:
        """The token behind a type that begins at `at`: a declarator."""
        tokens = self.tokens
        while tokens.word(at) in _SPECIFIERS or tokens.word(at) in SPACES:
            at = tokens.after(at)
        if tokens.word(at) in _BUILT_IN_TYPE_WORDS:
            while tokens.word(at) in _BUILT_IN_TYPE_WORDS or tokens.word(at) in _SPECIFIERS:
                at = tokens.after(at)
            return at
        if tokens.word(at) == "decltype":
            return tokens.after(tokens.closing(tokens.after(at)))
        while True:
            if tokens.word(at) == "::":
                at = tokens.after(at)
            at = tokens.after(at)
            if tokens.word(at) == "<":
                at = tokens.after(tokens.closing_angle(at))
            if tokens.word(at) != "::":
                break
        while tokens.word(at) in _SPECIFIERS:
            at = tokens.after(at)
        return at

    # Words that mean something else in C++.

    def _change_words(self) -> None:
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
            elif token[0] == '"' and self._inside(index) is None:
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
        name = self._after_type(tokens.after(index))
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
        known = self.found.constants.get(inner[-1] if inner else "")
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
