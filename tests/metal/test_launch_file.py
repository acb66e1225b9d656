"""Launch files say what to run, or say in one sentence what is wrong with them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelwright.errors import UsageError
from kernelwright.metal.launch_file import read_launches

GIVEN: dict[str, Any] = {"kernel": "k", "threads": [64], "group_size": [32], "arguments": []}


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "launch.json"
    path.write_text(json.dumps({**GIVEN, **changes}))
    return path


def test_arguments_by_fill_value_and_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float16))
    path = written(
        tmp_path,
        arguments=[
            {"file": "x.npy"},
            None,
            {"name": "n", "dtype": "int32", "value": 7},
            {"dtype": "float16", "shape": [2, 3], "fill": "normal", "seed": 3},
            {"shape": [3], "fill": -1.5, "expect": "x.npy"},
        ],
    )
    (launch,) = read_launches(path)
    x, free, n, normal, constant = launch.values
    assert x.dtype == np.float16 and free is None and n == np.int32(7)
    np.testing.assert_array_equal(normal, np.random.default_rng(3).standard_normal((2, 3)).astype(np.float16))
    assert constant.tolist() == [-1.5] * 3
    assert launch.arguments[4] is not None and launch.arguments[4].expected is not None


def test_bfloat16_is_a_tensor(tmp_path: Path) -> None:
    (launch,) = read_launches(written(tmp_path, arguments=[{"dtype": "bfloat16", "shape": [2], "fill": "ones"}]))
    assert str(launch.values[0].dtype) == "torch.bfloat16"


def test_groups_become_threads(tmp_path: Path) -> None:
    path = tmp_path / "l.json"
    path.write_text(json.dumps({"kernel": "k", "groups": [3, 2], "group_size": [32]}))
    assert read_launches(path)[0].threads == (96, 2)


def test_constants_by_index_and_by_name(tmp_path: Path) -> None:
    (launch,) = read_launches(written(tmp_path, constants={"0": True, "width": 4}, group_memory={"1": 64}))
    assert launch.constants == {0: True, "width": 4} and launch.group_memory == {1: 64}


def test_python_file(tmp_path: Path) -> None:
    path = tmp_path / "launch.py"
    path.write_text(
        "import numpy as np\nfrom kernelwright.metal.launch_file import Argument, Launch\n"
        "def launches():\n    return [Launch('k', (Argument(np.ones(3)),), (3,), (3,))]\n"
    )
    assert read_launches(path)[0].values[0].sum() == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"thread": 3}, "has 'thread'"),
        ({"groups": [1]}, "either threads"),
        ({"group_size": [0]}, "positive"),
        ({"kernel": None}, "names no kernel"),
        ({"arguments": [{"shape": [2], "value": 1}]}, "argument 0 needs one of"),
        ({"arguments": [{"shape": [2], "fill": "gauss"}]}, "fill is a number or one of"),
        ({"arguments": [{"shape": [2], "dtype": "floaty"}]}, "no dtype 'floaty'"),
        ({"arguments": [{"file": "none.npy"}]}, "cannot read"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_launches(written(tmp_path, **changes))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("l.json", "{", "is not JSON"),
        ("l.yaml", "", "is .json or .py"),
        ("l.py", "x = 1", "defines no function launches"),
        ("l.py", "1/0", "ZeroDivisionError"),
        ("l.py", "def launches(): return [3]", "returned a int"),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=message):
        read_launches(tmp_path / name)


@pytest.mark.parametrize(
    "changes",
    [
        {"threads": True},
        {"group_memory": [1]},
        {"constants": 3},
        {"arguments": 7},
        {"arguments": [{"shape": [-1]}]},
        {"arguments": [{"shape": "ab"}]},
        {"arguments": [{"shape": [1 << 60]}]},
        {"arguments": [{"shape": [2], "fill": "normal", "seed": "x"}]},
        {"arguments": [{"shape": [2], "tolerance": "wide"}]},
        {"arguments": [{"value": [[1], [2, 3]]}]},
        {"arguments": [{"value": "much", "dtype": "int32"}]},
        {"arguments": [{"shape": [2], "expect": 5}]},
    ],
    ids=str,
)
def test_values_of_another_type_are_told(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="launch"):
        read_launches(written(tmp_path, **changes))
