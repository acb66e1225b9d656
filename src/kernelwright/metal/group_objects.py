"""Objects in threadgroup memory: which declarations make them, and the storage class that they get."""

from kernelwright.metal.declarations import after_type
from kernelwright.metal.tokens import Tokens, words


def share(tokens: Tokens, first: int, last: int) -> None:
    """Marks the objects that the body first..last declares in threadgroup memory, and has their bytes checked."""
    outer: list[str] = []
    for index in words(tokens, first, last):
        if tokens[index] == "threadgroup":
            begin = _declaration_start(tokens, index)
            if begin is not None:
                _group_object(tokens, index, begin, first, last, outer)


def _declaration_start(tokens: Tokens, index: int) -> int | None:
    """The first token of the declaration whose specifiers hold `index`; None where it is no declaration."""
    at = index
    while True:
        before = tokens.before(at)
        word = tokens.word(before)
        if word in ("static", "const", "volatile", "constexpr"):
            at = before
        elif word == ")" and tokens.word(_alignas(tokens, before)) == "alignas":
            at = _alignas(tokens, before)
        elif word in ("{", "}", ";", ":", ""):
            return at
        else:
            return None


def _alignas(tokens: Tokens, closing: int) -> int:
    at = closing
    while at > 0 and tokens[at] != "(":
        at = tokens.before(at)
    return tokens.before(at)


def _group_object(tokens: Tokens, index: int, begin: int, first: int, last: int, outer: list[str]) -> None:
    """An object in threadgroup memory: after its type comes a name, where a pointer has `*` and a reference `&`."""
    at = after_type(tokens, tokens.after(index))
    if not tokens.word(at).isidentifier():
        return
    name, end = tokens[at], at
    while end <= last and tokens[end] != ";":
        if tokens[end] in ("(", "[", "{"):
            end = tokens.closing(end)
        elif tokens[end] == "," and tokens.word(tokens.after(end)) in ("*", "&"):
            raise tokens.error(end, "a threadgroup object and a pointer in one declaration are not hosted: write two")
        end += 1
    for i in words(tokens, begin, index - 1):
        if tokens[i] == "static":
            tokens.items[i] = ""
    tokens.items[begin] = f"SIMT_GROUP {tokens.items[begin]}"
    if _depth(tokens, first, index) == 1:
        outer.append(name)
    measured = outer if _depth(tokens, first, index) == 1 else [*outer, name]
    sizes = " + ".join(f"sizeof({each})" for each in measured)
    tokens.items[end] = f"; METAL_GROUP_MEMORY({sizes})"


def _depth(tokens: Tokens, first: int, index: int) -> int:
    return sum((tokens[i] == "{") - (tokens[i] == "}") for i in range(first, index))
