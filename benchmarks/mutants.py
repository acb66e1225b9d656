"""How many planted bugs the judge finds, beside the check that is usual elsewhere.

    python benchmarks/mutants.py [--per-kernel 8] [--json benchmarks/results/mutants.json]

The right kernels are those of tests/cheats/honest. A mutant is one of them with one small change: a wrong axis, a
dropped term, an index off by one, a wrong identity, an epsilon, a mask that is ignored, operands swapped, a step left
out, a result rounded to fewer bits, weights kept from the first call. Mutants that do not run or return another shape
on ordinary inputs are stillborn, those that return what their parent returns are no bugs; both are left out. What a
mutant returns is compared with its parent's result on inputs of this file's own making (other scales, ties, zeros,
constant rows, NaN, changed weights), none of which the judge sees.

The usual check: five draws of the problem's own inputs, torch.allclose with 1e-4 (1e-2 in bfloat16 and float16).
The judge verifies as it does everywhere, in a sandboxed child, and times nothing.
"""

import argparse
import ast
import copy
import json
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from kernelwright import problems
from kernelwright.graph.reference import build_reference, load_text
from kernelwright.judge import JUDGE_VERSION, Gate, Judge, Settings
from kernelwright.judge.session import SessionSettings
from kernelwright.records import Candidate, Case, Problem, SourceFile, Status, Weight, flatten, unflatten
from kernelwright.targets import load_candidate, prepare

CHEATS = Path(__file__).parent.parent / "tests" / "cheats"
RANGES = {"ranged": ["f32[1..64@48,96]"]}
SETTINGS = Settings(time=False, session=SessionSettings(call_s=5.0, threads=1))


@dataclass(frozen=True)
class Mutant:
    """One changed kernel."""

    kernel: str
    kind: str
    line: int
    before: str
    after: str
    sources: tuple[SourceFile, ...]

    @property
    def title(self) -> str:
        return f"{self.kernel}:{self.line} {self.kind}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class Kernel:
    """A right kernel and the problem it is for."""

    name: str
    problem: Problem
    target: str
    sources: tuple[SourceFile, ...]

    def candidate(self, sources: tuple[SourceFile, ...]) -> Candidate:
        return Candidate("mutants", self.target, sources, label=self.name)


@dataclass
class Tally:
    """What became of all mutants."""

    stillborn: int = 0
    equal: int = 0
    bugs: list[Mutant] = field(default_factory=list)
    missed: list[Mutant] = field(default_factory=list)
    missed_usually: list[Mutant] = field(default_factory=list)
    checks: Counter[str] = field(default_factory=Counter)


def kernels() -> list[Kernel]:
    """Those of tests/cheats/honest, in their first dtype."""
    loaded: dict[str, Problem] = {}
    found = []
    for path in sorted((CHEATS / "honest").glob("*.py")):
        said = dict(re.findall(r"^# (\w+): (.*)$", path.read_text(), re.MULTILINE))
        name = said["problem"]
        if name not in loaded:
            loaded[name] = problems.load(f"{CHEATS / 'problems' / name}.py:Model", inputs=RANGES.get(name, ()))
        sources = [SourceFile("model.py", path.read_text())]
        for beside in filter(None, said.get("with", "").split(", ")):
            text = loaded[name].source if beside == "reference.py" else (path.parent / beside).read_text()
            sources.append(SourceFile(beside, text))
        found.append(Kernel(path.stem, loaded[name], said.get("target", "torch@cpu"), tuple(sources)))
    return found


def mutants(kernel: Kernel) -> Iterator[Mutant]:
    """All that this file knows to make of a kernel."""
    for place, source in enumerate(kernel.sources):
        if source.path == "reference.py":
            continue
        made = [*(_of_python(source.text) if source.path.endswith(".py") else ()), *_of_cpp(source.text)]
        for kind, line, before, after, text in made:
            changed = (*kernel.sources[:place], SourceFile(source.path, text), *kernel.sources[place + 1 :])
            yield Mutant(kernel.name, kind, line, before, after, changed)


def picked(found: Sequence[Mutant], count: int, chance: random.Random) -> list[Mutant]:
    """`count` of them, of as many kinds as there are."""
    by_kind: dict[str, list[Mutant]] = {}
    for mutant in found:
        by_kind.setdefault(mutant.kind, []).append(mutant)
    for group in by_kind.values():
        chance.shuffle(group)
    order = list(by_kind)
    chance.shuffle(order)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(by_kind.values()):
        chosen += [by_kind[kind].pop() for kind in order if by_kind[kind]]
    return chosen[:count]


