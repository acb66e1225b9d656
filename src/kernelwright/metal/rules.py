"""What Apple's compiler rejects and clang in C++ does not: rules on words, each with its source.

Pointers that cross address spaces need no rule here: the spaces are real in the C++ that comes out (shim/types.hpp).
Sources are sections of the Metal Shading Language Specification, version 4, and of the Metal feature set tables.
"""

from dataclasses import dataclass

from kernelwright.metal.tokens import Tokens

BUFFERS = 31
"""Feature set tables: a kernel has at most 31 buffers, 0 to 30."""

GROUP_MEMORY_BYTES = 32 << 10
"""Feature set tables, every Apple GPU from family 4 on and Mac2: at most 32 KB of threadgroup memory."""


@dataclass(frozen=True)
class Rule:
    """Words that no source may hold, why, and where that is written."""

    words: frozenset[str]
    message: str
    source: str


RULES = (
    Rule(frozenset({"double"}), "Metal has no double; use float", "2.1: double is not supported"),
    Rule(
        frozenset({"virtual", "dynamic_cast", "typeid"}),
        "Metal has no virtual functions and no run-time types",
        "1.5.4: virtual, dynamic_cast and type identification are restricted",
    ),
    Rule(frozenset({"throw", "try", "catch"}), "Metal has no exceptions", "1.5.4: exception handling is restricted"),
    Rule(frozenset({"goto"}), "Metal has no goto", "1.5.4: goto is restricted"),
    Rule(frozenset({"thread_local"}), "Metal has no thread_local", "1.5.4: thread_local is restricted"),
)

_TEXTURES = frozenset(
    f"{kind}{shape}"
    for kind in ("texture", "depth")
    for shape in ("1d", "1d_array", "2d", "2d_array", "2d_ms", "2d_ms_array", "3d", "cube", "cube_array", "_buffer")
)


def check(tokens: Tokens) -> None:
    """Raises CompileError at the first word that Metal does not have, or that is not hosted here."""
    by_word = {word: rule for rule in RULES for word in rule.words}
    for index in tokens.significant:
        word = tokens[index]
        if word in by_word:
            raise tokens.error(index, by_word[word].message)
        if word in _TEXTURES and tokens.word(tokens.after(index)) == "<":
            raise tokens.error(index, f"{word} is a texture, and textures are not hosted here")
        if word == "sampler" and tokens.word(tokens.after(index)).isidentifier():
            raise tokens.error(index, "a sampler is for textures, which are not hosted here")
        if word == "new" and tokens.word(tokens.before(index)) != "operator":
            raise tokens.error(index, "Metal has no new")
