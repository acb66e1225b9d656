"""What is measured for an advice, and what is said."""

import sys
from pathlib import Path

import numpy as np
import pytest
from user_loops import axpy, operands, shuffle_mul, shuffled

from kernelwright import loops
from kernelwright.errors import MissingError, UsageError
from kernelwright.functions.advice import Advice, Row, Subject, advice_json, advise, load_subject, plot
from kernelwright.functions.advice.advising import _sentence
from kernelwright.functions.advice.whole_arrays import whole_arrays
from kernelwright.functions.arguments import given

EXAMPLE = Path(__file__).parents[2] / "examples" / "shuffle.py"


def program(function, arguments) -> loops.Program:
    return loops.parse(function, [given(value, "").type for value in arguments])


def test_a_scatter_loop_as_whole_arrays() -> None:
    arguments = operands(500)
    form = whole_arrays(program(shuffle_mul, arguments))
    assert form is not None and form.target == 3 and form.fill == 0.0
    place, value = form.rows(arguments, np.arange)
    a, b, operator, _ = arguments
    np.testing.assert_allclose(np.bincount(place, value, 127), shuffled(a, b, operator), rtol=1e-13)
    x = np.ones(4)
    assert whole_arrays(program(axpy, (x, x.copy(), 2.0))) is None


def test_everybody_is_compared_and_who_is_wrong_is_told() -> None:
    def wrong(a, b, operator, res):
        res[:] = 1.0

    def right(a, b, operator, res):
        res[:] = shuffled(a, b, operator)

    subject = Subject("shuffle_mul", shuffle_mul, lambda L: operands(L), {"numpy": right, "torch": wrong})
    found = advise(subject, "L", [300], {}, seconds=0.0)
    times = {(row.implementation, row.size): row.median_us for row in found.rows}
    for name in ("ours", "ours, unchecked", "ours, segmented", "NumPy add.at", "NumPy bincount", "NumPy, yours"):
        assert (times[name, 300] or 0) > 0, name
    reasons = {row.implementation: row.reason for row in found.rows if row.median_us is None}
    assert reasons["torch cpu"] == "it computes something else"
    assert "HIP printer" in reasons["ours, rocm"]
    assert ("Numba" in reasons) == ("numba" not in sys.modules)
    assert 0 < found.call_us < 1000 and (times["plain Python", 300] or 0) > (times["ours", 300] or 0)
    assert advice_json(found)["sentence"].startswith("Fastest is from L=300 on ")


def test_functions_of_other_forms_are_measured_where_they_can_be() -> None:
    def arguments(n: int, alpha: float):
        return np.ones(n), np.zeros(n), alpha

    found = advise(Subject("axpy", axpy, arguments, {}), "n", [10], {"alpha": 0.5}, seconds=0.0)
    reasons = {row.implementation: row.reason for row in found.rows if row.median_us is None}
    assert "define numpy_axpy in the file" in reasons["NumPy"]
    assert found.fastest(10).median_us


def _row(name: str, size: float, us: float | None, reason: str = "") -> Row:
    return Row(name, size, us, reason)


def test_the_sentence() -> None:
    rows = (
        _row("ours, factored", 943, 0.5),
        _row("Numba", 943, 2.0),
        _row("ours, factored", 1e4, 5.0),
        _row("ours, folded", 1e4, 4.0),
        _row("Numba", 1e4, 20.0),
        _row("torch cuda", 1e4, 3.0),
    )
    said = _sentence(Advice("f", "L", {}, rows, 0.1, ""))
    assert said == (
        "Fastest is from L=943 on ours, factored (0.50 us, 4.0 times as fast as Numba), from L=10000 on torch cuda "
        "(3.00 us); at L=943 the call itself is 20% of the time; a GPU wins from L=10000 on."
    )
    rows = (*rows[:5], _row("torch cuda", 1e4, None, "there is no CUDA device"))
    assert "was not measured here (there is no CUDA device)" in _sentence(Advice("f", "L", {}, rows, 0.1, ""))


def test_the_users_file() -> None:
    subject = load_subject(f"{EXAMPLE}:shuffle_mul")
    assert subject.name == "shuffle_mul" and len(subject.arguments(L=7)[2]) == 7 and not subject.given
    for reference, sentence in (
        ("nowhere.py:f", "there is no file nowhere.py"),
        (f"{EXAMPLE}:shufle_mul", "did you mean shuffle_mul"),
        (str(EXAMPLE), "is no function of a file"),
        (f"{Path(__file__).parent / 'user_loops.py'}:axpy", r"defines no `arguments\(\*\*sizes\)`"),
    ):
        with pytest.raises(UsageError, match=sentence):
            load_subject(reference)


def test_a_plot_is_drawn_or_says_what_it_needs(tmp_path: Path) -> None:
    advice = Advice("f", "L", {}, (_row("ours", 10, 1.0), _row("ours", 100, 2.0)), 0.1, "")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        with pytest.raises(MissingError, match=r"pip install 'kernelwright\[plot\]'"):
            plot(advice, tmp_path / "a.png")
    else:
        plot(advice, tmp_path / "a.png")
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
