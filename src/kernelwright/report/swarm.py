"""What each model or agent achieved and cost, and whether together they did better than the best of them alone."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from rich.table import Table

from kernelwright.plugins import members
from kernelwright.records import Call, Candidate, Status, Verdict, Weight, strict

FASTER = (1.0, 1.5, 2.0)
"""The p of fast_p: right, and more than p times as fast as the fastest baseline beside it."""


@dataclass(frozen=True)
class Attempt:
    """One candidate of one writer for one problem: its first verdict, and the one that counts."""

    writer: str
    problem: str
    device: str
    first: Verdict
    counts: Verdict

    @property
    def speedup(self) -> float:
        """Over the fastest baseline beside it; 0 where it is not right, cannot win, or has no time."""
        best = self.counts.best_baseline
        stands = self.counts.status is Status.PASSED and not self.counts.failed(Weight.BAR)
        return best.speedup if best and stands else 0.0


@dataclass(frozen=True)
class Member:
    """A writer's row, over the problems it worked at."""

    name: str
    problems: int
    attempts: int
    """Candidates judged."""
    correct_at: tuple[float, ...]
    """Share of its problems with a right candidate among its first 1, 2, ... attempts."""
    fast: tuple[float, ...]
    """Share of its problems with fast_p, for each p of FASTER."""
    confirmed: int
    """Problems on which a candidate of its was confirmed."""
    returned: float
    """Geometric mean over its problems of its best speedup, 1 where that is less: what a user would get of it alone."""
    calls: int
    tokens: int
    cost_usd: float | None
    seconds: float
    """Waiting for its answers."""


@dataclass(frozen=True)
class Ledger:
    """All rows, and the swarm against the best single one, on the problems at which all of them worked."""

    members: tuple[Member, ...]
    shared: int
    """Problems that every member worked at."""
    best_single: str
    """Whose geometric mean over the shared problems is the highest; empty where nothing is shared."""
    single: float
    swarm: float
    """The same with each problem's best of all members."""


def attempts_of(
    verdicts: Iterable[Verdict], counting: Iterable[Verdict], candidates: Mapping[str, Candidate]
) -> tuple[Attempt, ...]:
    """What people, agents and models wrote, in the order of judgement; key-less writers and baselines are left out.

    `verdicts`: all, oldest first; `counting`: of each candidate and problem the one that counts; `candidates` by
    digest.
    """
    keyless = set(members("writers", "Writer")) - {"human", "agent"} | {"regions", "given"}
    count = {(verdict.candidate, verdict.problem, verdict.target): verdict for verdict in counting}
    found: dict[tuple[str, str, str], Attempt] = {}
    for verdict in verdicts:
        candidate = candidates[verdict.candidate]
        key = (verdict.candidate, verdict.problem, verdict.target)
        if candidate.baseline or candidate.writer in keyless or key in found:
            continue
        device = verdict.target.rpartition("@")[2]
        found[key] = Attempt(candidate.writer, verdict.problem, device, verdict, count.get(key, verdict))
    return tuple(found.values())


def ledger(attempts: Sequence[Attempt], calls: Sequence[Call] = (), depth: int = 5) -> Ledger:
    """The rows, best first. `depth`: how far correct@k is told."""
    by_writer: dict[str, dict[tuple[str, str], list[Attempt]]] = defaultdict(lambda: defaultdict(list))
    for attempt in attempts:
        by_writer[attempt.writer][attempt.problem, attempt.device].append(attempt)
    for call in calls:
        by_writer[call.member]  # one that never got as far as a candidate has a row too
    rows = [
        _member(name, tasks, [call for call in calls if call.member == name], depth)
        for name, tasks in by_writer.items()
    ]
    rows.sort(key=lambda row: (-row.returned, row.name))
    working = {name: tasks for name, tasks in by_writer.items() if tasks}
    shared = set.intersection(*(set(tasks) for tasks in working.values())) if working else set()
    if not shared:
        return Ledger(tuple(rows), 0, "", 1.0, 1.0)
    alone = {name: _returned(_best(tasks[task]) for task in shared) for name, tasks in working.items()}
    best = max(alone, key=lambda name: (alone[name], name))
    together = _returned(max(_best(tasks[task]) for tasks in working.values()) for task in shared)
    return Ledger(tuple(rows), len(shared), best, alone[best], together)


