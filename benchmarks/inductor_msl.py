"""Inductor's own Metal kernels here: `python benchmarks/inductor_msl.py CHECKOUT [options]`, CHECKOUT of KernelBench.

torch.compile's Metal generator needs no Mac: each problem is traced on tensors that have a shape, the device "mps" and
no memory, and goes through Inductor's own passes. The module that it writes is kept but for this: "mps" becomes "cpu",
torch.mps.compile_shader is kernelwright.metal's, and results of torch's own operators are brought into the strides
that they have on Metal. So its kernels run here, matrix products and convolutions are torch's own on the CPU, and the
whole is compared with eager.

Sizes are those of the checkout, made smaller by `--scale auto` where an eager call would take longer than 10 ms. One
child process a problem, one line in ROWS each; a second run goes on where the first ended and repeats only what is
not there. docs/metal-coverage.md keeps the table.
"""

import argparse
import json
import multiprocessing
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx
from torch._inductor.fx_passes import joint_graph, post_grad
from torch._inductor.graph import GraphLowering
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright import metal, problems
from kernelwright.errors import KernelwrightError
from kernelwright.graph.reference import build_reference
from kernelwright.records import Case, Problem, unflatten

HEADERS = Path(torch.__file__).parent / "include"
TOLERANCE = 1e-4
"""Of eager's largest value. KernelBench's own check adds 1e-4 as it stands, more than a long softmax has to give."""
ROUNDING = 4
"""Or the result may be so many times as far from what float64 gives as eager's own: some consist of rounding alone."""
LIMIT_S = 300
_CORES = 40
"""Of the GPU that Inductor believes it writes for, an M3 Max."""
_FOREIGN_LAYOUT = re.compile(r"assert_size_stride\((buf\d+), (\(.*?\), \(.*?\)), 'torch\.ops\.[\w.]+'\)")
"""Where a module relies on the strides that an operator's result has on Metal; on the CPU it is copied into them."""


@dataclass(frozen=True)
class Row:
    """One problem. `stage` is where it ended: "load", "inductor", "compile", "run", "values", "faults" or "right"."""

    problem: str
    stage: str
    error: str = ""
    sizes: dict[str, int] | None = None  # made smaller, by name
    kernels: int = 0
    compiled: int = 0
    foreign: tuple[str, ...] = ()  # what the module calls beside its kernels
    distance: float | None = None  # the largest difference, in units of eager's largest value


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--levels", default="1,2", help="separated by commas")
    parser.add_argument("--only", default="", help="a regular expression that the problem's name must match")
    parser.add_argument("--rows", type=Path, default=Path("inductor_msl.jsonl"), help="where rows are kept")
    parser.add_argument("--retry", action="store_true", help="repeat what did not end well")
    parser.add_argument("--check", action="store_true", help="run the kernels on the build that watches them")
    parser.add_argument("--commit", default="", help="of the checkout, for the summary")
    parser.add_argument("--json", type=Path, help="where the summary goes")
    given = parser.parse_args(argv)
    levels = [int(level) for level in given.levels.split(",")]
    wanted = [ref for ref in problems.kernelbench_problems(given.checkout, levels) if re.search(given.only, ref)]
    known = {row.problem: row for row in kept(given.rows)}
    fork = multiprocessing.get_context("fork")  # torch is imported once
    for ref in wanted:
        name = ref.partition("@")[0]
        if name in known and not (given.retry and known[name].stage != "right"):
            continue
        child = fork.Process(target=lambda ref=ref, name=name: keep(given.rows, attempt(ref, name, check=given.check)))
        child.start()
        child.join(LIMIT_S)
        if child.exitcode is None:
            child.kill()
            child.join()
            keep(given.rows, Row(name, "run", f"took longer than {LIMIT_S} s"))
        elif child.exitcode:
            keep(given.rows, Row(name, "run", f"the process ended with {child.exitcode}"))
    known = {row.problem: row for row in kept(given.rows)}
    rows = [known[name] for name in (ref.partition("@")[0] for ref in wanted) if name in known]
    print(table(rows))
    if given.json:
        given.json.write_text(summary(rows, given.commit))
    return int(any(row.stage != "right" for row in rows))


def kept(file: Path) -> list[Row]:
    """The newest row of each problem."""
    lines = file.read_text().splitlines() if file.exists() else []
    rows = [Row(**json.loads(line)) for line in lines]
    return list({row.problem: row for row in rows}.values())


