"""Cuts an entry where its threads wait: in LLVM assembly, the code between two waits becomes a loop over lanes.

A region is what a thread may run from one wait (or its start) to the next. It becomes a function of one lane that ends
by telling at which wait the lane now stands; a step runs it for the lanes that met. Nothing is assumed of where lanes
go: runtime/regions.cpp looks where each stands, as fibers would. What lives across a wait is kept in an array over the
lanes of a SIMD group; what is cheap and the same whenever it is asked is computed anew.

Lanes of a SIMD group in a row are the usual case: their loop has a constant count, their places follow each other, and
no lane needs what another one wrote, since they would have had to wait for it. So it can become vector code.
"""

import re
from collections.abc import Iterable, Iterator
from string import Template

from kernelwright.simt import assembly
from kernelwright.simt.control_flow import NAME, Line, NotUnderstood
from kernelwright.simt.layout import Types
from kernelwright.simt.pieces import Pieces

_BODY = re.compile(r"@simt_run_fibers\(ptr [^,]*, ptr [^,]*, ptr (?:\w+ )*(@[\w.$-]+)\)")
_PARAMETERS = (
    "ptr noalias %simt.group, ptr noalias %simt.launch, ptr noalias %simt.simd, ptr noalias %simt.kept, "
    "i32 %simt.lane, i32 %simt.index, i32 %simt.first, i32 %simt.x, i32 %simt.y, i32 %simt.z"
)
_THREADS = 1024
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
"""

_STEP = Template("""
define internal void $name(ptr noalias %simt.group, ptr noalias %simt.launch, ptr noalias %simt.simd, \
ptr noalias %simt.kept, i64 %lanes, i1 zeroext %whole) $attributes {
begin:
  %first.at = getelementptr inbounds nuw i8, ptr %simt.simd, i64 $first
  %first = load i32, ptr %first.at
  br i1 %whole, label %all.begin, label %some.begin
all.begin:
  %x.at = getelementptr inbounds nuw i8, ptr %simt.simd, i64 $x
  %y.at = getelementptr inbounds nuw i8, ptr %simt.simd, i64 $y
  %z.at = getelementptr inbounds nuw i8, ptr %simt.simd, i64 $z
  %x = load i32, ptr %x.at
  %y = load i32, ptr %y.at
  %z = load i32, ptr %z.at
  $meet_all
  br label %all
all:
  %all.wide = phi i64 [ 0, %all.begin ], [ %all.next, %all ]
  %all.lane = trunc nuw nsw i64 %all.wide to i32
  %all.index = add nuw nsw i32 %first, %all.lane
  %all.x = add nuw nsw i32 %x, %all.lane
  %all.state = call i16 $region, i32 %all.lane, i32 %all.index, i32 %first, \
i32 %all.x, i32 %y, i32 %z) #9001, !llvm.access.group !90000
  %all.state.at = getelementptr inbounds nuw i16, ptr %simt.simd, i64 %all.wide
  store i16 %all.state, ptr %all.state.at, !llvm.access.group !90000
  %all.next = add nuw nsw i64 %all.wide, 1
  %all.done = icmp eq i64 %all.next, $width
  br i1 %all.done, label %end, label %all, !llvm.loop $loop
some.begin:
  $meet_some
  br label %some
some:
  %some.rest = phi i64 [ %lanes, %some.begin ], [ %some.next, %some ]
  %some.lane.wide = call i64 @llvm.cttz.i64(i64 %some.rest, i1 true)
  %some.lane = trunc nuw nsw i64 %some.lane.wide to i32
  %some.index = add nuw nsw i32 %first, %some.lane
  %some.wide = zext nneg i32 %some.index to i64
  %some.x.at = getelementptr inbounds nuw [$threads x i32], ptr %simt.group, i64 0, i64 %some.wide
  %some.y.at = getelementptr inbounds nuw [$threads x i32], ptr %simt.group, i64 1, i64 %some.wide
  %some.z.at = getelementptr inbounds nuw [$threads x i32], ptr %simt.group, i64 2, i64 %some.wide
  %some.x = load i32, ptr %some.x.at
  %some.y = load i32, ptr %some.y.at
  %some.z = load i32, ptr %some.z.at
  %some.state = call i16 $region, i32 %some.lane, i32 %some.index, i32 %first, \
i32 %some.x, i32 %some.y, i32 %some.z) #9002
  %some.state.at = getelementptr inbounds nuw i16, ptr %simt.simd, i64 %some.lane.wide
  store i16 %some.state, ptr %some.state.at
  %some.less = sub i64 %some.rest, 1
  %some.next = and i64 %some.rest, %some.less
  %some.done = icmp eq i64 %some.next, 0
  br i1 %some.done, label %end, label %some