def try_out(kernel: Kernel, found: Sequence[Mutant], tally: Tally, wanted: int, watch: Callable[[str], None]) -> None:
    """Takes bugs from `found` until `wanted` are there and has both checks look at them."""
    battery = Battery(kernel)
    real: list[tuple[Mutant, bool]] = []
    for mutant in found:
        if len(real) == wanted:
            break
        seen = battery.look(mutant)
        if seen is None:
            tally.stillborn += 1
        elif seen.equal:
            tally.equal += 1
        else:
            real.append((mutant, seen.usual))
    with Judge(kernel.problem, kernel.target.rpartition("@")[2], settings=SETTINGS, gate=Gate.private()) as judge:
        for mutant, passed_usually in real:
            verdict = judge.submit(kernel.candidate(mutant.sources))
            passed = verdict.status is Status.PASSED
            tally.bugs.append(mutant)
            if passed:
                tally.missed.append(mutant)
            else:
                tally.checks[verdict.failed(Weight.GATE)[0].check] += 1
            if passed_usually:
                tally.missed_usually.append(mutant)
            watch(f"{'MISSED' if passed else 'caught'} {'(usual: missed)' if passed_usually else ''} {mutant.title}")


@dataclass(frozen=True)
class Seen:
    """What a mutant returned, in short."""

    equal: bool
    """On all inputs and under all weights what its parent returns."""
    usual: bool
    """Whether the check that is usual elsewhere passes it."""


class Battery:
    """Inputs and weights on which a mutant is held against its parent; all in this process."""

    def __init__(self, kernel: Kernel) -> None:
        problem = kernel.problem
        self.kernel = kernel
        self.init_args = load_text(problem.source, problem.name).get_init_inputs()
        self.states = [problems.weights(problem, None, kind, 5) for kind in ("original", "scaled", "original")]
        self.nominal = [problems.arguments(problem, Case("nominal", seed)) for seed in range(5)]
        others = [[_changed(leaf, change) for leaf in self.nominal[0]] for change in _CHANGES]
        sizes = [problems.arguments(problem, Case("nominal", 9, (7,)))] if problem.dynamic else []
        strided = problems.arguments(problem, Case("nominal", 3, layout="strided"))
        self.inputs = [*self.nominal, *others, *sizes, strided]
        right = self._results(kernel.sources)
        assert right is not None, f"{kernel.name} itself does not run"
        self.right = right
        reference = build_reference(problem, self.states[0])
        self.expected = [self._call(reference, leaves) for leaves in self.nominal]

    def look(self, mutant: Mutant) -> Seen | None:
        """None: it does not run on ordinary inputs, or returns other shapes there."""
        results = self._results(mutant.sources)
        if results is None or not _alike(results[0], self.right[0]):
            return None
        usual = all(
            got is not None and _alike(got, expected) and all(map(_close, got, expected))
            for got, expected in zip(results, self.expected, strict=False)
        )
        return Seen(not any(map(self._unlike, range(len(results)), results)), usual)

    def _unlike(self, place: int, mine: list[torch.Tensor] | None) -> bool:
        theirs = self.right[place]
        # Strides that a kernel's contract does not name it may refuse.
        refused = mine is None and place % len(self.inputs) == len(self.inputs) - 1
        if theirs is None or refused:
            return False
        return mine is None or not _alike(mine, theirs) or any(map(_unlike, mine, theirs))

    def _results(self, sources: tuple[SourceFile, ...]) -> list[list[torch.Tensor] | None] | None:
        """For every state and every input, None where it raises; None in all where it does so on ordinary inputs."""
        results: list[list[torch.Tensor] | None] = []
        try:
            module = load_candidate(self.kernel.candidate(sources), self.init_args)
            for state in self.states:
                module.load_state_dict(state)
                prepare(module)
                for leaves in self.inputs:
                    try:
                        results.append(self._call(module, leaves))
                    except Exception:  # a mutant may raise anything
                        results.append(None)
        except Exception:  # as above
            return None
        return None if None in results[: len(self.nominal)] else results

    def _call(self, module: Any, leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        given = [torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype).copy_(leaf) for leaf in leaves]
        call = unflatten(self.kernel.problem.signature.arguments, given)
        with torch.no_grad():
            result = module(*call["args"], **call["kwargs"])
        return [leaf.clone() for leaf in flatten(result, lambda item: isinstance(item, torch.Tensor))[0]]


