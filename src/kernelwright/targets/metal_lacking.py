"""Which of torch's operators have no kernel for Metal, as the installed torch itself says.

torch's wheel holds the table its dispatcher was generated from (torchgen, native_functions.yaml), on every system.
"""

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_ELSEWHERE = (
    "mkldnn",
    "slow_conv",
    "_for_cpu",
    "_fused_sdp_choice",
    "_masked_softmax",
    "_transform_bias_rescale_qkv",
    "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd",
)
"""Operators that only the CPU's own way of computing something reaches; a Mac takes another way."""
_FALL_BACK = ("embedding_renorm_", "linalg_svd", "_linalg_svd", "col2im", "upsample_nearest3d")
"""What torch computes on the CPU by itself where a Mac's GPU was asked (aten/src/ATen/mps/MPSFallback.mm)."""


def lacks(operator: str) -> bool:
    """Whether "aten::name.overload" cannot run on a Mac's GPU."""
    return operator.removeprefix("aten::").removesuffix(".default") in lacking()


@cache
def lacking() -> frozenset[str]:
    """Names without namespace; empty where torch brings no table."""
    spec = find_spec("torchgen")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        table = Path(place) / "packaged" / "ATen" / "native" / "native_functions.yaml"
        if table.is_file():
            return read(table.read_text())
    return frozenset()


def read(table: str) -> frozenset[str]:
    """The operators of a table that have a kernel for the CPU, none for MPS and none for every device."""
    keys: dict[str, set[str]] = {}
    delegates: dict[str, str] = {}
    name, inside = "", False
    for line in table.splitlines():
        start = re.match(r"- func: ([\w.]+)\(", line)
        if start:
            name, inside = start[1], False
            keys[name] = set()
        elif line.startswith("  structured_delegate:"):
            delegates[name] = line.partition(":")[2].strip()
        elif re.match(r"  \w", line):
            inside = line.startswith("  dispatch:")
        elif inside and ":" in line:
            keys[name] |= {key.strip() for key in line.partition(":")[0].split(",")}
    found = set()
    for operator, own in keys.items():
        known = own | keys.get(delegates.get(operator, ""), set())
        if "CPU" in known and "MPS" not in known and not any(key.startswith("Composite") for key in known):
            found.add(operator)
    return frozenset(
        operator
        for operator in found
        if not any(word in operator for word in _ELSEWHERE) and operator.partition(".")[0] not in _FALL_BACK
    )
