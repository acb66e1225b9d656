import pytest

from kernelwright.errors import UsageError
from kernelwright.search.budget import Deadline, parse


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20", 20),
        ("90s", 90),
        ("5m", 300),
        ("5min", 300),
        ("1h", 3600),
        ("1m30s", 90),
        ("0.5h", 1800),
        (12, 12),
        (2.5, 2.5),
    ],
)
def test_a_budget_is_read_as_people_write_it(text: str | float, seconds: float) -> None:
    assert parse(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5x", "-3m", "0", "m", "5m3h", float("inf"), float("nan")])
def test_what_is_no_time_is_refused_with_examples(text: str | float) -> None:
    with pytest.raises(UsageError, match=r'"90s", "5m", "1h"'):
        parse(text)


def test_a_deadline_never_has_less_than_nothing_left() -> None:
    assert Deadline(0.0).left_s == 0.0
    assert 9 < Deadline(10.0).left_s <= 10