def _ties(leaf: torch.Tensor) -> torch.Tensor:
    return torch.round(leaf * 2) / 2


def _holes(leaf: torch.Tensor) -> torch.Tensor:
    return leaf * (torch.rand(leaf.shape, generator=torch.Generator().manual_seed(1)) < 0.3)


def _level(leaf: torch.Tensor) -> torch.Tensor:
    return leaf[..., :1].expand(leaf.shape).clone() if leaf.dim() else leaf


def _unknown(leaf: torch.Tensor) -> torch.Tensor:
    changed = leaf.clone()
    changed.view(-1)[:: max(1, leaf.numel() // 3)] = float("nan")
    return changed


_CHANGES: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda leaf: leaf * 1e-4,
    lambda leaf: leaf * 0.02,
    lambda leaf: leaf * 40.0,
    lambda leaf: leaf * 3e4,
    lambda leaf: leaf + 7.0,
    lambda leaf: -leaf.abs(),
    lambda leaf: leaf**3,
    torch.zeros_like,
    _ties,
    _holes,
    _level,
    _unknown,
)


def _changed(leaf: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    return change(leaf).to(leaf.dtype) if leaf.is_floating_point() else leaf


def _alike(mine: Sequence[torch.Tensor] | None, theirs: Sequence[torch.Tensor] | None) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    return [(item.shape, item.dtype) for item in mine] == [(item.shape, item.dtype) for item in theirs]


def _unlike(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether they differ by more than roundings do, or are NaN in other places. Where the parent is not finite, what
    it has instead is no part of the function."""
    if not mine.is_floating_point():
        return not torch.equal(mine, theirs)
    finite = torch.isfinite(theirs)
    if bool((mine.isnan() != theirs.isnan())[finite | theirs.isnan()].any()):
        return True
    scale = theirs[finite].abs().double().max() if bool(finite.any()) else torch.tensor(1.0)
    off = (mine.double() - theirs.double())[finite].abs()
    return bool((off > 100 * torch.finfo(theirs.dtype).eps * scale).any())


def _close(mine: torch.Tensor, expected: torch.Tensor) -> bool:
    slack = 1e-2 if mine.dtype in (torch.bfloat16, torch.float16) else 1e-4
    return torch.allclose(mine, expected, rtol=slack, atol=slack)


_OTHERS = {
    "amax": "amin", "amin": "amax", "maximum": "minimum", "minimum": "maximum", "sum": "mean", "mean": "sum",
    "exp": "expm1", "tanh": "sigmoid", "sigmoid": "tanh", "gelu": "relu", "silu": "relu", "relu": "gelu",
    "rsqrt": "reciprocal", "sqrt": "abs", "cumsum": "cumprod", "argmax": "argmin", "square": "abs", "triu": "tril",
    "logsumexp": "amax", "softmax": "log_softmax", "log_softmax": "softmax", "zeros": "ones", "ones": "zeros",
    "addcmul": "addcdiv", "any": "all", "count_nonzero": "sum", "scatter_add_": "scatter_", "max": "min",
}  # fmt: skip
_MASKS = ("where", "masked_fill", "masked_fill_")


def _of_python(text: str) -> Iterator[tuple[str, int, str, str, str]]:
    """(kind, line, before, after, whole text) of all one-place changes outside constructors."""
    tree = ast.parse(text)
    spared = {
        id(node)
        for item in ast.walk(tree)
        if isinstance(item, ast.FunctionDef) and item.name in ("__init__", "backward")
        for node in ast.walk(item)
    }
    inside = {
        id(node) for item in ast.walk(tree) if isinstance(item, ast.FunctionDef) for node in ast.walk(item)
    } - spared
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in inside or not isinstance(node, ast.expr):
            continue
        for kind, other in _replacements(node):
            copied = copy.deepcopy(tree)
            target = next(item for place, item in enumerate(ast.walk(copied)) if place == number)
            changed = ast.fix_missing_locations(_Swap(target, other).visit(copied))
            head = "".join(re.findall(r"^# \w+: .*\n", text, re.MULTILINE))
            yield kind, node.lineno, ast.unparse(node), ast.unparse(other), head + ast.unparse(changed)


class _Swap(ast.NodeTransformer):
    def __init__(self, target: ast.AST, other: ast.expr) -> None:
        self.target, self.other = target, other

    def visit(self, node: ast.AST) -> Any:
        return self.other if node is self.target else self.generic_visit(node)


def _replacements(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """What may stand in the place of an expression."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            yield "dropped term", left
            yield "dropped term", right
            turned = ast.Add() if isinstance(node.op, ast.Sub) else ast.Sub()
            yield "wrong sign", ast.BinOp(left, turned, right)
            if isinstance(node.op, ast.Sub):
                yield "swapped operands", ast.BinOp(right, node.op, left)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            yield "dropped factor", left
            turned = ast.Mult() if isinstance(node.op, ast.Div) else ast.Add()
            yield "wrong operator", ast.BinOp(left, turned, right)
            if isinstance(node.op, ast.Div):
                yield "swapped operands", ast.BinOp(right, node.op, left)
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            for dtype in ("half", "bfloat16"):
                yield "precision loss", ast.BinOp(_rounded(left, dtype), node.op, right)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)):
            yield "wrong axis", ast.Constant(0)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield "wrong sign", operand
        case ast.Constant(value=float(value)):
            yield (
                ("wrong epsilon", ast.Constant(100 * value))
                if 0 < value < 1e-3
                else ("wrong constant", ast.Constant(1.03 * value))
            )
            if 0 < value < 1e-3:
                yield "wrong epsilon", ast.Constant(0.0)
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            yield "off by one", ast.Constant(value + 1)
            if value > 0:
                yield "off by one", ast.Constant(value - 1)
        case ast.Compare(left=left, ops=[ast.Gt() | ast.Lt() | ast.LtE() | ast.GtE() as op], comparators=rest):
            edge = {ast.Gt: ast.GtE, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.GtE: ast.Gt}[type(op)]()
            yield "wrong bound", ast.Compare(left, [edge], rest)
            turned = ast.Lt() if isinstance(op, (ast.Gt, ast.GtE)) else ast.Gt()
            yield "wrong comparison", ast.Compare(left, [turned], rest)
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value="-inf")]):
            yield "wrong identity", ast.Constant(0.0)
        case ast.Call(func=ast.Name(id="range"), args=[size]):
            yield "short loop", ast.Call(node.func, [ast.BinOp(size, ast.Sub(), ast.Constant(1))], [])
            yield "short loop", ast.Call(node.func, [ast.Constant(1), size], [])
        case ast.Call(func=ast.Attribute(value=owner, attr=name) as func, args=args, keywords=keywords):
            if name in _OTHERS:
                yield "wrong function", ast.Call(ast.Attribute(owner, _OTHERS[name], func.ctx), args, keywords)
            module = (isinstance(owner, ast.Name) and owner.id in ("torch", "np")) or "functional" in ast.unparse(owner)
            step = args[0] if module and args else owner
            if name in _MASKS and module:
                yield "ignored mask", args[1]
            elif not (module and not args):
                yield ("ignored mask" if name in _MASKS else "missing step"), step
            if len(args) > 1 and name in ("addcmul", "addmm", "linear"):
                yield "dropped term", args[1] if name != "linear" else ast.Call(func, args[:2], keywords)
        case ast.Attribute(value=owner, attr=name) if _weight(node):
            for dtype in ("half", "bfloat16"):
                yield "precision loss", _rounded(node, dtype)
            kept = ast.Attribute(ast.Attribute(ast.Name("self"), "__dict__"), "setdefault")
            fresh = ast.Call(ast.Attribute(node, "clone"), [], [])
            yield "stale weight", ast.Call(kept, [ast.Constant(f"kept_{name}"), fresh], [])
        case ast.Name(id="x", ctx=ast.Load()):
            for dtype in ("half", "bfloat16"):
                yield "precision loss", _rounded(node, dtype)


