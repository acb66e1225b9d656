"""Which device "auto" takes: of those that are here, one that somebody proposes for and that a program runs on."""

from types import SimpleNamespace

import pytest

from kernelwright.errors import MissingError, UnknownNameError, UsageError
from kernelwright.search import choose_device, device


def target(language: str, where: str, why: str | None = None):
    return lambda: SimpleNamespace(language=language, device=where, missing=lambda: why)


def writer(*devices: str, baseline: bool = False):
    return SimpleNamespace(baseline=baseline, missing=lambda where: None if where in devices else "not for it")


@pytest.fixture(autouse=True)
def a_machine_with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [
        target("torch", "cpu"),
        target("cpp", "cpu"),
        target("torch", "cuda"),
        target("cuda", "cuda"),
        target("metal", "metal"),
        target("torch", "mps", "no Mac"),
        target("null", "null"),
    ]
    monkeypatch.setattr(device, "members", lambda *_: dict(enumerate(made)))


def test_auto_takes_the_best() -> None:
    assert choose_device() == choose_device("auto") == "cuda"
    assert choose_device("cpu") == "cpu" and choose_device("null") == "null"


def test_auto_takes_one_that_somebody_proposes_for() -> None:
    eager = writer("cpu", "cuda", baseline=True)
    assert choose_device(writers=[eager, writer("cpu")]) == "cpu"
    assert choose_device(writers=[writer("cpu"), writer("cpu", "cuda")]) == "cuda"
    assert choose_device(writers=[eager, writer()]) == "cuda"  # nobody proposes for any
    assert choose_device("cuda", writers=[writer("cpu")]) == "cuda"  # as it was asked for


def test_auto_takes_one_that_the_language_runs_on() -> None:
    assert choose_device(language="cpp") == "cpu"
    assert choose_device(language="torch") == choose_device(language="cuda") == "cuda"
    assert choose_device(language="metal") == "metal"
    assert choose_device(language="fortran") == "cuda"


def test_names_that_are_refused() -> None:
    with pytest.raises(MissingError, match="no Mac"):
        choose_device("mps")
    with pytest.raises(UsageError, match="write 'cpu'"):
        choose_device("cpp@cpu")
    with pytest.raises(UnknownNameError):
        choose_device("tpu")