def keep(file: Path, row: Row) -> None:
    with file.open("a") as rows:
        rows.write(json.dumps(asdict(row)) + "\n")
    distance = "" if row.distance is None else f" {row.distance:.1e}"
    print(f"{row.problem} {row.compiled}/{row.kernels}{distance} {row.stage} {row.error}", flush=True)


@dataclass
class Hosted:
    """Kernels as Inductor's module calls them, and what became of them."""

    check: bool
    kernels: int = 0
    compiled: int = 0
    found: tuple[str, ...] = ()

    def compile_shader(self, source: str) -> Any:
        """Takes the place of torch.mps.compile_shader, but every kernel is compiled now, called or not."""
        library: Any = metal.compile_shader(source, include_dirs=[HEADERS])
        names = dir(library)
        self.kernels += len(names)
        try:
            library.build(check=self.check, count=self.check)
        except KernelwrightError:  # which of them?
            for name in names:
                library[name].build(check=self.check, count=self.check)
                self.compiled += 1
        self.compiled = self.kernels
        return self._watched(library) if self.check else library

    def _watched(self, library: Any) -> Any:
        def call(name: str) -> Any:
            def run(*arguments: Any, **given: Any) -> None:
                report = getattr(library, name).watched(*arguments, **given)
                self.found += tuple(fault.message for fault in report.faults)

            return run

        return mock.Mock(**{name: call(name) for name in dir(library)})


def attempt(ref: str, name: str, *, check: bool) -> Row:
    hosted = Hosted(check)
    stage = "load"
    facts: dict[str, Any] = {}

    def ended(stage: str, error: str = "") -> Row:
        return Row(name, stage, error[:300], kernels=hosted.kernels, compiled=hosted.compiled, **facts)

    try:
        problem = problems.load(ref, scale="auto")
        facts["sizes"] = {constant.name: constant.used for constant in problem.constants}
        expected, flat, work = eager(problem)
        stage = "inductor"
        with generating(hosted) as written, torch.no_grad():
            compiled: Any = compile_fx(*traced(work, flat))
            facts["foreign"] = foreign(written[0])
            stage = "run"
            got = pytree.tree_leaves(compiled(*flat))
    except Exception as error:  # whatever Inductor raises is a row of the table
        stage = "compile" if hosted.compiled < hosted.kernels else stage
        lines = [line for line in str(error).splitlines() if "error" in line] or str(error).splitlines() or [""]
        return ended(stage, lines[0] if isinstance(error, KernelwrightError) else f"{type(error).__name__}: {lines[0]}")
    facts["distance"] = max(distance(a, b) for a, b in zip(got, expected, strict=True))
    if hosted.found:
        return ended("faults", f"{len(hosted.found)}: {hosted.found[0]}")
    return ended("right" if agrees(got, expected, work, flat) else "values")


def eager(problem: Problem) -> tuple[list[torch.Tensor], list[torch.Tensor], Any]:
    """What eager returns; the weights and inputs; and the module as a function of those."""
    leaves, model = problems.arguments(problem, Case()), build_reference(problem)
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}

    def work(*flat: torch.Tensor) -> Any:
        call = unflatten(problem.signature.arguments, flat[len(state) :])
        weights = dict(zip(state, flat[: len(state)], strict=True))
        return functional_call(model, weights, tuple(call["args"]), call["kwargs"])

    flat = [tensor.detach() for tensor in (*state.values(), *leaves)]
    with torch.no_grad():
        return pytree.tree_leaves(work(*flat)), flat, work


def traced(work: Any, flat: Sequence[torch.Tensor]) -> tuple[Any, list[torch.Tensor]]:
    """The graph of `work` on Metal's device, and inputs that lie there."""
    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True), Subscripts():
        inputs = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="mps") for t in flat]
        return make_fx(work)(*inputs), inputs


class Factories(TorchDispatchMode):
    """New tensors come into being on the CPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if given.get("device") is not None:
            given["device"] = torch.device("cpu")
        return func(*args, **given)


class Subscripts(TorchFunctionMode):
    """x[1:, 0] as the operators that it stands for: torch's own way asks for the device, even of a fake tensor."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.Tensor.__getitem__:
            return func(*args, **(kwargs or {}))
        x, index = args
        dim = 0
        for item in index if isinstance(index, tuple) else (index,):
            if isinstance(item, slice):
                x = torch.ops.aten.slice.Tensor(x, dim, item.start, item.stop, item.step or 1)
                dim += 1
            elif isinstance(item, int):
                x = torch.ops.aten.select.int(x, dim, item)
            else:
                return func(*args, **(kwargs or {}))
        return x


