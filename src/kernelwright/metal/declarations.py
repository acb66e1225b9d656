"""What a declaration begins with: address spaces, specifiers, a type."""

from kernelwright.metal.tokens import Tokens

SPACES = frozenset({"device", "constant", "threadgroup", "thread"})
SPECIFIERS = frozenset({"static", "const", "volatile", "constexpr", "inline", "typename", "struct", "class"})
_BUILT_IN = frozenset({"unsigned", "signed", "char", "short", "int", "long", "float"})


def after_type(tokens: Tokens, at: int) -> int:
    """The token behind a type that begins at `at`: a declarator."""
    while tokens.word(at) in SPECIFIERS or tokens.word(at) in SPACES:
        at = tokens.after(at)
    if tokens.word(at) in _BUILT_IN:
        while tokens.word(at) in _BUILT_IN or tokens.word(at) in SPECIFIERS:
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
    while tokens.word(at) in SPECIFIERS:
        at = tokens.after(at)
    return at
