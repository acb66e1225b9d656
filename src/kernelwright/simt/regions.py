"""Cuts an entry where its threads wait: in LLVM assembly, the code between two waits becomes a loop over lanes.

A region is what a thread may run from one wait (or its start) to the next. It becomes a function of one lane that ends
by telling at which wait the lane now stands; a step runs it for the lanes that met. Nothing is assumed of where lanes
go: runtime/regions.cpp looks where each stands, as fibers would. What lives across a wait is kept in an array over the
lanes of a SIMD group; what is cheap and the same whenever it is asked is computed anew.

Lanes of a SIMD group in a row are the usual case: their loop has a constant count, their places follow each other, and
no lane needs what another one wrote, since they would have had to wait for it. So it can become vector code.

A loop within a region would keep a loop over lanes from that. So regions of lanes in a row end at pauses, too, where a
loop begins a turn: then a turn is a loop over lanes. Whole numbers and pointers that are found to be the same in all of
them there are handed on as one, so that addresses follow each other. Where they differ, or lanes part, each lane runs
through all its pauses.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from kernelwright.simt import assembly
from kernelwright.simt.control_flow import NAME, Line, NotUnderstood
from kernelwright.simt.layout import Types
from kernelwright.simt.pieces import Pieces
from kernelwright.simt.steps import PARAMETERS, step

_BODY = re.compile(r"@simt_run_fibers\(ptr [^,]*, ptr [^,]*, ptr (?:\w+ )*(@[\w.$-]+)\)")
_BRANCH = re.compile(r"br i1 (%[\w.-]+), label (%\S+), label (?!\2$)")
_HARMLESS = re.compile(r"load (?!volatile|atomic)|(?:tail )?call .*@llvm\.(?:fma|fabs|[us](?:min|max)|threadlocal)\b")
_SCOPED = re.compile(r"!(?:noalias|alias\.scope)\b")
_FEW_ACCESSES = 3
_MANY_WAITS = 48
"""Of an entry whose lanes run one by one: loops over them would take four times as long to compile."""
_MOST_PAUSED_LINES = 6_000
"""With pauses an entry is up to twice as long, and takes that much longer to compile."""
_MOST_LINES = 60_000
"""Regions share code: many waits in one loop that many branches leave would grow without end."""


def cut(text: str, indices: Iterable[int], width: int) -> tuple[str, set[int]]:
    """The module with entries run by regions where they can be, and which these are."""
    done, calls = set[int](), assembly.references(text)
    for index in indices:
        try:
            text = _cut(text, index, width, calls)
        except NotUnderstood:
            continue
        done.add(index)
    return text + _ENDING if done else text, done


_ENDING = """
declare void @simt_run_regions(ptr, ptr, ptr)
declare void @simt_complete_products(ptr, ptr, i32, i32, i32, i64)
attributes #9001 = { alwaysinline }
attributes #9002 = { noinline }
!90000 = distinct !{}
!90001 = !{!"llvm.loop.parallel_accesses", !90000}
!90002 = distinct !{!90002, !"simt"}
!90003 = distinct !{!90003, !90002, !"kept"}
!90004 = distinct !{!90004, !90002, !"launch"}
!90005 = !{!90003}
!90006 = !{!90004}
!90007 = !{!90003, !90004}
"""
# Said of each access and not of parameters: those become calls of the optimiser's own when a region is put in, and a
# loop with a call in it counts as one whose turns may need each other.
_KEPT = ", !alias.scope !90005, !noalias !90006"
_GIVEN = ", !alias.scope !90006, !noalias !90005"
_OTHER = ", !noalias !90007"


def _cut(text: str, index: int, width: int, calls: dict[str, frozenset[str]]) -> str:
    runner = _function(text, f"simt_fiber_{index}")
    body = _BODY.search(runner)
    if not body:
        raise NotUnderstood("no body")
    name = body[1][1:]
    others = set[str]().union(*(assembly.reached(calls, other) for other in calls.get(name, ()) if other != name))
    if name in others or any(assembly.waits(calls[other]) for other in others if other in calls):
        raise NotUnderstood("a function that is not put in waits")
    thread = _function(text, name)
    if re.search(r"^%\d+ = type ", text, re.MULTILINE):
        raise NotUnderstood("a type without a name")
    types = Types(text.splitlines())
    made = _Writer(Pieces(thread.splitlines(), index, width, types, pauses=True)).text()
    if made.count("\n") > _MOST_PAUSED_LINES:
        made = _Writer(Pieces(thread.splitlines(), index, width, types, pauses=False)).text()
    changed = runner.replace("@simt_run_fibers(", "@simt_run_regions(").replace(body[1], f"@simt.body.{index}")
    return text.replace(runner, changed) + "\n" + made


def _function(text: str, name: str) -> str:
    match = re.search(rf"^define [^@]*@{re.escape(name)}\(.*?^}}$", text, re.MULTILINE | re.DOTALL)
    if not match:
        raise NotUnderstood(f"{name} is not there")
    return match[0]


class _Writer:
    """Writes an entry's regions, a step for each, and the table of both."""

    def __init__(self, of: Pieces) -> None:
        self._of = of
        self._many = len(of.waits) > _MANY_WAITS

    def text(self) -> str:
        made, steps = [], []
        for state, start in enumerate([0, *(self._of.pieces[n].after or 0 for n in self._of.waits)]):
            decided = not self._many and self._decided(start)
            made += self._region("region", state, start)
            short = not self._many and self._within(start) != self._within(start, through=True)
            alike = self._alike(state) if short else []
            if short:
                made += self._region("turn", state, start, alike)
            if decided:
                made += self._decision(state, start, alike)
                made += self._region("decided", state, start, alike)
            made += self._step(state, decided, short, alike)
            steps.append(f"ptr @simt.step.{self._of.index}.{state}")
            if len(made) > _MOST_LINES:
                raise NotUnderstood("too many regions")
        kinds = [0, *map(self._kind, self._of.waits)]
        name, count = f"simt.body.{self._of.index}", len(steps)
        return "\n".join(
            [
                *made,
                f"@{name}.steps = private constant [{count} x ptr] [{', '.join(steps)}]",
                f"@{name}.kinds = private constant [{count} x i8] [{', '.join(f'i8 {kind}' for kind in kinds)}]",
                f"@{name} = private constant {{ ptr, ptr, i64 }} "
                f"{{ ptr @{name}.steps, ptr @{name}.kinds, i64 {self._of.kept_bytes} }}",
                "",
            ]
        )

    def _kind(self, n: int) -> int:
        """As runtime/regions.cpp names it."""
        wait = self._of.pieces[n].wait
        assert wait
        return 3 if wait.pause else 2 if wait.barrier else 1

    def _alike(self, state: int) -> list[str]:
        """Whole numbers and pointers kept at a pause that may well be the same in all lanes."""
        if not state or not self._of.pauses(self._of.waits[state - 1]):
            return []
        after = self._of.pieces[self._of.waits[state - 1]].after
        assert after is not None
        return sorted(
            name
            for name in self._of.across[after]
            if self._of.slots[name][1] in ("i32", "i64", "ptr") and self._of.sources(name) <= {"memory"}
        )

    def _decided(self, start: int) -> bool:
        """Whether a region begins with a branch that all lanes may well take alike, as those at an edge of the data.

        Then one loop for each way has no branch left there, and may be better code. Not worth it for a few accesses,
        nor where lanes are told apart by their number alone.
        """
        piece = self._of.pieces[start]
        match = _BRANCH.match(piece.lines[-1].text) if piece.lines and not piece.wait else None
        if not match:
            return False
        written = False
        for item in piece.lines[:-1]:
            if item.result in self._of.same:
                continue
            if item.word in ("atomicrmw", "cmpxchg", "fence", "phi"):
                return False
            if item.word in ("load", "call") and (written or not _HARMLESS.match(item.body)):
                return False
            written = written or item.word == "store"
        rest = self._within(start) - {start}
        accesses = sum(item.word in ("load", "store") for n in rest for item in self._of.pieces[n].lines)
        return accesses >= _FEW_ACCESSES and self._of.sources(match[1]) - {"lane"} - {"first"} != set()

    def _decision(self, state: int, start: int, alike: list[str]) -> list[str]:
        """A function that tells which way the first branch of a region goes for a lane."""
        lines = self._of.pieces[start].lines
        match = _BRANCH.match(lines[-1].text)
        assert match
        given = "".join(f", {self._of.slots[name][1]} {name}" for name in alike)
        out = [f"define internal i1 @simt.way.{self._of.index}.{state}({PARAMETERS}{given}) {self._of.attributes} {{"]
        out += ["simt.begin:", *("  " + item for item in self._computed({start}))]
        for name in sorted((self._of.across[start] if state else set()) & self._of.uses[start] - {*alike}):
            out += self._kept(name, name)
        out += [f"  {item.text}" for item in lines if item.result and item.result not in self._of.same]
        return [*out, f"  ret i1 {match[1]}", "}", ""]

    def _region(self, kind: str, state: int, start: int, alike: Sequence[str] = ()) -> list[str]:
        """A function that runs a lane from `start` to its next wait.

        `kind`: a "region" goes through pauses, a "turn" ends at them and is given what is `alike` in all lanes, and so
        is one that is "decided", which is told the way of its first branch.
        """
        through, decided = kind == "region", kind == "decided"
        within = self._within(start, through=through)
        defined = set().union(*(self._of.defines[n] for n in within))
        used = set().union(*(self._of.uses[n] for n in within))
        for n in within:
            for m in self._of.pieces[n].following:
                used |= self._of.into(self._of.pieces[n], self._of.pieces[m])
        begins = self._of.across[start] if state else set()
        loaded = sorted(begins & (used | defined))
        changing = [name for name in loaded if name in defined]
        targets = {name: f"{name}.simt.kept" if name in changing else name for name in loaded}
        given = [f", {self._of.slots[name][1]} {targets.get(name, f'{name}.simt.kept')}" for name in alike]
        given += [", i1 %simt.way"] if decided else []
        out = [
            f"define internal i16 @simt.{kind}.{self._of.index}.{state}({PARAMETERS}{''.join(given)}) "
            f"{self._of.attributes} {{",
            "simt.begin:",
        ]
        out += [f"  {name}.simt.held = alloca {self._of.slots[name][1]}" for name in changing]
        out += ["  " + item for item in self._computed(within)]
        for name, target in targets.items():
            if name not in alike:
                out += self._kept(name, target)
            if name in changing:
                out.append(f"  store {self._of.slots[name][1]} {target}, ptr {name}.simt.held")
        out.append(f"  br label {self._of.pieces[start].label}")
        held = set(changing)
        for n in (m for m in self._of.order if m in within):
            piece = [*self._piece(n, within, held, through=through)]
            if decided and n == start:
                piece[-1] = re.sub(r"br i1 [^,]+,", "br i1 %simt.way,", piece[-1])
            out += piece
        return [*out, "}", ""]

    def _within(self, start: int, *, through: bool = False) -> set[int]:
        """The pieces of a region, those behind pauses among them where it goes `through`."""
        seen, waiting = {start}, [start]
        while waiting:
            piece = self._of.pieces[waiting.pop()]
            beyond = [piece.after] if through and piece.wait and piece.wait.pause and piece.after is not None else []
            for m in (*piece.following, *beyond):
                if m not in seen:
                    seen.add(m)
                    waiting.append(m)
        return seen

    def _computed(self, within: set[int]) -> list[str]:
        """The lines of what is computed anew here, each after what it needs."""
        out: list[str] = []
        done: set[str] = set()
        texts = [item.body for n in within for item in self._of.pieces[n].lines if item.result not in self._of.same]
        work = [name for text in texts for name in NAME.findall(text) if name in self._of.same]
        work.sort(reverse=True)
        while work:
            name = work[-1]
            needs = [
                other
                for other in NAME.findall(self._of.same[name].text)
                if other != name and other in self._of.same and other not in done
            ]
            if name not in done and needs:
                work += needs
                continue
            work.pop()
            if name not in done:
                done.add(name)
                again = self._of.same[name]
                out.append(again.text + (_GIVEN if again.word == "load" and not _SCOPED.search(again.text) else ""))
        return out

    def _place(self, name: str, target: str) -> tuple[list[str], str, str]:
        offset, kind = self._of.slots[name]
        stored = "i8" if kind == "i1" else kind
        lines = [
            f"  {target}.lane = zext nneg i32 %simt.lane to i64",
            f"  {target}.all = getelementptr inbounds nuw i8, ptr %simt.kept, i64 {offset}",
            f"  {target}.at = getelementptr inbounds nuw {stored}, ptr {target}.all, i64 {target}.lane",
        ]
        return lines, kind, stored

    def _kept(self, name: str, target: str) -> list[str]:
        lines, kind, stored = self._place(name, target)
        if kind == stored:
            return [*lines, f"  {target} = load {kind}, ptr {target}.at{_KEPT}"]
        byte = f"  {target}.byte = load i8, ptr {target}.at{_KEPT}"
        return [*lines, byte, f"  {target} = trunc i8 {target}.byte to i1"]

    def _keep(self, name: str, value: str, target: str) -> list[str]:
        lines, kind, stored = self._place(name, target)
        if kind == stored:
            return [*lines, f"  store {kind} {value}, ptr {target}.at{_KEPT}"]
        byte = f"  store i8 {target}.byte, ptr {target}.at{_KEPT}"
        return [*lines, f"  {target}.byte = zext i1 {value} to i8", byte]

    def _piece(self, n: int, within: set[int], held: set[str], *, through: bool) -> Iterator[str]:
        piece = self._of.pieces[n]
        yield f"{piece.label[1:]}:"
        after_phis: list[str] = []
        phis = True
        for number, item in enumerate(piece.lines):
            if item.result in self._of.same:
                continue
            if item.word == "phi":
                yield f"  {self._phi(item, n, within, held)}"
                if item.result in held:
                    after_phis.append(f"  store {item.type} {item.result}.simt.new, ptr {item.result}.simt.held")
                continue
            if phis:
                phis = False
                yield from after_phis
            last = piece.wait is None and number == len(piece.lines) - 1
            if last:
                yield from self._handed_on(n, held)
            yield from self._instruction(item, f"{piece.label}.simt.{number}", held, last)
        if phis:
            yield from after_phis
        if piece.wait and piece.wait.pause and through:
            assert piece.after is not None
            yield f"  br label {self._of.pieces[piece.after].label}"
        elif piece.wait:
            assert piece.after is not None
            state = self._of.state[n]
            defined = set().union(*(self._of.defines[m] for m in within))
            for name in sorted(self._of.across[piece.after] & defined):
                target = f"{name}.simt.{state}"
                value = name
                if name in held:
                    yield f"  {target}.now = load {self._of.slots[name][1]}, ptr {name}.simt.held"
                    value = f"{target}.now"
                yield from self._keep(name, value, target)
            yield f"  ret i16 {state}"

    def _phi(self, item: Line, n: int, within: set[int], held: set[str]) -> str:
        taken = []
        for value, label in item.incoming:
            before = self._of.last_number[label]
            if before not in within or n not in self._of.pieces[before].following:
                continue
            if value in held:
                value = f"{value}.simt.to.{n}.{before}"
            taken.append(f"[ {value}, {self._of.last[label]} ]")
        head = item.body[: item.body.index("[ ")] if item.body.count("[ ") else item.body
        result = f"{item.result}.simt.new" if item.result in held else item.result
        return f"{result} = {head}{', '.join(taken)}"

    def _handed_on(self, n: int, held: set[str]) -> Iterator[str]:
        """What phis behind this piece take of values that change within the region."""
        piece = self._of.pieces[n]
        for m in piece.following:
            for name in sorted(self._of.into(piece, self._of.pieces[m]) & held):
                yield f"  {name}.simt.to.{m}.{n} = load {self._of.slots[name][1]}, ptr {name}.simt.held"

    def _instruction(self, item: Line, label: str, held: set[str], last: bool) -> Iterator[str]:
        body = item.body
        for number, name in enumerate(sorted(self._of.values(body) & held)):
            read = f"{label}.{number}"
            yield f"  {read} = load {self._of.slots[name][1]}, ptr {name}.simt.held"
            body = NAME.sub(lambda match, name=name, read=read: read if match[0] == name else match[0], body)
        if item.word in ("load", "store") and not _SCOPED.search(body):
            body += _OTHER
        if last and item.word == "ret":
            yield "  ret i16 0"
        elif last:
            yield f"  {body}"
        elif item.result in held:
            yield f"  {item.result}.simt.new = {body}"
            yield f"  store {item.type} {item.result}.simt.new, ptr {item.result}.simt.held"
        else:
            yield f"  {item.result} = {body}" if item.result else f"  {body}"

    def _step(self, state: int, decided: bool, short: bool, alike: list[str]) -> list[str]:
        """Lets lanes meet at a wait, then runs what follows for each of them."""
        of = self._of
        wait = of.pieces[of.waits[state - 1]].wait if state else None
        complete = wait.complete if wait else ""
        meet = f"call void {complete}(ptr %simt.simd, i64 LANES)" if complete else ""
        if complete.startswith("products "):
            _, area, rest = complete.split(" ", 2)
            meet = f"{of.same[area].text}\n  call void @simt_complete_products(ptr {area}, {rest}, i64 LANES)"
        same = [of.slots[name] for name in alike]
        return step(of.index, state, of.width, of.attributes, meet, not self._many, decided, short, same)
