"""Methods: a qualifier behind the parameters says for which address space one is. One serves all here."""

from collections.abc import Sequence

from kernelwright.metal.declarations import SPACES
from kernelwright.metal.tokens import Tokens, words

Methods = dict[str, tuple[str, list[int]]]
"""Methods of a class by what tells them apart here: the body, and the words of the result that name its space."""


def merged(tokens: Tokens, start: int, last: int, end: int, seen: Methods) -> bool:
    """Takes the space qualifiers of a method away; True if it was a second copy of one and is gone."""
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
    results = [i for i in found[: _opening(tokens, found, closing)] if tokens[i] in own]
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


def _opening(tokens: Tokens, found: Sequence[int], closing: int) -> int:
    """Where among the words `found` the bracket opens that closes at `closing`."""
    depth = 0
    for at in range(closing, -1, -1):
        depth += (tokens[found[at]] == ")") - (tokens[found[at]] == "(")
        if not depth:
            return at
    return 0
