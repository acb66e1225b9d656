"""The members of the room: each is found by its name, and says what it runs on."""

import pytest

from kernelwright import plugins, targets
from kernelwright.targets.null import NullTarget


def test_targets_are_found_by_name() -> None:
    assert {"cpp@cpu", "metal@metal", "null@null", "torch@cpu", "torch@metal"} <= set(
        plugins.members("targets", "Target")
    )
    assert {"cpp", "inductor", "metal", "onnx"} <= set(plugins.members("targets.languages", "Language"))


@pytest.mark.parametrize("name", ["cpp@cpu", "null@null", "torch@cpu"])
def test_a_target_is_what_its_name_says(name: str) -> None:
    target = plugins.find("targets", "Target", name)()
    assert f"{target.language}@{target.device}" == name
    assert target.missing() is None
    assert target.facts().device == target.device


def test_the_null_target_depends_on_no_machine() -> None:
    assert not NullTarget().native
    assert NullTarget().facts().features == ()


def test_where_a_languages_kernels_run() -> None:
    import kernelwright.targets.languages.metal  # noqa: F401  # a package of this room, not to be shadowed by a name

    assert targets.devices_of("metal") == {"metal"} and targets.devices_of("cpp") == {"cpu"}
    assert targets.devices_of("inductor") == targets.devices_of("onnx") == frozenset()
