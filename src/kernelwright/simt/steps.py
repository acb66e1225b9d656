"""The code that runs a region for the lanes that met: text around the functions of one lane that regions.py writes."""

from collections.abc import Sequence
from string import Template

PARAMETERS = (
    "ptr %simt.group, ptr %simt.launch, ptr %simt.simd, ptr %simt.kept, "
    "i32 %simt.lane, i32 %simt.index, i32 %simt.first, i32 %simt.x, i32 %simt.y, i32 %simt.z"
)
_GIVEN = "ptr %simt.group, ptr %simt.launch, ptr %simt.simd, ptr %simt.kept"
_THREADS = 1024

# `whole`: all lanes of a SIMD group, whose threads stand in a row.
_BEGIN = Template("""
define internal void @simt.step.$entry.$state(ptr noalias %simt.group, ptr noalias %simt.launch, \
ptr noalias %simt.simd, ptr noalias %simt.kept, i64 %lanes, i1 zeroext %whole) $attributes {
begin:
  %first.at = getelementptr inbounds nuw i8, ptr %simt.simd, i64 $first
  %first = load i32, ptr %first.at
  br i1 $whole, label %whole.begin, label %some.begin
""")
_WHOLE = Template("""
whole.begin:
  %x.at = getelementptr inbounds nuw i8, ptr %simt.simd, i64 $x
  %y.at = getelementptr inbounds nuw i8, ptr %simt.simd, i64 $y
  %z.at = getelementptr inbounds nuw i8, ptr %simt.simd, i64 $z
  %x = load i32, ptr %x.at
  %y = load i32, ptr %y.at
  %z = load i32, ptr %z.at
  $meet
  br label %$next
""")
_EACH = Template("""
$loop:
  %$loop.wide = phi i64 [ 0, %$from ], [ %$loop.next, %$loop ]$phis
  %$loop.lane = trunc nuw nsw i64 %$loop.wide to i32
  %$loop.index = add nuw nsw i32 %first, %$loop.lane
  %$loop.x = add nuw nsw i32 %x, %$loop.lane
  $body
  %$loop.next = add nuw nsw i64 %$loop.wide, 1
  %$loop.done = icmp eq i64 %$loop.next, $width
  br i1 %$loop.done, label %$then, label %$loop, !llvm.loop $number
""")
_RUN = Template("""
  %$loop.state = call i16 $function($given, i32 %$loop.lane, i32 %$loop.index, i32 %first, \
i32 %$loop.x, i32 %y, i32 %z$more) #9001, !llvm.access.group !90000
  %$loop.state.at = getelementptr inbounds nuw i16, ptr %simt.simd, i64 %$loop.wide
  store i16 %$loop.state, ptr %$loop.state.at, !llvm.access.group !90000
""")
_CHECK = Template("""
  %same.$number.at = getelementptr inbounds nuw i8, ptr %simt.kept, i64 $offset
  %same.$number = load $kind, ptr %same.$number.at
  %same.$number.all = load <$width x $whole>, ptr %same.$number.at, align 64
  %same.$number.whole = $cast
  %same.$number.one = insertelement <$width x $whole> poison, $whole %same.$number.whole, i64 0
  %same.$number.wide = shufflevector <$width x $whole> %same.$number.one, <$width x $whole> poison, \
<$width x i32> zeroinitializer
  %same.$number.differ = icmp ne <$width x $whole> %same.$number.all, %same.$number.wide
  %same.$number.bits = bitcast <$width x i1> %same.$number.differ to i$width
  %same.$number.sum = or i$width %same.$number.bits, $before
""")
_ASKED = """
  %ask.all = phi i1 [ true, ORIGIN ], [ %ask.all.now, %ask ]
  %ask.any = phi i1 [ false, ORIGIN ], [ %ask.any.now, %ask ]"""
