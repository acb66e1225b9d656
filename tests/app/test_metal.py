"""`kernelwright metal`: what its verbs print, their exit codes, and their documents as docs/json.md describes them."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs" / "json.md"
EXAMPLE = Path(__file__).parents[2] / "examples" / "row_softmax.metal"
SCALE = """#include <metal_stdlib>
using namespace metal;
constant float factor [[function_constant(0)]];
kernel void scale(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
  out[i] = factor * x[i];
}
kernel void shift(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
  out[i] = x[i + 1];
}
"""


@pytest.fixture(scope="module")
def scale(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source with its launch file beside it."""
    folder = tmp_path_factory.mktemp("scale")
    x = np.arange(40, dtype=np.float32)
    np.save(folder / "x.npy", x)
    np.save(folder / "twice.npy", x * 2)
    arguments = [{"name": "out", "shape": [40], "fill": "nan", "expect": "twice.npy"}, {"name": "x", "file": "x.npy"}]
    common = {"threads": [40], "group_size": [32], "arguments": arguments}
    launches = [{"kernel": "scale", "constants": {"0": 2.0}, **common}, {"kernel": "shift", **common}]
    (folder / "scale.json").write_text(json.dumps(launches))
    (folder / "scale.metal").write_text(SCALE)
    return folder / "scale.metal"


def described(verb: str) -> set[str]:
    section = DOCS.read_text().split(f"\n## metal {verb}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def paths(value: Any, name: str = "") -> set[str]:
    """Every field of a document, written as docs/json.md writes them."""
    found = {name} if name and not isinstance(value, dict) else set()
    for key, item in value.items() if isinstance(value, dict) else ():
        found |= paths(item, f"{name}.{key}" if name else key)
    for item in value if isinstance(value, list) else ():
        found |= paths(item, f"{name}[]") - {f"{name}[]"}
    return found


def test_list(call, scale: Path) -> None:
    code, out, err = call("metal", "list", str(scale), "--json", "-")
    document = json.loads(out)
    assert code == 0 and paths(document) == described("list")
    assert [kernel["name"] for kernel in document["kernels"]] == ["scale", "shift"]
    first = document["kernels"][0]["arguments"]
    assert [(item["name"], item["kind"], item["index"], item["writable"]) for item in first] == [
        ("out", "buffer", 0, True),
        ("x", "buffer", 1, False),
        ("i", "builtin", None, False),
    ]
    assert document["constants"] == [{"name": "factor", "index": 0, "type": "float"}]
    assert "function constant 0: float factor" in err


def test_list_tells_threadgroup_memory(call, tmp_path: Path) -> None:
    file = tmp_path / "tile.metal"
    tile = "threadgroup float tile[LANES]; tile[i] = out[i]; out[i] = tile[i];"
    file.write_text(f"kernel void k(device float* out, uint i [[thread_position_in_grid]]) {{ {tile} }}")
    code, out, err = call("metal", "list", str(file), "-D", "LANES=48", "--json", "-")
    assert code == 0 and json.loads(out)["kernels"][0]["threadgroup_bytes"] == 192
    assert "k (192 bytes of threadgroup memory)" in err
    code, out, err = call("metal", "list", str(file), "--json", "-")  # LANES is no word: check tells
    assert code == 0 and json.loads(out)["kernels"][0]["threadgroup_bytes"] is None


def test_check_tells_what_is_wrong_and_where(call, scale: Path) -> None:
    code, out, err = call("metal", "check", str(scale), "--json", "-")
    document = json.loads(out)
    assert code == 1 and paths(document) == described("check")
    right, wrong = document["launches"]
    assert right["faults"] == []
    (fault,) = wrong["faults"]
    assert (fault["kind"], fault["line"], fault["memory"]) == ("out of bounds", 10, "buffer 1 (x)")
    assert fault["message"] in err and f"{scale}:10" in err
    assert call("metal", "check", str(scale), "--kernel", "scale", "--constant", "0=1.0")[0] == 0


def test_check_shows_the_compilers_words(call, tmp_path: Path) -> None:
    file = tmp_path / "wrong.metal"
    file.write_text(SCALE.replace("factor *", "factr *"))
    code, out, err = call("metal", "check", str(file), "--json", "-")
    document = json.loads(out)
    assert code == 1 and not document["compiled"]
    assert "wrong.metal:6:" in document["diagnostics"] and "factr" in err


def test_run_compares_with_what_is_expected(call, scale: Path, tmp_path: Path) -> None:
    code, out, err = call("metal", "run", str(scale), "--kernel", "scale", "--save", str(tmp_path), "--json", "-")
    document = json.loads(out)
    assert code == 0 and paths(document) == described("run")
    (held, x) = document["launches"][0]["arguments"]
    assert held["ok"] is True and held["error"] == 0 and held["largest"] == 78 and x["ok"] is None
    np.testing.assert_array_equal(np.load(tmp_path / "0-scale-out.npy"), np.arange(40) * 2)
    assert "out" in err and "ok" in err
    launch = json.loads((scale.parent / "scale.json").read_text())[0] | {"constants": {"0": 3.0}}
    launch["arguments"][0]["expect"] = str(scale.parent / "twice.npy")
    launch["arguments"][1]["file"] = str(scale.parent / "x.npy")
    (tmp_path / "other.json").write_text(json.dumps(launch))
    code, out, _ = call("metal", "run", str(scale), "--launch", str(tmp_path / "other.json"))
    assert code == 1 and "WRONG" in out


def test_profile_counts_and_estimates(call) -> None:
    code, out, err = call("metal", "profile", str(EXAMPLE), "--chip", "m2-max", "--json", "-")
    document = json.loads(out)
    assert code == 0 and paths(document) == described("profile")
    launch = document["launches"][0]
    assert launch["counters"]["barriers"] == 3 * 64 and launch["counters"]["transcendentals"] == 2 * 64 * 1000
    assert launch["estimate"]["chip"] == "M2 Max" and launch["estimate"]["at_least_us"] > 0
    assert "estimate for M2 Max" in err


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["run", "{file}", "--launch", "none.json"], "there is no launch file none.json"),
        (["profile", "{file}", "--chip", "M9"], "no chip is called 'M9'"),
        (["list", "none.metal"], "cannot read none.metal"),
        (["list", "{file}", "--kernel", "scal"], "did you mean scale"),
        (["list", "{file}", "--constant", "0"], "INDEX=VALUE"),
        (["list", "{file}", "--constant", "0=x"], "true, false or a number"),
        (["run", "{file}", "--kernel", "none"], "launches no kernel 'none'"),
    ],
)
def test_bad_usage_is_one_sentence(call, scale: Path, argv: list[str], sentence: str) -> None:
    code, _, err = call("metal", *(word.format(file=scale) for word in argv))
    assert code == 2 and sentence in err and "Traceback" not in err


@pytest.mark.parametrize("verb", ["list", "check", "run", "profile"])
def test_help_has_an_example(call, verb: str) -> None:
    code, out, _ = call("metal", verb, "--help")
    assert code == 0 and f"Example: kernelwright metal {verb}" in " ".join(out.split())
