"""Would an answer pass that has not looked? Asked once for each problem, of the answers alone."""

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelwright.home import home
from kernelwright.judge.examination import examine
from kernelwright.judge.reference import Answer
from kernelwright.records import Case, decode, encode

_OTHER_WEIGHTS = "other weights' result"
_OTHER_INPUT = "another input's result"


@dataclass(frozen=True)
class Impostor:
    """An answer that never looks at its inputs, or not at its weights, and the families of inputs it was tried on."""

    name: str
    passes: tuple[str, ...]
    """Families all of whose cases it passes; nominal is what the problem's own file draws."""
    fails: tuple[str, ...]

    @property
    def everywhere(self) -> bool:
        """Whether nothing tells it from an answer."""
        return bool(self.passes) and not self.fails

    @property
    def nominally(self) -> bool:
        """Whether the problem's own inputs do not."""
        return "nominal" in self.passes and self.name != _OTHER_WEIGHTS


@dataclass(frozen=True)
class Survey:
    """What became of every impostor, on all cases that gate."""

    impostors: tuple[Impostor, ...]

    @property
    def nominal(self) -> tuple[str, ...]:
        """Those that pass the nominal cases."""
        return tuple(item.name for item in self.impostors if item.nominally)

    @property
    def everywhere(self) -> tuple[str, ...]:
        """Those that pass every case."""
        return tuple(item.name for item in self.impostors if item.everywhere)

    @property
    def degenerate(self) -> bool:
        """Whether no family of inputs tells an impostor from an answer."""
        return bool(self.everywhere)

    @property
    def sentence(self) -> str:
        if self.everywhere:
            return f"an answer that never looks at its inputs passes every case: {', '.join(self.everywhere)}"
        if self.nominal:
            return f"on the problem's own inputs {', '.join(self.nominal)} would pass; harder inputs tell them apart"
        return "zeros, a constant, another input's result and other weights' result are all rejected"


def survey(answers: Sequence[tuple[Case, Answer]]) -> Survey:
    """`answers`: of families that gate; two nominal ones with other seeds at least, and one under other weights with
    the seed of a nominal one, where there are weights."""
    usable = [(case, answer) for case, answer in answers if answer.informative and not case.sizes]
    plain = [(case, answer) for case, answer in usable if case.weights == "original"]
    if not plain or not any(item.value.numel() for item in plain[0][1].wanted):
        return Survey(())
    first_case, first = plain[0]
    impostors = {
        "zeros": [torch.zeros_like(item.own) for item in first.wanted],
        "a constant": [_constant(item.own) for item in first.wanted],
        _OTHER_INPUT: [item.own for item in first.wanted],
    }
    others = [(case, answer) for case, answer in plain if case != first_case]
    found = [
        _impostor(
            name, [(case, _passes(outputs, answer)) for case, answer in (others if name == _OTHER_INPUT else plain)]
        )
        for name, outputs in impostors.items()
    ]
    by_inputs = {(case.family, case.seed): answer for case, answer in plain}
    changed = [
        (case, _passes([item.own for item in by_inputs[case.family, case.seed].wanted], answer))
        for case, answer in usable
        if case.weights != "original" and (case.family, case.seed) in by_inputs
    ]
    return Survey((*found, _impostor(_OTHER_WEIGHTS, changed)))


def remember(found: Survey, key: str) -> None:
    """Keeps it in home()/surveys under `key`."""
    folder = home() / "surveys"
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{key}.{os.getpid()}.{threading.get_ident()}.tmp"  # two threads may survey one problem
    made.write_text(json.dumps(encode(found), indent=1))
    made.replace(folder / f"{key}.json")


def remembered(key: str) -> Survey | None:
    """What was kept under `key`."""
    try:
        return decode(Survey, json.loads((home() / "surveys" / f"{key}.json").read_text()))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _impostor(name: str, tried: Sequence[tuple[Case, bool]]) -> Impostor:
    failed = {case.family for case, passed in tried if not passed}
    passed = {case.family for case, passed in tried} - failed
    return Impostor(name, tuple(sorted(passed)), tuple(sorted(failed)))


def _constant(own: torch.Tensor) -> torch.Tensor:
    if not own.is_floating_point():
        return own.reshape(-1)[:1].expand(own.shape) if own.numel() else own
    return torch.full_like(own, float(own.double().nan_to_num(0.0, 0.0, 0.0).mean()) if own.numel() else 0.0)


def _passes(outputs: Sequence[torch.Tensor], answer: Answer) -> bool:
    if [output.shape for output in outputs] != [item.own.shape for item in answer.wanted]:
        return False
    return not any(examine(output, item).wrong for output, item in zip(outputs, answer.wanted, strict=True))
