"""The command line as a user meets it: exit codes, one sentence on stderr, nothing but JSON on stdout when asked."""

import json
from pathlib import Path

import pytest

VERBS = ("optimize", "judge", "bench", "report", "brief", "advise", "targets", "writers", "checks")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example_and_json(call, verb: str) -> None:
    code, out, _ = call(verb, "--help")
    assert code == 0
    assert f"Example: kernelwright {verb}" in out and "--json" in out and "The JSON" in out


def test_the_version_is_told(call) -> None:
    assert call("--version")[:2] == (0, "kernelwright 0.1.0\n")


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["optimize", "nowhere.py:Net", "--target", "cpu"], "there is no file nowhere.py"),
        (["optimize", "{file}:Missing", "--target", "cpu"], "Missing"),
        (["optimize", "{file}:Net", "--target", "cpu", "--budget", "soon"], "the budget 'soon' is not a time"),
        (["optimize", "{file}:Net", "--target", "cpuu"], "no device is called 'cpuu'; did you mean cpu"),
        (["optimize", "{file}:Net", "--target", "cpp@cpu"], "write 'cpu'"),
        (
            ["optimize", "{file}:Net", "--target", "cpu", "--writers", "eagr"],
            "no writer is called 'eagr'; did you mean eager",
        ),
        (["optimize", "{file}:Net", "--target", "cpu", "--input", "f32[2,"], "f32[2,"),
        (["optimize", "{file}:Net", "--target", "cpu", "--input", "float[2]"], "float[2]"),
        (
            ["optimize", "{file}:Net", "--target", "cpu", "--input", "f32[4,9]"],
            "was described as float32[4,9], and get_inputs() returns float32[4,8]",
        ),
        (["optimize", "{file}:Net", "--target", "cpu", "--scale", "rows=4"], "rows"),
        (["optimize", "{file}:Net", "--target", "cpu", "--autocast", "float7"], "float7"),
        (["optimize", "{file}:Net", "--target", "cpu", "--json", "{folder}"], "it is a folder"),
        (["optimize", "{file}:Net", "--target", "cpu", "--json", "{file}/x/a.json"], "net.py is no folder"),
        (["optimize", "{file}:Net", "--target", "cpu", "--out", "{file}/out"], "net.py is no folder"),
        (["optimize", "{bare}:Net", "--target", "cpu"], "get_inputs"),
        (["optimize", "{file}", "--target", "cpu"], "Net"),
        (["optimize", "{file}:nn", "--target", "cpu"], "nn"),
        (["optimize", "kernelbench:level1/1", "--target", "cpu"], "names no checkout"),
        (["optimize", "suite:sofmax", "--target", "cpu"], "softmax"),
        (["optimize", "{raises}:Net", "--target", "cpu"], "boom"),
        (["judge", "{file}:Missing", "{file}", "--target", "cpu"], "Missing"),
        (["judge", "{file}:Net", "{folder}", "--target", "cpu"], "model.py"),
        (["judge", "{file}:Net", "{file}", "--target", "cpu", "--baselines", "eagr"], "did you mean eager"),
        (["bench", "suite", "--target", "cpu", "--budget-per-problem", "0s"], "the budget '0s' is not a time"),
        (["bench", "suite", "--target", "cpu", "--writers", "templat"], "did you mean template"),
        (["bench", "suite", "--target", "cpu", "--problems", "mlp,sofmax"], "it has no sofmax"),
        (["bench", "suite", "--target", "cpu", "--out", "{file}/page.html"], "net.py is no folder"),
        (["optimize"], "give either what to make fast"),
        (["optimize", "--misses", "{folder}/none.sqlite"], "there is no archive"),
        (["judge", "{file}:Net", "absent.py", "--target", "cpu"], "cannot read the candidate absent.py"),
        (["judge", "{file}:Net", "{file}", "--target", "cpu"], "defines no class ModelNew"),
        (["bench", "everything", "--target", "cpu"], "'everything' is no source of problems"),
        (["bench", "kernelbench:nowhere", "--level", "one", "--target", "cpu"], "--level 'one' is not understood"),
        (["bench", "kernelbench:nowhere", "--target", "cpu"], "nowhere has no level1"),
        (["report", "20200101", "--archive", "{folder}/new.sqlite"], "no run is called '20200101'"),
        (["report", "--archive", "{file}"], "archive"),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, list) else "",
)
def test_bad_usage_is_one_sentence_and_exit_code_2(call, net: Path, argv: list[str], sentence: str) -> None:
    bare = net.with_name("bare.py")
    bare.write_text(net.read_text().partition("def get_init_inputs")[0])
    raises = net.with_name("boom")
    raises.write_text("class Net: pass\nraise RuntimeError('boom')\n")
    filled = [item.format(file=net, raises=raises, bare=bare, folder=net.parent) for item in argv]
    code, out, err = call(*filled)
    assert code == 2
    assert sentence in err and "Traceback" not in err
    assert err.count("\n") <= 2 and out == ""


@pytest.mark.parametrize("argv", [["optimise"], ["judge"], ["optimize", "a.py:B", "--budge", "5m"]], ids=" ".join)
def test_what_the_parser_refuses_is_exit_code_2(call, argv: list[str]) -> None:
    code, _, err = call(*argv)
    assert code == 2 and "Error" in err and "Traceback" not in err


@pytest.mark.parametrize("verb", ["targets", "writers", "checks"])
def test_listings_name_file_and_reason_and_json_stands_alone(call, verb: str) -> None:
    code, out, _ = call(verb, "--json", "-")
    assert code == 0
    rows = json.loads(out)
    assert rows and all(set(row) == {"name", "about", "file", "missing"} for row in rows)
    assert all(row["file"].endswith(".py") and row["about"] for row in rows)


def test_problems_of_the_suite_are_chosen_by_name():
    from kernelwright.app.bench import list_references

    found = list_references("suite", "1", None)
    assert list_references("suite", "1", "softmax, mlp") == ("suite:mlp", "suite:softmax") and len(found) > 50