def ledger_table(found: Ledger) -> Table:
    """For a terminal."""
    depth = max((len(row.correct_at) for row in found.members), default=1)
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("writer", min_width=12, overflow="fold")
    titles = ["tasks", "tries", "right@1", f"@{depth}", *(f">{p:g}x" for p in FASTER[::2]), "conf.", "geomean"]
    for title in (*titles, "tokens", "cost"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in found.members:
        shares = [row.correct_at[0], row.correct_at[-1], *row.fast[::2]] if row.problems else []
        table.add_row(
            row.name,
            str(row.problems),
            str(row.attempts),
            *([f"{share:.0%}" for share in shares] or [""] * (2 + len(FASTER[::2]))),
            str(row.confirmed),
            f"{row.returned:.2f}x",
            f"{row.tokens:,}" if row.calls else "",
            "" if row.cost_usd is None else f"${row.cost_usd:.2f}",
        )
    return table


def ledger_sentence(found: Ledger) -> str:
    """The swarm against the best single writer."""
    if not found.shared:
        return "no problem was worked at by all of them, so they cannot be compared"
    gain = found.swarm / found.single - 1
    return (
        f"on {found.shared} problems that all worked at: together {found.swarm:.2f}x, the best alone "
        f"({found.best_single}) {found.single:.2f}x: {gain:+.0%} (geometric means of the best speedup as submitted, "
        "1 where there is none)"
    )


def ledger_json(found: Ledger) -> dict[str, Any]:
    """The document of `kernelwright report --swarm --json`."""
    return strict(
        {
            "members": [
                {
                    "writer": row.name,
                    "problems": row.problems,
                    "attempts": row.attempts,
                    "correct_at": list(row.correct_at),
                    "fast": {f"{p:g}": share for p, share in zip(FASTER, row.fast, strict=True)},
                    "confirmed": row.confirmed,
                    "returned": row.returned,
                    "calls": row.calls,
                    "tokens": row.tokens,
                    "cost_usd": row.cost_usd,
                    "seconds": row.seconds,
                }
                for row in found.members
            ],
            "shared": found.shared,
            "best_single": found.best_single or None,
            "single": found.single,
            "swarm": found.swarm,
        }
    )


def _member(name: str, tasks: Mapping[Any, Sequence[Attempt]], calls: Sequence[Call], depth: int) -> Member:
    count = max(1, len(tasks))
    right = [
        sum(any(item.first.status is Status.PASSED for item in tried[:k]) for tried in tasks.values()) / count
        for k in range(1, depth + 1)
    ]
    known = [call.cost_usd for call in calls if call.cost_usd is not None]
    return Member(
        name,
        len(tasks),
        sum(map(len, tasks.values())),
        tuple(right),
        tuple(sum(_best(tried) > p for tried in tasks.values()) / count for p in FASTER),
        sum(any(item.counts.confirmed and item.speedup > 1 for item in tried) for tried in tasks.values()),
        _returned(_best(tried) for tried in tasks.values()),
        len(calls),
        sum(call.input_tokens + call.output_tokens for call in calls),
        sum(known) if known else None,
        sum(call.seconds for call in calls),
    )


def _best(tried: Collection[Attempt]) -> float:
    return max((item.speedup for item in tried), default=0.0)


def _returned(speedups: Iterable[float]) -> float:
    values = [max(1.0, speedup) for speedup in speedups]
    return geometric_mean(values) if values else 1.0
