"""torch.compile(model, backend="kernelwright"): proven kernels from the archive, Inductor for the rest.

dynamo guards shapes, dtypes, modes and autocast; this file only decides who computes a graph. A graph whose region was
proven by `optimize()` is served by that kernel, and so are proven pieces of a larger graph. Everything else, and every
graph whose results need gradients, is compiled by Inductor as if the backend had not been named. Misses are logged
and noted in the archive.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from kernelwright.archive import Archive, open_archive
from kernelwright.deploy.loading import moved_well
from kernelwright.deploy.miss import note_miss
from kernelwright.deploy.mixed import Mixed, mixed
from kernelwright.deploy.served import Served
from kernelwright.errors import CaptureError, KernelwrightError
from kernelwright.graph import Capture, capture_dynamo, fit, identify
from kernelwright.records import Entry, Problem

_log = logging.getLogger("kernelwright")

Compiled = Callable[..., Any]


def kernelwright(
    graph: fx.GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None, options: Any = None
) -> Compiled:
    """What dynamo calls for each graph. `mode` and `options` go to Inductor, for what it gets to compile."""

    def inductor() -> Compiled:
        return _inductor(graph, example_inputs, mode, options)

    if torch.is_grad_enabled() and any(isinstance(value, Tensor) and value.requires_grad for value in example_inputs):
        _log.info("gradients are wanted, and no backward is proven: Inductor compiles the graph")
        return inductor()
    try:
        capture = capture_dynamo(graph, example_inputs)
    except CaptureError as error:
        _log.info("Inductor compiles the graph: %s", error)
        return inductor()
    device = _device(capture)
    with open_archive() as archive:
        served = () if capture.mutations else _served(archive, capture, device, mode, options)
        if not served:
            note_miss(archive, graph, capture, example_inputs, device)
            return inductor()
    _log.info("served by %s", ", ".join(one.title for one in served))
    # Inductor must see a graph with open sizes while dynamo knows them; one of fixed sizes may wait until it is needed.
    return _Road(graph, capture, served, inductor, inductor() if any(one.open for one in served) else None)


def _served(
    archive: Archive, capture: Capture, device: str, mode: str | None, options: Any
) -> tuple[Served | Mixed, ...]:
    """Kernels for the whole graph, else for pieces of it."""
    whole = find(archive, capture, device)
    if whole or identify(capture).dynamic_text is not None:
        return whole
    between = mixed(
        archive,
        capture,
        device,
        lambda piece: find(archive, piece, device),
        lambda graph, examples: _inductor(graph, examples, mode, options),
    )
    return (between,) if between is not None else ()


def find(archive: Archive, capture: Capture, device: str) -> tuple[Served, ...]:
    """The proven kernels that work here: the fastest one for each contract that the graph's calls may meet."""
    found: dict[str, Served] = {}
    for problem, entry in candidates(archive, capture, device):
        if problem.digest in found:
            continue
        try:
            served = Served(capture, problem, entry)
            if moved_well(problem, entry):
                found[problem.digest] = served
                if not served.open:
                    break
            else:
                _log.warning("%s is passed over: it was proven elsewhere and is wrong here", served.title)
        except KernelwrightError as error:
            _log.warning("%s of %s is passed over: %s", entry.candidate.title, problem.name, error)
    return tuple(found.values())


def candidates(archive: Archive, capture: Capture, device: str) -> list[tuple[Problem, Entry]]:
    """Proven kernels of the capture's region, those of the very sizes before those of ranges that hold them.

    A graph with open sizes is also answered, size by size, by kernels that were proven for some of them.
    """
    region = identify(capture)
    if region.dynamic_text is None:
        found = [*archive.find_region(region.digest, device)]
        found += [pair for pair in archive.dynamic_regions(device) if _fits(_open_text(pair[0]), region.text)]
    else:
        found = [
            (problem, entry)
            for problem, entry in archive.proven(device)
            if _open_text(problem) == region.dynamic_text
            or (not problem.dynamic and problem.region and _fits(region.dynamic_text, problem.region.text))
        ]
    return [(problem, entry) for problem, entry in found if problem.numerics.autocast == _autocast(device)]


def _open_text(problem: Problem) -> str:
    return problem.region.dynamic_text or "" if problem.region else ""


def _fits(open_text: str, text: str) -> bool:
    return fit(open_text, text) is not None


class _Road:
    """A served graph in the form dynamo calls, with Inductor behind it for sizes outside the proven ranges."""

    def __init__(
        self,
        graph: fx.GraphModule,
        capture: Capture,
        served: tuple[Served | Mixed, ...],
        inductor: Callable[[], Compiled],
        compiled: Compiled | None,
    ) -> None:
        self._inputs = tuple(
            (position, capture.constants.get(border.name))
            for border, position in zip(capture.inputs, capture.positions, strict=True)
        )
        # dynamo may ask for None among its results, which no capture holds.
        (asked,) = graph.graph.output_node().args
        self._asked = [value is not None for value in asked]  # type: ignore[union-attr]
        self._served = served
        self._inductor = inductor
        self._compiled = compiled

    def __call__(self, *flat: Any) -> Any:
        values: list[Any] = [constant if place is None else flat[place] for place, constant in self._inputs]
        for served in self._served:
            if served.applies(values):
                try:
                    results = iter(served(*values))
                except KernelwrightError as error:
                    self._served = tuple(other for other in self._served if other is not served)
                    _log.warning("%s is not used any more: %s", served.title, error)
                else:
                    return tuple(next(results) if asked else None for asked in self._asked)
        if self._compiled is None:
            self._compiled = self._inductor()
        return self._compiled(*flat)


def _inductor(graph: fx.GraphModule, example_inputs: Sequence[Any], mode: str | None, options: Any) -> Compiled:
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    if all(value.device.type == "cpu" for value in example_inputs if isinstance(value, Tensor)):
        try:
            get_cpp_compiler()
        except InvalidCxxCompiler:
            _log.warning("Inductor finds no C++ compiler, so the rest runs as it is (Debian: apt-get install g++)")
            return graph.forward
    settings = {**(list_mode_options(mode) if mode else {}), **(options or {})}
    return compile_fx(graph, list(example_inputs), config_patches=settings or None)  # type: ignore[return-value]


def _device(capture: Capture) -> str:
    for place in capture.graph.graph.find_nodes(op="placeholder"):
        return place.meta["val"].device.type
    return "cpu"


def _autocast(device: str) -> str | None:
    if not torch.is_autocast_enabled(device):
        return None
    return str(torch.get_autocast_dtype(device)).removeprefix("torch.")
