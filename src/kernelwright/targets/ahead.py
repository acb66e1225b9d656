"""Compiles a reference ahead of time by TorchInductor, as a process of its own: `python -m kernelwright.targets.ahead`.

It runs the user's own text, and no candidate's. It reads an order as JSON from its standard input and leaves
`model.so` and `model.json` in the order's folder. An error is the last line of its standard error. What it shares with
`exporting`, which does the same for ONNX, stands here too: `run` in the process that asks, `serve` and `capture` in the
one that is asked.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kernelwright.errors import CompileError, KernelwrightError
from kernelwright.records import Numerics, Problem, Range, Signature, decode, encode, flatten, unflatten
from kernelwright.targets import groups

PREFIX = "model."
"""Of the names that weights have in the library."""
LIBRARY, RECORD = "model.so", "model.json"
LIMIT_S = 600

MODES = ("default", "max-autotune", "freezing")
_TOLERANCE = 1e-3
"""Of the largest value: far above rounding, far below what other weights change."""


@dataclass(frozen=True)
class Order:
    """What to compile, and where to."""

    source: str
    mode: str
    signature: Signature
    numerics: Numerics
    threads: int
    folder: str
    import_paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compiled:
    """What a caller of the library must know."""

    output: str
    """records.nest template of the results over the library's outputs."""
    follows_weights: bool
    """Whether it computes with weights that are loaded later. Measured after compiling."""
    weights: str
    """Digest of the weights it was compiled with, where it follows no others."""


@dataclass(frozen=True)
class Captured:
    """A reference as one graph from tensor leaves to tensor leaves."""

    model: Any
    """The live module."""
    program: Any
    """torch.export's ExportedProgram of it, without gradients and in the problem's autocast."""
    leaves: tuple[Any, ...]
    """Of the example call."""
    output: str
    """As in Compiled."""