@contextmanager
def generating(hosted: Hosted) -> Iterator[list[str]]:
    """Inductor writes for Metal on a machine without it; gives the texts of the modules that it writes."""
    written: list[str] = []
    codegen, fold = GraphLowering.codegen, joint_graph.UniformValueConstantFolder.run

    def on_the_cpu(graph: GraphLowering) -> Any:
        module, kernels = codegen(graph)
        written.append(module.value)
        text = re.sub(r"(['\"])mps(:0)?\1", "'cpu'", module.value)
        module.value = _FOREIGN_LAYOUT.sub(r"\1 = torch.empty_strided(\2, dtype=\1.dtype).copy_(\1)", text)
        return module, kernels

    def folded(folder: Any, *arguments: Any) -> Any:
        with Factories():  # constants are folded by running them on one element each
            return fold(folder, *arguments)

    def on_cpu_tensors(patterns: Any) -> Any:
        return lambda device=None: patterns(torch.device("cpu"))  # they are traced once, and for no device

    with (
        config.patch(fx_graph_cache=False, compile_threads=1),
        mock.patch.object(torch._C, "_mps_get_core_count", lambda: _CORES, create=True),
        mock.patch.object(torch.backends.mps, "get_core_count", lambda: _CORES),
        mock.patch.object(torch.backends.mps, "is_available", lambda: True),
        mock.patch.object(torch.mps, "compile_shader", hosted.compile_shader),
        mock.patch.object(joint_graph, "lazy_init", on_cpu_tensors(joint_graph.lazy_init)),
        mock.patch.object(post_grad, "lazy_init", on_cpu_tensors(post_grad.lazy_init)),
        mock.patch.object(joint_graph.UniformValueConstantFolder, "run", folded),
        mock.patch.object(GraphLowering, "codegen", on_the_cpu),
    ):
        yield written


def foreign(module: str) -> tuple[str, ...]:
    """What a generated module calls that is no kernel of its own, as extern_kernels.mm, each once."""
    return tuple(sorted(set(re.findall(r"\b(extern_kernels\.\w+|torch\.ops\.\w+\.\w+)(?:\.\w+)?\(", module))))


def distance(got: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, in units of the largest expected value."""
    a, b = got.double(), expected.double()
    scale = float(b.abs().max()) or 1.0
    return float((a - b).abs().max()) / scale if a.shape == b.shape else float("inf")


def agrees(got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], work: Any, flat: Sequence[Any]) -> bool:
    pairs = list(zip(got, expected, strict=True))
    if any((a.shape, a.dtype) != (b.shape, b.dtype) for a, b in pairs):
        return False
    if all(distance(a, b) <= (TOLERANCE if b.is_floating_point() else 0) for a, b in pairs):
        return True
    with torch.no_grad():
        exact = pytree.tree_leaves(work(*(t.double() if t.is_floating_point() else t for t in flat)))
    return all(distance(a, c) <= ROUNDING * distance(b, c) for (a, b), c in zip(pairs, exact, strict=True))


def summary(rows: Sequence[Row], commit: str) -> str:
    """The rows as JSON, one a line."""
    head = {"kernelbench": commit, "torch": torch.__version__, "tolerance": TOLERANCE}
    return f'{json.dumps(head)[:-1]}, "rows": [\n' + ",\n".join(json.dumps(asdict(row)) for row in rows) + "\n]}\n"


def table(rows: Sequence[Row]) -> str:
    """A row of docs/metal-coverage.md for each level, and each failure."""
    lines = ["| level | problems | kernels | compiled | right | at v0 size |", "|---|---|---|---|---|---|"]
    for level in sorted({row.problem.split("/")[0] for row in rows}):
        mine = [row for row in rows if row.problem.startswith(f"{level}/")]
        right = sum(row.stage == "right" for row in mine)
        whole = sum(not row.sizes for row in mine)
        lines.append(
            f"| {level.removeprefix('kernelbench:level')} | {len(mine)} | {sum(row.kernels for row in mine)} "
            f"| {sum(row.compiled for row in mine)} | {right} | {whole} |"
        )
    calls = Counter(call for row in rows for call in row.foreign)
    lines.append(", ".join(f"{call} {count}" for call, count in calls.most_common()))
    lines += [f"- {row.problem} {row.stage}: {row.error}" for row in rows if row.stage != "right"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