_ASK = Template("""
  %ask.way = call i1 $function($given, i32 %ask.lane, i32 %ask.index, i32 %first, \
i32 %ask.x, i32 %y, i32 %z$same) #9001, !llvm.access.group !90000
  %ask.all.now = and i1 %ask.all, %ask.way
  %ask.any.now = or i1 %ask.any, %ask.way
""")
_CHOOSE = """
choose:
  br i1 %ask.all.now, label %yes, label %choose.no
choose.no:
  br i1 %ask.any.now, label %all, label %no
"""
_END = Template("""
some.begin:
  $meet
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
  %some.state = call i16 $function($given, i32 %some.lane, i32 %some.index, i32 %first, \
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
""")


def step(
    entry: int,
    state: int,
    width: int,
    attributes: str,
    meet: str,
    loop_over_lanes: bool,
    decided: bool,
    turn: bool,
    same: Sequence[tuple[int, str]],
) -> list[str]:
    """The function that lets lanes meet (by the line `meet`, LANES being who), then runs a region for each of them.

    Without a `loop_over_lanes` they are called one by one, which is quicker to compile. If the way of a region's first
    branch is `decided` beforehand, lanes are asked for it first: where they agree, their loop has no such branch. Where
    there is a `turn`, lanes in a row run it instead of the region, if what is kept at the places `same` (offset and
    type) is the same in all of them.
    """
    offsets = {name: 2 * width + 4 * i for i, name in enumerate(("first", "x", "y", "z"))}
    every = (1 << width) - 1 if width < 64 else -1
    run_name = "turn" if turn else "region"
    begin, numbers = "ask" if decided else "all", []
    origin = "check" if same else "whole.begin"
    given = "".join(f", {kind} %same.{number}" for number, (_, kind) in enumerate(same))

    def loop(name: str, origin: str, then: str, body: str, phis: str = "") -> str:
        numbers.append(100_000 + 8000 * entry + 8 * state + len(numbers))
        return _EACH.substitute(
            {"loop": name, "from": origin, "then": then, "body": body, "width": width, "number": f"!{numbers[-1]}"},
            phis=phis,
        )

    def run(name: str, origin: str, kind: str, more: str = "") -> str:
        function = f"@simt.{kind}.{entry}.{state}"
        return loop(name, origin, "end", _RUN.substitute(loop=name, function=function, given=_GIVEN, more=more))

    text = _BEGIN.substitute(
        offsets, entry=entry, state=state, attributes=attributes, whole="%whole" if loop_over_lanes else "false"
    )
    then = "check" if same else begin
    text += _WHOLE.substitute(offsets, meet=meet.replace("LANES", str(every)), next=then if loop_over_lanes else "end")
    if same:
        text += _checked(same, width, begin) + run("apart", "check", "region")
    if decided:
        ask = _ASK.substitute(function=f"@simt.way.{entry}.{state}", given=_GIVEN, same=given)
        text += loop("ask", origin, "choose", ask, _ASKED.replace("ORIGIN", f"%{origin}")) + _CHOOSE
        text += run("yes", "choose", "decided", f"{given}, i1 true")
        text += run("no", "choose.no", "decided", f"{given}, i1 false")
    if loop_over_lanes:
        text += run("all", "choose.no" if decided else origin, run_name, given)
    text += _END.substitute(
        threads=_THREADS,
        meet=meet.replace("LANES)", "%lanes) #9002").replace("%simt.products", "%some.products"),
        function=f"@simt.region.{entry}.{state}",
        given=_GIVEN,
    )
    text += "".join(f"!{number} = distinct !{{!{number}, !90001}}\n" for number in numbers)
    return text.splitlines()


def _checked(same: Sequence[tuple[int, str]], width: int, begin: str) -> str:
    """Goes on at `begin` if every lane keeps the same at each of the places, else to the loop "apart"."""
    text, before = "\ncheck:", "0"
    for number, (offset, kind) in enumerate(same):
        whole = "i64" if kind == "ptr" else kind
        name = f"%same.{number}"
        cast = f"ptrtoint ptr {name} to i64" if kind == "ptr" else f"add {kind} {name}, 0"
        text += _CHECK.substitute(
            number=number, offset=offset, kind=kind, whole=whole, width=width, cast=cast, before=before
        )
        before = f"{name}.sum"
    return f"{text}  %same.differ = icmp ne i{width} {before}, 0\n  br i1 %same.differ, label %apart, label %{begin}\n"