def _weight(node: ast.Attribute) -> bool:
    return node.attr in ("weight", "bias", "gain", "gate") and ast.unparse(node).startswith("self.")


def _rounded(node: ast.expr, dtype: str) -> ast.expr:
    narrow = ast.Call(ast.Attribute(node, dtype), [], [])
    return ast.Call(ast.Attribute(narrow, "to"), [ast.Attribute(node, "dtype")], [])


# Changes of C++ text that stay within the arrays.
_CPP = (
    ("off by one", r"i < (cols|count); \+\+i", r"i < \1 - 1; ++i"),
    ("off by one", r"int64 i = 0;", r"int64 i = 1;"),
    ("off by one", r"l < k;", r"l + 1 < k;"),
    ("off by one", r"int64 l = 0;", r"int64 l = 1;"),
    ("off by one", r"int64 row = begin;", r"int64 row = begin + (begin > 0);"),
    ("off by one", r"row < end;", r"row + (end == rows) < end;"),
    ("off by one", r"i < end;", r"i + (end == n) < end;"),
    ("stale index", r"in\[i\]", r"in[i ? i - 1 : 0]"),
    ("stale index", r"x\[i\]", r"x[i ? i - 1 : 0]"),
    ("stale index", r"gain\[i\]", r"gain[0]"),
    ("wrong axis", r"w\[j \* k \+ l\]", r"w[l * n + j]"),
    ("wrong constant", r"/ cols", r"/ (cols - 1)"),
    ("wrong constant", r"0\.5f", r"0.51f"),
    ("wrong constant", r"1\.0f", r"1.01f"),
    ("wrong epsilon", r"1e-5f", r"1e-3f"),
    ("wrong epsilon", r" \+ 1e-5f", r""),
    ("wrong identity", r"float total = 0;", r"float total = 1e-3f;"),
    ("wrong identity", r"float top = in\[0\];", r"float top = 0;"),
    ("dropped term", r" - top", r""),
    ("dropped term", r" \+ y\[i\]", r""),
    ("dropped factor", r" \* gain\[i\]", r""),
    ("wrong operator", r"\+=", r"="),
    ("wrong operator", r"/=", r"*="),
    ("wrong function", r"math::tanh", r"math::exp"),
    ("wrong comparison", r"in\[i\] > top", r"in[i] < top"),
    ("precision loss", r"float total", r"half total"),
    ("precision loss", r"float lanes\[16\]", r"half lanes[16]"),
)


