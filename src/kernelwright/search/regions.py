"""A module too large for one problem: its heavy pieces are searched one by one, and stitched together again."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelwright.errors import CaptureError, KernelwrightError
from kernelwright.records import Brief, Candidate, Entry, Event, EventKind, Outcome, Problem
from kernelwright.search import select
from kernelwright.search.bench import WriterBench
from kernelwright.search.journal import Watch
from kernelwright.search.threads import DaemonThreads
from kernelwright.writers import Bench

if TYPE_CHECKING:
    from torch import Tensor, nn

    from kernelwright.graph import Capture, Piece

_log = logging.getLogger("kernelwright")

LIMIT = 200
"""Operators of a graph that is searched as a whole alone. BERT's twelve layers have 293: tuning all of their kernels in
one candidate takes minutes, one layer takes seconds and serves all twelve."""

HEAVY = 0.05
"""Pieces with a smaller share of the time are left as they are: 5 % is all that could be won."""

SHARE = 0.6
"""Of the time that is left, for the pieces; the rest judges the whole."""

LEAST_S = 20.0
"""A piece needs time for its baselines; less is not begun."""


def too_large(problem: Problem) -> bool:
    """Whether the problem is searched by its pieces as well."""
    return problem.region is not None and problem.region.operators > LIMIT


SearchPiece = Callable[[Problem, Mapping[str, "Tensor"], float, Watch, threading.Event], Outcome]
"""(problem, weights, budget in seconds, watch, stop) -> outcome; ends early, confirming nothing, when `stop` is set."""

_TOLD = (EventKind.JUDGED, EventKind.REUSED, EventKind.CONFIRMED, EventKind.FAILED)
"""What of a piece's search is told in the search for the whole."""


class RegionsWriter:
    """Cuts the graph at its waists, searches each distinct heavy piece, and proposes the whole with what won.

    Lives here and not among the writers, since it stands on the search itself.
    """

    name = "regions"
    baseline = False

    def __init__(self, search: SearchPiece, weights: Mapping[str, "Tensor"] | None, limit: int = LIMIT) -> None:
        self._search_piece, self._weights, self._limit = search, weights, limit

    def missing(self, target: str) -> str | None:
        return None if target == "cpu" else f"regions are profiled on the CPU only, not on {target}"

    async def write(self, brief: Brief, bench: Bench) -> None:
        from kernelwright.graph import build_reference, capture_problem, partition

        note = bench.tell if isinstance(bench, WriterBench) else _log.info
        until = time.monotonic() + brief.budget_s
        try:
            whole = capture_problem(brief.problem)
            pieces = partition(whole, self._limit)
        except CaptureError as error:
            note(f"cannot be cut: {error}")
            return
        module = build_reference(brief.problem, self._weights)
        shares = profile(whole, pieces, module, brief.problem)
        heavy = [digest for digest, share in shares.items() if share >= HEAVY]
        note(f"{len(pieces)} pieces, {len(shares)} of them distinct; searching {_told(heavy, shares)}")
        held: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
        held |= dict(module.named_buffers(remove_duplicate=False))
        first = {piece.region.digest: piece for piece in reversed(pieces)}
        served: dict[str, Entry] = {}
        time_left = (until - time.monotonic()) * SHARE
        for place, digest in enumerate(heavy):
            waiting = sum(shares[other] for other in heavy[place:])
            budget_s = max(LEAST_S, time_left * shares[digest] / waiting)
            if budget_s > until - time.monotonic():
                note(f"no time for {len(heavy) - place} pieces")
                break
            begun = time.monotonic()
            name = f"piece {place + 1} of {len(heavy)}"
            note(f"{name}, {shares[digest]:.0%} of the time: searching for {budget_s:.0f} s")
            problem = first[digest].problem(f"{brief.problem.name} piece {place + 1}", brief.problem)
            outcome = await self._search(problem, first[digest].state(held), budget_s, note, name)
            time_left = max(0.0, time_left - (time.monotonic() - begun))
            note(f"{name}: {outcome.reason if outcome else 'not searched'}")
            if outcome and (entry := outcome.best or _ahead(outcome)):
                served[digest] = entry
        if served:
            await bench.submit(self._stitched(brief, whole, pieces, served))

    async def _search(
        self,
        problem: Problem,
        weights: Mapping[str, "Tensor"],
        budget_s: float,
        note: Callable[[str], None],
        name: str,
    ) -> Outcome | None:
        def watch(event: Event, entry: Entry | None) -> None:
            if event.kind in _TOLD:
                note(f"{name}: {event.message}")

        stop = threading.Event()
        threads = DaemonThreads(1, "kernelwright-region")
        try:
            return await asyncio.wrap_future(
                threads.submit(self._search_piece, problem, weights, budget_s, watch, stop)
            )
        except KernelwrightError as error:
            note(f"{problem.name} cannot be searched: {error}")
            return None
        finally:
            stop.set()
            threads.close()

    def _stitched(
        self, brief: Brief, whole: "Capture", pieces: "Sequence[Piece]", served: Mapping[str, Entry]
    ) -> Candidate:
        from kernelwright.graph import stitch

        winners = {digest: entry.candidate for digest, entry in served.items()}
        languages = {candidate.target.partition("@")[0] for candidate in winners.values()}
        language = min(languages - {"torch"}, default="torch")
        gains = [f"{entry.candidate.title} at {_speedup(entry):.2f}x" for entry in served.values()]
        return Candidate(
            self.name,
            f"{language}@{brief.target}",
            stitch(whole, pieces, winners, brief.problem.source),
            label=f"{sum(piece.region.digest in winners for piece in pieces)} of {len(pieces)} pieces",
            parents=tuple(candidate.digest for candidate in winners.values()),
            note="pieces served by " + ", ".join(gains),
        )


