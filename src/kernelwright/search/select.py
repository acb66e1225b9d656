"""What is tried next: pure functions from what has been judged to an order. Fashions of search land here."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernelwright.errors import UnknownNameError
from kernelwright.records import Entry, Parent, Stage, Status, Verdict, Weight
from kernelwright.writers import Standing

SHOWN = 4
"""Parents a member of a swarm is shown."""
ISLANDS = 2
MIGRATE = 3
"""Every third turn of an island's member looks at all islands."""


def counting(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Of each candidate's verdicts, oldest first, the one that counts, in the order of the candidates' first.

    As in `Archive.verdict_for`: a plain pass hides neither a confirmation nor a rejection, whenever it came.
    """
    found: dict[str, Verdict] = {}
    for verdict in verdicts:
        before = found.get(verdict.candidate)
        if before is None or _decisive(verdict) >= _decisive(before):
            found[verdict.candidate] = verdict
    return tuple(found.values())


def final(verdict: Verdict) -> bool:
    """Whether it need not be asked for again. A limit of time says little of a candidate that met a busy machine."""
    return verdict.status is not Status.TIMEOUT


def parents(entries: Iterable[Entry], limit: int = 6) -> tuple[Parent, ...]:
    """What a writer learns from: the fastest that passed, then the newest that failed; at most `limit`.

    Where a host stands in for the device nothing has a time, and the newest that passed come first.
    """
    judged = [entry for entry in entries if not entry.candidate.baseline]
    passed = sorted((entry for entry in judged if entry.verdict.status is Status.PASSED), key=_fastest_or_newest)
    failed = sorted(
        (entry for entry in judged if entry.verdict.status is not Status.PASSED),
        key=lambda entry: -entry.verdict.decided_at,
    )
    lessons = failed[: max(limit // 2, limit - len(passed))]
    chosen = passed[: limit - len(lessons)] + lessons
    return tuple(Parent(entry.candidate, entry.verdict) for entry in chosen)


def baselines(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The baselines that passed and were timed, fastest first."""
    return tuple(
        sorted((entry for entry in entries if entry.candidate.baseline and entry.verdict.timing), key=_median_us)
    )


def lead(verdict: Verdict, rivals: Sequence[Entry]) -> tuple[float, float]:
    """Speedup over the fastest of `rivals`, and its low bound, as far as it is known.

    Where the two were timed by turns, that ratio counts. A baseline that was ready only after the candidate was
    timed is reached through a baseline both were timed beside; failing that, through the two medians.
    """
    if verdict.timing is None:
        return 0.0, 0.0
    beside = {item.candidate: item for item in verdict.comparisons}
    known: list[tuple[float, float]] = []
    for rival in rivals:
        direct = beside.get(rival.candidate.digest)
        shared = [item for item in rival.verdict.comparisons if item.candidate in beside]
        if direct:
            known.append((direct.speedup, direct.low))
        elif shared:
            via = beside[shared[0].candidate]
            known.append((via.speedup / shared[0].speedup, via.low / shared[0].speedup))
        else:
            ratio = _median_us(rival) / verdict.timing.median_us
            known.append((ratio, ratio))
    return min(known, default=(1.0, 1.0))


def ranked(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Candidates that passed without a bar and were timed, largest lead over the best baseline first."""
    rivals = baselines(entries)
    fit = [
        entry
        for entry in entries
        if not entry.candidate.baseline and entry.verdict.timing and not entry.verdict.failed(Weight.BAR)
    ]
    return tuple(sorted(fit, key=lambda entry: -lead(entry.verdict, rivals)[0]))


def estimated(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Those of which the judge could estimate what their kernels take on the device that is not here, least first. What
    they compute by torch's own operators is not in the estimate."""
    told = {
        entry: number
        for entry in entries
        for finding in entry.verdict.findings
        for name, number in finding.numbers
        if (finding.check, name) == ("estimate", "estimate_us")
    }
    return tuple(sorted(told, key=lambda entry: told[entry]))


def challengers(entries: Sequence[Entry], noise: float) -> tuple[Entry, ...]:
    """Those of `ranked` that seem to beat every baseline beyond `noise` (0.02: two per cent), in the order of
    confirmation. What is sure of them does not count yet: a submission's few rounds bound a ratio loosely on a restless
    machine, and a confirmation takes as many as it needs."""
    rivals = baselines(entries)
    return tuple(entry for entry in ranked(entries) if lead(entry.verdict, rivals)[0] > 1 + noise)


def wins(verdict: Verdict, noise: float) -> bool:
    """Whether a confirmed candidate beats, beyond the noise, every baseline it was timed beside."""
    return verdict.confirmed and bool(verdict.comparisons) and all(item.low > 1 + noise for item in verdict.comparisons)


@dataclass(frozen=True)
class Choice:
    """The next turn of a swarm, before it is told as a brief."""

    member: str
    kind: str
    """"write", "revise" or "cross"."""
    parents: tuple[Parent, ...]
    """What it is shown, best first."""
    own: Parent | None
    """Its last candidate, where it is to be revised."""


def turn(standing: Standing, entries: Sequence[Entry]) -> Choice | None:
    """Who writes next and from what; None where no idle member has a turn left. Raises UnknownNameError.

    Of the idle the one with the fewest turns goes first. Strategies say what it sees:
    - best-of-swarm, the founding protocol: each member works alone, from its own attempts; then it crosses, shown the
      best of everybody, those of writers without a model included.
    - refine-best: from the second turn on, everybody starts from the best there is.
    - islands: members of an island see each other's best; every third turn everybody's.
    """
    if standing.strategy not in STRATEGIES:
        raise UnknownNameError("strategy", standing.strategy, STRATEGIES)
    allowed = standing.attempts + (standing.crossings if standing.strategy == "best-of-swarm" else 0)
    waiting = [(made, name) for name, made in standing.turns if name in standing.idle and made < allowed]
    if not waiting:
        return None
    made, member = min(waiting)
    mine = [entry for entry in entries if entry.candidate.writer == member]
    last = Parent(mine[-1].candidate, mine[-1].verdict) if mine else None
    seen = STRATEGIES[standing.strategy](standing, member, made, entries)
    if seen is None:
        return Choice(member, "revise" if last else "write", parents(mine, SHOWN), last)
    shown = _best(seen, SHOWN) or parents(seen, SHOWN)
    return Choice(member, "cross" if shown else "write", shown, None)


_Seen = Callable[[Standing, str, int, Sequence[Entry]], Sequence[Entry] | None]
"""Whose entries a member starts from in its turn; None where it goes on with its own last candidate."""


def _alone_then_crossed(standing: Standing, member: str, made: int, entries: Sequence[Entry]) -> Sequence[Entry] | None:
    return None if made < standing.attempts else entries


def _from_the_best(standing: Standing, member: str, made: int, entries: Sequence[Entry]) -> Sequence[Entry] | None:
    if made == 0:
        return None
    best = _best(entries, 1)
    # Who wrote the best, or has a failure to mend while nothing stands, goes on with its own.
    return None if not best or best[0].candidate.writer == member else entries


def _on_islands(standing: Standing, member: str, made: int, entries: Sequence[Entry]) -> Sequence[Entry] | None:
    names = sorted(name for name, _ in standing.turns)
    island = {name for place, name in enumerate(names) if place % ISLANDS == names.index(member) % ISLANDS}
    abroad = (made + 1) % MIGRATE == 0
    seen = [entry for entry in entries if abroad or entry.candidate.writer in island or entry.candidate.baseline]
    best = _best(seen, 1)
    return None if made == 0 or not best or best[0].candidate.writer == member else seen


STRATEGIES: Mapping[str, _Seen] = {
    "best-of-swarm": _alone_then_crossed,
    "refine-best": _from_the_best,
    "islands": _on_islands,
}


def _best(entries: Sequence[Entry], limit: int) -> tuple[Parent, ...]:
    """Those that stand, best first: by their lead where they are timed, the newest first where a host stands in."""
    standing = ranked(entries) or tuple(
        entry
        for entry in sorted(entries, key=lambda entry: -entry.verdict.decided_at)
        if entry.verdict.status is Status.PASSED and not entry.candidate.baseline
    )
    return tuple(Parent(entry.candidate, entry.verdict) for entry in standing[:limit])


def _decisive(verdict: Verdict) -> bool:
    return verdict.status is not Status.PASSED or verdict.stage is Stage.CONFIRM


def _fastest_or_newest(entry: Entry) -> tuple[bool, float]:
    timing = entry.verdict.timing
    return (timing is None, -entry.verdict.decided_at if timing is None else timing.median_us)


def _median_us(entry: Entry) -> float:
    assert entry.verdict.timing is not None
    return entry.verdict.timing.median_us