def _of_cpp(text: str) -> Iterator[tuple[str, int, str, str, str]]:
    if "kernel void" not in text:
        return
    for kind, pattern, other in _CPP:
        for found in re.finditer(pattern, text):
            after = found.expand(other)
            line = text.count("\n", 0, found.start()) + 1
            yield kind, line, found.group(), after, text[: found.start()] + after + text[found.end() :]


def run(wanted: int, names: Sequence[str] = (), watch: Callable[[str], None] = print) -> Tally:
    """Bugs, at most `wanted` of each kernel (of those in `names`, if any are named), before both checks."""
    torch.set_num_threads(1)
    chance = random.Random(2026)
    tally = Tally()
    for kernel in kernels():
        if names and kernel.name not in names:
            continue
        found = list(mutants(kernel))
        try_out(kernel, picked(found, 4 * wanted, chance), tally, wanted, watch)
    return tally


def main() -> None:
    """Runs all and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-kernel", type=int, default=6)
    parser.add_argument("--kernels", default="", help="names, separated by commas; all where none is given")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    began = time.monotonic()
    tally = run(
        asked.per_kernel, [name for name in asked.kernels.split(",") if name], lambda line: print(line, flush=True)
    )
    bugs, caught = len(tally.bugs), len(tally.bugs) - len(tally.missed)
    usual = bugs - len(tally.missed_usually)
    print(f"\n{bugs} bugs; {tally.stillborn} stillborn and {tally.equal} equal to their parents were left out")
    print(f"the judge:       {caught} caught, {caught / bugs:.1%}")
    print(f"the usual check: {usual} caught, {usual / bugs:.1%}")
    kinds, missed, missed_usually = (
        Counter(mutant.kind for mutant in group) for group in (tally.bugs, tally.missed, tally.missed_usually)
    )
    for kind, count in sorted(kinds.items()):
        print(f"{kind:18} {count:4} bugs, missed {missed[kind]:3}, usually {missed_usually[kind]:3}")
    for mutant in tally.missed:
        print(f"survivor: {mutant.title}")
    if asked.json:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
        told = {
            "command": f"python benchmarks/mutants.py --per-kernel {asked.per_kernel}",
            "commit": commit.stdout.strip(),
            "judge": JUDGE_VERSION,
            "torch": torch.__version__,
            "seconds": round(time.monotonic() - began),
            "bugs": bugs,
            "stillborn": tally.stillborn,
            "equal": tally.equal,
            "caught": caught,
            "caught_usually": usual,
            "caught_by": dict(tally.checks.most_common()),
            "kinds": {kind: [count, missed[kind], missed_usually[kind]] for kind, count in sorted(kinds.items())},
            "survivors": [mutant.title for mutant in tally.missed],
        }
        asked.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
