"""The brief as it is printed."""

import json

import pytest


@pytest.mark.parametrize(
    ("target", "device", "words"),
    [
        ("cpu", "cpu", "parallel_for"),
        ("cpp", "cpu", 'language="cpp"'),
        ("metal", "metal", "simdgroup"),
        ("triton", "cuda", "tl.dot"),
        ("hip@rocm", "rocm", "wavefront"),
    ],
)
def test_it_tells_the_problem_the_form_and_the_language(call, net, tmp_path, target, device, words) -> None:
    argv = ["brief", f"{net}:Net", "--target", target, "--archive", str(tmp_path / "a.sqlite"), "--json", "-"]
    code, out, err = call(*argv)
    told = json.loads(out)
    assert code == 0 and told["target"] == device
    assert [section["name"] for section in told["sections"]] == ["form", "problem", "language", "facts"]
    text = "\n".join(section["text"] for section in told["sections"])
    assert "class Net" in text and words in text and "class Net" in err


def test_sections_can_be_left_out(call, net, tmp_path) -> None:
    argv = ["brief", f"{net}:Net", "--archive", str(tmp_path / "a.sqlite"), "--without"]
    code, out, _ = call(*argv, "language,facts,form")
    assert code == 0 and "## Problem: Net" in out and "## Language" not in out and "## Machine" not in out
    code, _, err = call(*argv, "langage")
    assert code == 2 and "did you mean language?" in err
