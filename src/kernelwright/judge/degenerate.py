"""Would an answer pass that has not looked? Asked once for each problem, of the answers alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelwright.judge.examination import examine
from kernelwright.judge.reference import Answer
from kernelwright.records import Case


@dataclass(frozen=True)
class Survey:
    """Which impostors pass: on the nominal cases alone, and on every case that gates."""

    nominal: tuple[str, ...]
    everywhere: tuple[str, ...]

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
        return Survey((), ())
    first_case, first = plain[0]
    impostors = {
        "zeros": [torch.zeros_like(item.own) for item in first.wanted],
        "a constant": [_constant(item.own) for item in first.wanted],
        "another input's result": [item.own for item in first.wanted],
    }
    others = [(case, answer) for case, answer in plain if case != first_case]
    nominal, everywhere = [], []
    for name, outputs in impostors.items():
        rest = others if name == "another input's result" else plain
        if not rest:
            continue
        if all(_passes(outputs, answer) for case, answer in rest if case.family == "nominal"):
            nominal.append(name)
            if all(_passes(outputs, answer) for _, answer in rest):
                everywhere.append(name)
    by_inputs = {(case.family, case.seed): answer for case, answer in plain}
    changed = [
        (by_inputs[case.family, case.seed], answer)
        for case, answer in usable
        if case.weights != "original" and (case.family, case.seed) in by_inputs
    ]
    if changed and all(_passes([item.own for item in before.wanted], after) for before, after in changed):
        everywhere.append("other weights' result")
    return Survey(tuple(nominal), tuple(everywhere))


def _constant(own: torch.Tensor) -> torch.Tensor:
    if not own.is_floating_point():
        return own.reshape(-1)[:1].expand(own.shape) if own.numel() else own
    return torch.full_like(own, float(own.double().nan_to_num(0.0, 0.0, 0.0).mean()) if own.numel() else 0.0)


def _passes(outputs: Sequence[torch.Tensor], answer: Answer) -> bool:
    if [output.shape for output in outputs] != [item.own.shape for item in answer.wanted]:
        return False
    return not any(examine(output, item).wrong for output, item in zip(outputs, answer.wanted, strict=True))
