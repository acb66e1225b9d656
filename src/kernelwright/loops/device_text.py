"""Text of a Program for a GPU: each free loop of its body is a kernel over a grid, or all of it one thread's work.

A kernel takes the arrays, then `sizes` (of each array shape..., strides..., and how far apart the arrays of a batch
are, all in elements; then how many a batch has, or 1), the scalars, the words of a KwError, and `results` of 8 bytes
for each scalar returned.

Where the device's threads share fast memory that all of them can add to, two kernels have a twin which the caller may
launch instead: of a scatter one that adds into bins of each group first, and of a batch one that keeps there each
item's arrays, but for the `common` ones, which all items share. A batch whose items are free loops has a third one, in
which a group of threads works on an item.
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from kernelwright.loops.analysis import LoopPlan, analyse
from kernelwright.loops.bounds import assigned
from kernelwright.loops.device_kernel import DeviceKernel
from kernelwright.loops.dialect import GROUP, LARGEST_FLOAT32, Dialect
from kernelwright.loops.expressions import Apply, Buffer, Constant, Op, variables, walk
from kernelwright.loops.nest import Let
from kernelwright.loops.program import (
    Command,
    Index,
    Program,
    Range,
    Require,
    Return,
    commands,
    expressions,
    loads,
)
from kernelwright.loops.python.source import UnsupportedError
from kernelwright.loops.types import ScalarType


@dataclass(frozen=True)
class Launch:
    """A kernel to run over a grid of `turns` threads; without loops over one for each of the batch."""

    kernel: str
    loops: tuple[Range, ...]
    group: int = 1
    """Threads for each turn; where there are several, a launch's groups have just so many."""
    bins: str | None = None
    """Of a scatter: the array that the kernel `binned` adds to by way of shared memory."""

    nests: tuple[tuple[Range, ...], ...] = ()
    """Of a batch: the loops that a group works off for an item, one nest after the other, in the kernel `grouped`."""

    @property
    def grouped(self) -> str:
        """The twin of a batch with a group for each item, which wants shared memory for the item's arrays, each in
        multiples of 16 bytes."""
        return f"{self.kernel}_grouped"

    @property
    def binned(self) -> str:
        """The twin that takes turns in strides, GROUP threads in a group, and wants up to COPIES of the bins in their
        shared memory."""
        return f"{self.kernel}_bins"

    @property
    def staged(self) -> str:
        """The twin of a batch that is launched in groups of STAGE and wants shared memory for each item's arrays, with
        room for one item more, in multiples of 16 bytes."""
        return f"{self.kernel}_staged"


@dataclass(frozen=True)
class DeviceProgram:
    """Text, and the kernels in it in the order in which they run."""

    text: str
    launches: tuple[Launch, ...]
    fails: bool
    """Whether any kernel may tell of an error."""
    twins: bool
    """Whether there are the twins that `Launch` names."""


@cache
def device_template(dialect: Dialect) -> str:
    """What all programs of a file share."""
    folder = Path(__file__).parent / "templates"
    return "\n".join((folder / name).read_text() for name in dialect.templates)


def print_for(
    program: Program, dialect: Dialect, boundscheck: bool, batched: bool, common: frozenset[str] = frozenset()
) -> DeviceProgram:
    """The kernels, to stand after `device_template(dialect)`. `common`: arguments that all items of a batch share and
    nothing writes while it runs. Raises UnsupportedError for what the device lacks."""
    _check(program, dialect)
    steps = None if batched else _steps(program, dialect)
    if steps is None:
        kernel, launch = DeviceKernel(program, dialect, boundscheck), Launch(program.symbol, ())
        texts = [kernel.alone(launch.kernel)]
        if batched and dialect.twins and any(argument.name not in common for argument, _ in kernel.arrays()):
            texts.append(kernel.staged(launch.staged, common))
            parts = [
                (before, _nest(loop, plan, program), plan) for before, loop, plan in _steps(program, dialect) or ()
            ]
            launch = replace(launch, nests=tuple(nest for _, nest, _ in parts))
            if parts:
                texts.append(kernel.grouped(launch.grouped, common, parts))
        return DeviceProgram("\n".join(texts), (launch,), kernel.fails, len(texts) > 1)
    texts, launches, fails = [], [], False
    for number, (before, loop, plan) in enumerate(steps):
        kernel, nest = DeviceKernel(program, dialect, boundscheck), _nest(loop, plan, program)
        team = any(isinstance(command, Range) and command.cooperative for command in nest[-1].body)
        bins = plan.scatters[0][0] if len(plan.scatters) == 1 and dialect.twins and not team else None
        launch = Launch(f"{program.symbol}_{number}", nest, GROUP if team else 1, bins and bins.name.removesuffix("_"))
        texts.append(kernel.shared(launch.kernel, before, nest, plan, team=team))
        if bins is not None:
            texts.append(kernel.binned(launch.binned, before, nest, plan, bins))
        launches.append(launch)
        fails |= kernel.fails
    return DeviceProgram("\n".join(texts), tuple(launches), fails, dialect.twins)


