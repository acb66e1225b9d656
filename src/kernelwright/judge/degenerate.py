"""Would an answer pass that has not looked? Asked once for each problem, of the answers alone."""

import json
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from kernelwright.home import home
from kernelwright.judge.budget import Allowance
from kernelwright.judge.examination import examine
from kernelwright.judge.reference import Answer
from kernelwright.records import Case, decode, encode

Watch = Callable[[int, int, Case], None]
"""Hears of a case before it is asked: its number, how many there are, the case."""
_SAMPLE = 4096
_SLICE = 1 << 16
"""Elements of a result that are doubles at one time."""
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
    """What became of every impostor, on the cases that gate."""

    impostors: tuple[Impostor, ...]
    left_out: int = 0
    """Cases not asked: the time was up, or no impostor was left that they could have told from an answer."""

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
            left = f" (the time was up with {self.left_out} cases left to ask)" if self.left_out else ""
            return f"an answer that never looks at its inputs passes every case: {', '.join(self.everywhere)}{left}"
        if self.nominal:
            return f"on the problem's own inputs {', '.join(self.nominal)} would pass; harder inputs tell them apart"
        return "zeros, a constant, another input's result and other weights' result are all rejected"


class Tally:
    """Takes in one answer after the other, of families that gate: first those that Pool.survey puts first."""

    def __init__(self) -> None:
        self._tried: dict[str, list[tuple[Case, bool]]] = {}
        self._impostors: dict[str, list[torch.Tensor]] = {}
        self._twins: dict[tuple[str, int], list[torch.Tensor]] = {}

    def add(self, case: Case, answer: Answer) -> None:
        """Tries every impostor on this case."""
        if not answer.informative or case.sizes or not any(item.value.numel() for item in answer.wanted):
            return
        own = [item.own for item in answer.wanted]
        if case.weights != "original":
            if (case.family, case.seed) in self._twins:
                self._try(_OTHER_WEIGHTS, case, self._twins[case.family, case.seed], answer)
            return
        self._twins[case.family, case.seed] = own
        for name, outputs in self._impostors.items():
            self._try(name, case, outputs, answer)
        if not self._impostors:
            self._impostors = {
                "zeros": [_filled(item, 0) for item in own],
                "a constant": list(map(_constant, own)),
            }
            for name, outputs in self._impostors.items():
                self._try(name, case, outputs, answer)
            self._impostors[_OTHER_INPUT] = own

    @property
    def settled(self) -> bool:
        """Whether every impostor has been unmasked: other cases would not change what a verdict says."""
        names = [*self._impostors, *([_OTHER_WEIGHTS] if _OTHER_WEIGHTS in self._tried else [])]
        return bool(names) and all(any(not passed for _, passed in self._tried.get(name, ())) for name in names)

    def survey(self, left_out: int = 0) -> Survey:
        """What has been found so far."""
        names = [*self._impostors, _OTHER_WEIGHTS] if self._impostors else []
        return Survey(tuple(_impostor(name, self._tried.get(name, ())) for name in names), left_out)

    def _try(self, name: str, case: Case, outputs: Sequence[torch.Tensor], answer: Answer) -> None:
        self._tried.setdefault(name, []).append((case, _passes(outputs, answer)))


def conduct(
    plan: Sequence[Case],
    ask: Callable[[Case], Answer | None],
    *,
    whole: bool = False,
    until: float = math.inf,
    watch: Watch | None = None,
) -> tuple[Survey, bool]:
    """Asks the cases of `plan` in turn, the nominal ones in any case; see Judge.survey. Also whether more cases would
    change nothing that a verdict says. `until` is by time.monotonic()."""
    tally, asked = Tally(), 0
    for case in plan:
        enough = (tally.settled and not whole) or time.monotonic() > until
        if enough and case.family != "nominal":
            break
        asked += 1
        if watch:
            watch(asked, len(plan), case)
        answer = ask(case)
        if answer is not None:
            tally.add(case, answer)
    found = tally.survey(len(plan) - asked)
    return found, tally.settled or not found.left_out


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
    parts = own.reshape(-1).split(_SLICE)
    total = sum(part.double().nan_to_num(0.0, 0.0, 0.0).sum() for part in parts)
    return _filled(own, float(total) / max(own.numel(), 1))


def _filled(own: torch.Tensor, value: float) -> torch.Tensor:
    """One number everywhere, which takes the memory of one."""
    return torch.full((), value, dtype=own.dtype, device=own.device).expand(own.shape)


def _passes(outputs: Sequence[torch.Tensor], answer: Answer) -> bool:
    if [output.shape for output in outputs] != [item.own.shape for item in answer.wanted]:
        return False
    pairs = list(zip(outputs, answer.wanted, strict=True))
    if any(_wrong_in_a_sample(output, item) for output, item in pairs):
        return False
    return not any(examine(output, item).wrong for output, item in pairs)


def _wrong_in_a_sample(output: torch.Tensor, wanted: Allowance) -> bool:
    """Whether some of a few elements are wrong, as most of an impostor's are: then all of them need no look."""
    if wanted.choice is not None or not wanted.value.is_floating_point():
        return False
    step = max(1, output.numel() // _SAMPLE)
    got, value, allowed = (item.reshape(-1)[::step] for item in (output, wanted.value, wanted.allowed))
    close = torch.isfinite(value) & torch.isfinite(got)
    return bool((close & ((got.double() - value).abs() > allowed)).any())
