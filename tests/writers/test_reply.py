"""Replies as models write them."""

import pytest

from kernelwright.records import Brief, Facts, Problem, Signature
from kernelwright.writers.reply import assembled, files_of, note_of

MODEL = 'import kernelwright\nSOURCE = kernelwright.source("k.cpp")\n\n\nclass ModelNew: ...\n'
KERNEL = "kernel void k(float* out) {}\n"
BRIEF = Brief(Problem("Net", "class Model: ...\n", Signature((), "{}")), "cpu", Facts("cpu", "", ""))


@pytest.mark.parametrize(
    "reply",
    [
        f"```python model.py\n{MODEL}```\n\n```cpp k.cpp\n{KERNEL}```\nNote: one kernel",
        f"Sure!\n~~~python file=model.py\n{MODEL}~~~\n~~~c++ `k.cpp`\n{KERNEL}~~~",
        f"```python\n{MODEL}```\nand\n```cpp\n{KERNEL}```",
        f"````python src/model.py\n{MODEL}````\n````cpp /tmp/k.cpp\n{KERNEL}````",
        f"```python\nx\n```\n```python\nclass ModelNew: 'first'\n```\n```python\n{MODEL}```\n```cpp\n{KERNEL}```",
    ],
    ids=["named", "other fences", "unnamed", "with folders", "the last word"],
)
def test_files(reply: str) -> None:
    assert files_of(reply) == {"model.py": MODEL, "k.cpp": KERNEL}


@pytest.mark.parametrize(
    "reply",
    ["", "I cannot help with that.", "```python\nx = 1\n```", "```python model.py\nx = 1\n```", f"```python\n{MODEL}"],
    ids=["nothing", "a refusal", "another class", "a model without one", "cut in the middle"],
)
def test_no_candidate(reply: str) -> None:
    assert files_of(reply) == {}


def test_a_candidate() -> None:
    text = MODEL + "from reference import Model\nlib = kernelwright.compile(SOURCE, language='cpp')\n"
    made = assembled(
        {"k.cpp": KERNEL, "model.py": text, "reference.py": "class Model: 'mine'\n"}, BRIEF, "m", "turn 1", "n", ("p",)
    )
    assert (made.writer, made.target, made.label, made.note, made.parents) == ("m", "cpp@cpu", "turn 1", "n", ("p",))
    assert made.sources[0].path == "model.py"
    told = {file.path: file.text for file in made.sources}
    assert told["reference.py"] == BRIEF.problem.source, "the reference is the problem's, whatever a reply says"
    assert assembled({"model.py": MODEL}, BRIEF, "m").target == "torch@cpu"
    native = {"model.py": MODEL + "lib = torch.mps.compile_shader(SOURCE)\n"}
    assert assembled(native, BRIEF, "m").target == "metal@cpu"


def test_a_note_is_one_line() -> None:
    assert note_of("```\n```\nNote: fused both passes.\nmore") == "fused both passes."
    assert note_of("**Note:** bold") == "bold" and note_of("no word") == ""
    assert len(note_of("Note: " + "x" * 5000)) == 300