end:
  ret void
}
$loop = distinct !{$loop, !90001}
""")
"""`whole`: all lanes of a SIMD group whose threads stand in a row."""


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
    made = _Writer(Pieces(thread.splitlines(), index, width, types)).text()
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

    def text(self) -> str:
        made, steps = [], []
        for state, start in enumerate([0, *(self._of.pieces[n].after or 0 for n in self._of.waits)]):
            made += self._region(state, start)
            made += self._step(state)
            steps.append(f"ptr @simt.step.{self._of.index}.{state}")
            if len(made) > _MOST_LINES:
                raise NotUnderstood("too many regions")
        kinds = [0, *(2 if (wait := self._of.pieces[n].wait) and wait.barrier else 1 for n in self._of.waits)]
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

    def _region(self, state: int, start: int) -> list[str]:
        within = self._within(start)
        defined = set().union(*(self._of.defines[n] for n in within))
        used = set().union(*(self._of.uses[n] for n in within))
        for n in within:
            for m in self._of.pieces[n].following:
                used |= self._of.into(self._of.pieces[n], self._of.pieces[m])
        begins = self._of.across[start] if state else set()
        loaded = sorted(begins & (used | defined))
        changing = [name for name in loaded if name in defined]
        out = [
            f"define internal i16 @simt.region.{self._of.index}.{state}({_PARAMETERS}) {self._of.attributes} {{",
            "simt.begin:",
        ]
        out += [f"  {name}.simt.held = alloca {self._of.slots[name][1]}" for name in changing]
        out += ["  " + item for item in self._computed(within)]
        for name in loaded:
            target = f"{name}.simt.kept" if name in changing else name
            out += self._kept(name, target)
            if name in changing:
                out.append(f"  store {self._of.slots[name][1]} {target}, ptr {name}.simt.held")
        out.append(f"  br label {self._of.pieces[start].label}")
        held = set(changing)
        for n in (m for m in self._of.order if m in within):
            out += self._piece(n, within, held, begins)
        out += ["}", ""]
        return out

    def _within(self, start: int) -> set[int]:
        seen, waiting = {start}, [start]
        while waiting:
            for m in self._of.pieces[waiting.pop()].following:
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
                out.append(self._of.same[name].text)
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
            return [*lines, f"  {target} = load {kind}, ptr {target}.at"]
        return [*lines, f"  {target}.byte = load i8, ptr {target}.at", f"  {target} = trunc i8 {target}.byte to i1"]

    def _keep(self, name: str, value: str, target: str) -> list[str]:
        lines, kind, stored = self._place(name, target)
        if kind == stored:
            return [*lines, f"  store {kind} {value}, ptr {target}.at"]
        return [*lines, f"  {target}.byte = zext i1 {value} to i8", f"  store i8 {target}.byte, ptr {target}.at"]

    def _piece(self, n: int, within: set[int], held: set[str], begins: set[str]) -> Iterator[str]:
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
        if piece.wait:
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
        if last and item.word == "ret":
            yield "  ret i16 0"
        elif last:
            yield f"  {body}"
        elif item.result in held:
            yield f"  {item.result}.simt.new = {body}"
            yield f"  store {item.type} {item.result}.simt.new, ptr {item.result}.simt.held"
        else:
            yield f"  {item.result} = {body}" if item.result else f"  {body}"

    def _step(self, state: int) -> list[str]:
        """Lets lanes meet at a wait, then runs what follows for each of them."""
        of, region = self._of, f"@simt.region.{self._of.index}.{state}"
        wait = of.pieces[of.waits[state - 1]].wait if state else None
        complete = wait.complete if wait else ""
        meet = f"call void {complete}(ptr %simt.simd, i64 LANES)" if complete else ""
        if complete.startswith("products "):
            _, area, rest = complete.split(" ", 2)
            meet = f"{of.same[area].text}\n  call void @simt_complete_products(ptr {area}, {rest}, i64 LANES)"
        every = (1 << of.width) - 1 if of.width < 64 else -1
        offsets = {name: 2 * of.width + 4 * i for i, name in enumerate(("first", "x", "y", "z"))}
        text = _STEP.substitute(
            offsets,
            name=f"@simt.step.{of.index}.{state}",
            attributes=of.attributes,
            region=f"{region}(ptr %simt.group, ptr %simt.launch, ptr %simt.simd, ptr %simt.kept",
            width=of.width,
            threads=_THREADS,
            loop=f"!{100_000 + 1000 * of.index + state}",
            meet_all=meet.replace("LANES", str(every)),
            meet_some=meet.replace("LANES", "%lanes").replace("%simt.products", "%some.products"),
        )
        return text.splitlines()
