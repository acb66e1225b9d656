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
from kernelwright.metal.declarations import SPACES, SPECIFIERS, after_type
from kernelwright.metal.group_objects import share
from kernelwright.metal.kernels import Constant, Instance, Kernel, entries, parameters
from kernelwright.metal.methods import Methods, merged
from kernelwright.metal.tokens import Tokens, words
from kernelwright.metal.wording import reword
from kernelwright.simt import Entry


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
        self.members: set[str] = set()

    def run(self) -> Translated:
        rules.check(self.tokens)
        self._read_attributes()
        self._scope(0, len(self.tokens) - 1, "namespace", "")
        head = swizzles.rewrite(self.tokens, frozenset(self.members))
        reword(self.tokens, self.found.constants, lambda index: self._inside(index) is not None)
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
            elif outer == "class" and merged(tokens, start, brace, end, seen):
                return
            share(tokens, brace, end)

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
            merged(tokens, start, end, end, seen)
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
        while at in self.attributes or tokens.word(at) in ("kernel", *SPECIFIERS):
            at = tokens.after(self.attributes[at][1] if at in self.attributes else at)
        first = after_type(tokens, at)
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
        kept = [i for i in words(tokens, start, end - 1) if tokens.items[i] and tokens[i] not in (*SPACES, *SPECIFIERS)]
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