def _check(program: Program, dialect: Dialect) -> None:
    where = f"{program.file}:{program.line}: "
    typed = [(b.name, b.type) for b in (*program.buffers, *program.locals)]
    typed += [(v.name, v.type) for v in (*program.scalars, *program.variables)]
    for name, type in typed:
        if type in dialect.refused:
            raise UnsupportedError(
                f"{where}{dialect.name} has no {type.value}, which {name.rstrip('_')} is; "
                "supported: float32 arrays with precision='float32', or target='cpu'"
            )
    for command in commands(program.body):
        for expression in expressions(command):
            for node in walk(expression):
                if node.type in dialect.refused:
                    raise UnsupportedError(
                        f"{where}{dialect.name} has no {node.type.value}, in which {program.name} computes; "
                        "supported: precision='float32', or target='cpu'"
                    )
                if isinstance(node, Apply) and node.op in dialect.missing:
                    raise UnsupportedError(
                        f"{where}{dialect.name} has no function {node.op.value}; supported: target='cpu'"
                    )
                if node.type is not ScalarType.FLOAT64 or not dialect.pairs:
                    continue
                if isinstance(node, Apply) and node.op in dialect.double_missing:
                    raise UnsupportedError(
                        f"{where}precision='double-float' has no function {node.op.value}; supported: target='cpu', "
                        "or np.float32 around its argument"
                    )
                if isinstance(node, Constant) and math.isfinite(node.value) and abs(node.value) > LARGEST_FLOAT32:
                    raise UnsupportedError(
                        f"{where}precision='double-float' has the range of float32, where {node.value!r} does not fit; "
                        "supported: target='cpu'"
                    )


def _steps(program: Program, dialect: Dialect) -> list[tuple[tuple[Command, ...], Range, LoopPlan]] | None:
    """The loops that become kernels, each with what is computed before it; None where that is not all there is."""
    plans = analyse(program)
    written = {argument.name for argument in program.arguments if argument.written}
    before: list[Command] = []
    steps = []
    for command in program.body:
        match command:
            case Let() | Index() | Require():
                if any(load.buffer.name.removesuffix("_") in written for load in loads(command)):
                    return None
                before.append(command)
            case Range():
                plan = plans.of(command)
                atomic = all(op is Op.ADD and b.type in dialect.atomics for b, op in plan.scatters)
                shared = any(buffer in program.locals for buffer, _ in plan.scatters)
                if not plan.free or plan.reductions or not atomic or shared or _uses_locals(command, plan, program):
                    return None
                steps.append((tuple(before), command, plan))
            case Return(()):
                break
            case _:
                return None
    return steps or None


def _uses_locals(loop: Range, plan: LoopPlan, program: Program) -> bool:
    """Whether the loop uses an array on the stack that is not its own."""
    own = {buffer.name for buffer in plan.locals}
    others = {buffer.name for buffer in program.locals} - own
    for command in commands(loop.body):
        buffer = getattr(command, "buffer", None)
        if isinstance(buffer, Buffer) and buffer.name in others:
            return True
        if any(load.buffer.name in others for load in loads(command)):
            return True
    return False


def _nest(loop: Range, plan: LoopPlan, program: Program) -> tuple[Range, ...]:
    """The loop, and the one that is all of its body if that is free too and always as long."""
    if len(loop.body) == 1 and isinstance(loop.body[0], Range):
        inner = loop.body[0]
        inside = analyse(program).of(inner)
        bounds = variables(inner.start) | variables(inner.stop)
        same = set(inside.scatters) <= set(plan.scatters)
        if inside.free and same and not inside.reductions and not bounds & assigned((loop,)):
            return loop, inner
    return (loop,)
