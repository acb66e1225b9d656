"""`kernelwright advise`: its words, its exit codes, its document."""

import json
import re
from pathlib import Path

import pytest

from kernelwright.app.advise import read_sizes
from kernelwright.errors import UsageError

DOCS = Path(__file__).parents[2] / "docs" / "json.md"
FILE = """
import numpy as np

def total(x, out):
    out[0] = 0.0
    for i in range(x.shape[0]):
        out[0] += x[i]

def numpy_total(x, out):
    out[0] = x.sum()

def arguments(n, seed=0):
    return np.random.default_rng(int(seed)).random(n), np.zeros(1)
"""


def test_it_answers_with_a_table_and_a_sentence(call, tmp_path: Path) -> None:
    file, out = tmp_path / "total.py", tmp_path / "advice.json"
    file.write_text(FILE)
    sizes = ["--sizes", "n=10,1e3", "--sizes", "seed=4"]
    code, told, _ = call("advise", f"{file}:total", *sizes, "--seconds", "0", "--json", str(out))
    assert code == 0 and "n=1000" in told and "NumPy, yours" in told and "Fastest is from n=10 on" in told
    document = json.loads(out.read_text())
    section = DOCS.read_text().split("\n## advise\n")[1].split("\n## ")[0]
    described = set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))
    assert set(document) | {f"rows[].{key}" for row in document["rows"] for key in row} == described
    assert document["fixed"] == {"seed": 4.0} and {row["size"] for row in document["rows"]} == {10.0, 1000.0}


def test_sizes_are_read() -> None:
    assert read_sizes(["L=943,1e4"]) == ("L", [943.0, 1e4], {})
    assert read_sizes(["batch=8", "L=2,1"]) == ("L", [1.0, 2.0], {"batch": 8.0})
    for wrong in (["L"], ["L=x"], ["L=0"], ["=3"], ["a=1,2", "b=1,2"]):
        with pytest.raises(UsageError, match="--sizes|only one size"):
            read_sizes(wrong)


def test_what_is_wrong_is_one_sentence(call, tmp_path: Path) -> None:
    code, _, error = call("advise", "nowhere.py:f", "--sizes", "L=3")
    assert code == 2 and error.strip() == "kernelwright: there is no file nowhere.py"