def run(module: str, order: Order, failure: str, environment: Mapping[str, str]) -> None:
    """Has the process `python -m module` carry out the order. Raises CompileError, which begins with `failure`."""
    child = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, **environment},
        start_new_session=True,
    )
    try:
        groups.started(child.pid)
        _, log = child.communicate(json.dumps(encode(order)), timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise CompileError(f"{failure} in {LIMIT_S} s") from None
    finally:
        if child.poll() is None:  # out of time, or interrupted: the compilers it started go with it
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if child.returncode:
        lines = log.strip().splitlines() or [f"the process ended with code {child.returncode}"]
        raise CompileError(f"{failure}: {lines[-1].removeprefix('error: ')}", log[-4000:])


def main() -> int:
    """See `serve`."""
    return serve(compile_reference)


def serve(carry_out: Callable[[Order], Any]) -> int:
    """Carries out the order on standard input and records what `carry_out` says of it, a dataclass.

    Exit code 0: done; 1: the reason is the last line of standard error.
    """
    order = decode(Order, json.load(sys.stdin))
    threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    try:
        compiled = carry_out(order)
    except KernelwrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except Exception as error:  # the compiler's and the user's code may raise anything
        words = str(error).strip().splitlines() or [""]
        print(f"error: {type(error).__name__}: {words[0]}", file=sys.stderr)
        return 1
    (Path(order.folder) / RECORD).write_text(json.dumps(asdict(compiled)))
    return 0


def _end_with(parent: int) -> None:
    """Ends this process and the compilers it started once the process that asked is gone, be it by kill -9."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.killpg(0, signal.SIGKILL)


def compile_reference(order: Order) -> Compiled:
    """Compiles the reference of `order` into its folder."""
    with capture(order) as captured:
        from torch._inductor import aot_compile  # two seconds, which a text that fails need not wait for

        work = Path(order.folder) / "work"
        options = {**_options(order.mode), "aot_inductor.output_path": str(work / LIBRARY)}
        built = aot_compile(captured.program.module(), captured.leaves, options=options)
        shutil.move(str(built), Path(order.folder) / LIBRARY)
        shutil.rmtree(work, ignore_errors=True)
    return _examined(order, captured.model, captured.output)


@contextlib.contextmanager
def capture(order: Order) -> Iterator[Captured]:
    """The reference of `order` as a graph; inside, gradients and autocast are as its user has them."""
    import torch

    from kernelwright.graph import build_reference, example_arguments

    torch.set_num_threads(order.threads)
    problem = Problem(
        "reference", order.source, _traceable(order.signature), order.numerics, import_paths=order.import_paths
    )
    model = build_reference(problem)
    args, kwargs = example_arguments(problem)
    leaves, arguments = flatten({"args": [*args], "kwargs": kwargs}, _is_tensor)
    output: list[str] = []
    flat = _flat(model, arguments, output)
    autocast = order.numerics.autocast
    context = torch.autocast("cpu", dtype=getattr(torch, autocast or "bfloat16"), enabled=autocast is not None)
    with torch.no_grad(), context:
        program = torch.export.export(flat, tuple(leaves), dynamic_shapes=_dynamic(problem.signature))
        yield Captured(model, program, tuple(leaves), output[-1])


def calling(run: Callable[[Any], Any], signature: Signature, output: str) -> Callable[..., Any]:
    """The reference's own call, made of `run`, which goes from a sequence of tensor leaves to one of results."""
    # The usual call, tensors by position and one result, must not pay for the general one.
    count = signature.arguments.count('"tensor"')
    plain = signature.arguments == flatten({"args": [*range(count)], "kwargs": {}}, _is_int)[1]
    single = json.loads(output or "null") == {"tensor": 0}

    def call(*args: Any, **kwargs: Any) -> Any:
        if plain and not kwargs:
            results = run(args)
        else:
            results = run(flatten({"args": [*args], "kwargs": kwargs}, _is_tensor)[0])
        return results[0] if single else unflatten(output, results)

    return call


def _is_int(value: Any) -> bool:
    return isinstance(value, int)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _flat(model: Any, arguments: str, output: list[str]) -> Any:
    """The model as a module from tensor leaves to tensor leaves, as Inductor's library takes and gives them.

    `output` gets the template of the results when it is called; export undoes what a module does to itself.
    """
    import torch

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
            call = unflatten(arguments, leaves)
            results, template = flatten(self.model(*call["args"], **call["kwargs"]), _is_tensor)
            output.append(template)
            return tuple(results)

    return Flat().train(model.training)


def _options(mode: str) -> dict[str, Any]:
    from torch._inductor import config, list_mode_options

    options: dict[str, Any] = {}
    if hasattr(config.aot_inductor, "check_lowerbound"):
        options["aot_inductor.check_lowerbound"] = False  # or no size of 1 would be taken where sizes are open
    if mode == "max-autotune":
        tuned = list_mode_options("max-autotune")
        options |= {name: value for name, value in tuned.items() if not name.startswith("triton.")}
    if mode == "freezing":
        options["freezing"] = True
    else:  # or weights of up to eight numbers would become literals in the code
        options["always_keep_tensor_constants"] = True
    return options


def _traceable(signature: Signature) -> Signature:
    """The signature with examples of at least 2 for open sizes: torch takes 0 and 1 for constants."""

    def size(size: int | Range) -> int | Range:
        return replace(size, example=min(2, size.high)) if isinstance(size, Range) and size.example < 2 else size

    tensors = tuple(replace(spec, shape=tuple(map(size, spec.shape))) for spec in signature.tensors)
    return replace(signature, tensors=tensors)


def _dynamic(signature: Signature) -> Any:
    from torch.export import Dim

    def leaf(shape: tuple[int | Range, ...]) -> dict[int, Any]:
        ranges = {dim: size for dim, size in enumerate(shape) if isinstance(size, Range) and size.low < size.high}
        return {dim: Dim.DYNAMIC(min=size.low, max=size.high) for dim, size in ranges.items()}  # type: ignore[operator]

    if not any(spec.dynamic for spec in signature.tensors):
        return None
    return {"leaves": tuple(leaf(spec.shape) for spec in signature.tensors)}


def _examined(order: Order, model: Any, output: str) -> Compiled:
    """Runs the library once with the weights it was compiled with and once with others."""
    import torch

    from kernelwright.targets.languages.inductor import InductorLibrary, weights_digest

    compiled = Compiled(output, True, "")
    library = InductorLibrary(Path(order.folder) / LIBRARY, compiled, order.signature)
    leaves = _drawn(order.signature)
    weights = weights_digest(model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dtype.is_floating_point:
                parameter.mul_(1.25).add_(0.01)
        call = unflatten(order.signature.arguments, leaves)
        changed, _ = flatten(model(*call["args"], **call["kwargs"]), _is_tensor)
        followed = library.run(model, leaves)
    same = all(_close(a, b) for a, b in zip(changed, followed, strict=True))
    return replace(compiled, follows_weights=same, weights="" if same else weights)


def _drawn(signature: Signature) -> list[Any]:
    """Example leaves with values that differ."""
    import torch

    generator = torch.Generator().manual_seed(0)
    leaves: list[Any] = []
    for spec in signature.tensors:
        dtype = getattr(torch, spec.dtype)
        if spec.alias_of is not None:
            leaves.append(leaves[spec.alias_of])
        elif dtype.is_floating_point or dtype.is_complex:
            leaves.append(torch.rand(spec.example_shape, generator=generator).to(dtype))
        elif dtype is torch.bool:
            leaves.append(torch.ones(spec.example_shape, dtype=dtype))
        else:
            leaves.append(torch.full(spec.example_shape, int(spec.low or 0), dtype=dtype))
    return leaves


def _close(a: Any, b: Any) -> bool:
    a, b = a.double(), b.double()
    scale = float(a.abs().max()) if a.numel() else 0.0
    return a.shape == b.shape and bool(((a - b).abs() <= _TOLERANCE * scale).all())


if __name__ == "__main__":
    sys.exit(main())
