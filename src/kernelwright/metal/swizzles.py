"""Swizzles: which of them a source uses, and reads told from writes."""

import re

from kernelwright.metal.tokens import Tokens

NAME = re.compile(r"[xyzw]{2,4}|[rgba]{2,4}")
"""What a swizzle is called."""
_WRITES = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"})


def rewrite(tokens: Tokens, members: frozenset[str]) -> str:
    """Turns `v.xy` that is read into `v.get_xy()`; returns the shim's three lists of swizzles.

    `members` are names of the source's own struct members: such a name is left as it is.
    """
    used: dict[str, bool] = {}
    for index in tokens.significant:
        name = tokens[index]
        if not NAME.fullmatch(name) or tokens.word(tokens.before(index)) not in (".", "->"):
            continue
        after = tokens.word(tokens.after(index))
        if after == "(":
            continue
        written = after in _WRITES
        used[name] = used.get(name, False) or written or name in members
        if not written and name not in members:
            tokens.items[index] = f"get_{name}()"
    return "".join(f"#define METAL_SWIZZLES_{lanes} {_listed(used, lanes)}\n" for lanes in (2, 3, 4))


def _listed(used: dict[str, bool], lanes: int) -> str:
    found = []
    for name, written in sorted(used.items()):
        at = [("xyzw" if name[0] in "xyzw" else "rgba").index(letter) for letter in name]
        if max(at) >= lanes:
            continue
        kind = "METAL_WRITE" if written and len(set(at)) == len(at) else "METAL_READ"
        found.append(f"{kind}({name}, {len(name)}, {', '.join(map(str, at))})")
    return " ".join(found)