def profile(
    whole: "Capture", pieces: "Sequence[Piece]", module: "nn.Module", problem: Problem, runs: int = 3
) -> dict[str, float]:
    """The share (0 to 1) of the eager time that all pieces of one region take together, largest first."""
    import torch
    from torch import fx

    from kernelwright.problems import arguments
    from kernelwright.records import Case

    took: dict[Any, float] = {}
    aten = torch.ops.aten

    class Timed(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            begun = time.perf_counter()
            try:
                return super().run_node(n)
            finally:
                took[n] = min(took.get(n, float("inf")), time.perf_counter() - begun)

        def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            # real kernels may choose other strides than their fakes did; a view that has none then is a copy
            return super().call_function(aten.reshape.default if target is aten.view.default else target, args, kwargs)

    leaves = arguments(problem, Case())
    held = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    values = []
    for border, position in zip(whole.inputs, whole.positions, strict=True):
        if border.role == "constant":
            values.append(whole.constants[border.name])
        else:
            values.append(held[border.name] if position is None else leaves[position])
    with torch.no_grad():
        for _ in range(runs):
            Timed(whole.graph).run(*values)
    shares: dict[str, float] = {}
    total = sum(took[node] for piece in pieces for node in piece.nodes) or 1.0
    for piece in pieces:
        mine = sum(took[node] for node in piece.nodes) / total
        shares[piece.region.digest] = shares.get(piece.region.digest, 0.0) + mine
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _ahead(outcome: Outcome) -> Entry | None:
    """The best that passed and seems faster. The whole is judged and confirmed as well, and decides."""
    rivals = select.baselines(outcome.entries)
    for entry in select.ranked(outcome.entries):
        return entry if select.lead(entry.verdict, rivals)[0] > 1 else None
    return None


def _told(heavy: Sequence[str], shares: Mapping[str, float]) -> str:
    return f"{len(heavy)} that take {sum(shares[digest] for digest in heavy):.0%} of the time"


def _speedup(entry: Entry) -> float:
    best = entry.verdict.best_baseline
    return best.speedup if best else 1.0
