"""Random programs: the interpreter and C++ do the same, values and failures alike. Many programs are one compile."""

import ctypes
import importlib.util
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelwright import loops
from kernelwright.loops import ArrayType, Constant, Expression, Load, Op, Program, ScalarType, Select, Store, Variable
from kernelwright.loops.expressions import Apply, Buffer
from kernelwright.loops.nest import Let
from kernelwright.loops.program import (
    Accumulate,
    Argument,
    Assign,
    Break,
    Command,
    Continue,
    If,
    Index,
    Loop,
    Range,
    Return,
    Where,
)
from kernelwright.loops.python.promotion import cast

F32, F64, I64, BOOL = ScalarType.FLOAT32, ScalarType.FLOAT64, ScalarType.INT64, ScalarType.BOOL
TYPES = (I64, F64, F32, ScalarType.INT8, ScalarType.INT32, ScalarType.UINT8, ScalarType.UINT64)
NOWHERE = Where(1, 1)
SIZE = 7
PROGRAMS = 60


class Draw:
    """Draws a program: `pick` chooses among things, by hypothesis or by chance."""

    def __init__(self, pick: Callable[[list[Any]], Any]) -> None:
        self.pick = pick
        self.count = 0
        self.buffers = tuple(
            Buffer(f"{type.value}_", type, (f"{type.value}_n0",), (1,)) for type in (F64, F32, I64, ScalarType.INT32)
        )
        self.variables = tuple(Variable(f"{type.value}v_", type) for type in TYPES)
        self.scope: list[Variable] = [*self.variables]
        self.places: list[tuple[Buffer, Variable]] = []
        """Indices that were checked, with the buffer they are of."""

    def fresh(self, type: ScalarType) -> Variable:
        self.count += 1
        return Variable(f"t{self.count}", type)

    def number(self, type: ScalarType) -> Constant:
        if type.floating:
            return Constant(self.pick([0.0, 1.0, -1.5, 0.25, 3.0, 1e10, math.inf]), type)
        if type is BOOL:
            return Constant(self.pick([True, False]), BOOL)
        return Constant(self.pick([0, 1, 2, 3, 7, 100] if not type.signed else [0, 1, -1, 3, -7, 100]), type)

    def expression(self, type: ScalarType, depth: int) -> Expression:
        choices = ["number", "variable", "load", "cast"]
        choices += ["arithmetic", "select", "bits", "unary"] if depth else []
        match self.pick(choices):
            case "variable" if own := [one for one in self.scope if one.type is type]:
                return self.pick(own)
            case "load" if own := [Load(b, (at,)) for b, at in self.places if b.type is type]:
                return self.pick(own)
            case "cast" if depth and type is not BOOL:
                other = self.pick([one for one in TYPES if not one.floating or type.floating])
                return cast(self.expression(other, depth - 1), type)
            case "arithmetic" if type is not BOOL:
                op = self.pick([Op.ADD, Op.SUB, Op.MUL, Op.MAXIMUM, Op.MINIMUM, *([Op.DIV] if type.floating else [])])
                return Apply(op, (self.expression(type, depth - 1), self.expression(type, depth - 1)))
            case "arithmetic":
                other = self.pick([I64, F64, F32])
                op = self.pick([Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE])
                return Apply(op, (self.expression(other, depth - 1), self.expression(other, depth - 1)))
            case "select":
                both = self.expression(type, depth - 1), self.expression(type, depth - 1)
                return Select(self.expression(BOOL, depth - 1), *both)
            case "bits" if type is I64:
                op = self.pick([Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR, Op.SHIFT_LEFT, Op.SHIFT_RIGHT])
                return Apply(op, (self.expression(I64, depth - 1), self.expression(I64, depth - 1)))
            case "bits" if type in (I64, F64):
                divisor = Constant(self.pick([1, 2, 3, -1, -4]), type)
                return Apply(self.pick([Op.FLOORED_DIV, Op.FLOORED_MOD]), (self.expression(type, depth - 1), divisor))
            case "unary" if type.floating:
                return Apply(self.pick([Op.NEG, Op.ABS, Op.SQRT, Op.FLOOR]), (self.expression(type, depth - 1),))
            case "unary" if type is BOOL:
                return Apply(Op.NOT, (self.expression(BOOL, depth - 1),))
            case "unary" if type is I64:
                return Apply(self.pick([Op.NEG, Op.ABS, Op.BIT_NOT, Op.SIGN]), (self.expression(I64, depth - 1),))
        return self.number(type)

    def body(self, depth: int, looping: bool) -> tuple[Command, ...]:
        scope, places = list(self.scope), list(self.places)
        made: list[Command] = []
        for _ in range(self.pick([1, 2, 3, 4])):
            made += self.commands(depth, looping)
        self.scope, self.places = scope, places
        return tuple(made)

    def index(self) -> Command:
        buffer = self.pick(list(self.buffers))
        place = self.fresh(I64)
        counters = [one for one in self.scope if one.name.startswith("it")]
        if counters and self.pick([True, True, False]):  # as people do
            value: Expression = self.pick([counters[-1], Apply(Op.ADD, (counters[-1], self.number(I64)))])
        else:
            value = self.expression(I64, 1)
        if not isinstance(value, Variable) and self.pick([True, True, True, False]):
            value = Apply(Op.FLOORED_MOD, (value, Constant(SIZE, I64)))
        self.places.append((buffer, place))
        number = self.buffers.index(buffer)
        return Index(place, value, Variable(f"{buffer.type.value}_n0", I64), number, 0, NOWHERE)

    def commands(self, depth: int, looping: bool) -> list[Command]:
        kinds = ["let", "assign", "assign", "index", "store", "store", "accumulate"]
        kinds += ["if", "range", "range", "loop"] if depth else []
        kinds += ["break", "continue"] if looping else []
        match self.pick(kinds):
            case "let":
                value = self.expression(self.pick(list(TYPES)), 2)
                self.scope.append(self.fresh(value.type))
                return [Let(self.scope[-1], value)]
            case "assign":
                variable = self.pick(list(self.variables))
                return [Assign(variable, self.expression(variable.type, 2))]
            case "store" | "accumulate" as kind:
                index = self.index()
                buffer, place = self.places[-1]
                value = self.expression(buffer.type, 2)
                if kind == "store":
                    return [index, Store(buffer, (place,), value)]
                return [index, Accumulate(buffer, (place,), self.pick([Op.ADD, Op.MUL]), value, NOWHERE)]
            case "if":
                return [If(self.expression(BOOL, 2), self.body(depth - 1, looping), self.body(depth - 1, looping))]
            case "range":
                counter = Variable(f"i{self.fresh(I64).name}", I64)
                self.scope.append(counter)
                if self.pick([True, True, False]):
                    body = self.body(depth - 1, self.pick([True, False, False]))
                    self.scope.remove(counter)
                    return [Range(counter, Constant(0, I64), Variable("int64_n0", I64), 1, body, NOWHERE)]
                start, stop, step = self.pick([(0, SIZE, 1), (1, 5, 2), (5, -1, -1), (0, 0, 1), (2, 6, 1)])
                body = self.body(depth - 1, True)
                self.scope.remove(counter)
                return [Range(counter, Constant(start, I64), Constant(stop, I64), step, body, NOWHERE)]
            case "loop":  # bounded by a counter of its own
                counter = self.fresh(I64)
                self.loops = [*getattr(self, "loops", []), counter]
                turn = Assign(counter, Apply(Op.ADD, (counter, Constant(1, I64))))
                leave = If(Apply(Op.GT, (counter, Constant(4, I64))), (Break(),))
                return [Assign(counter, Constant(0, I64)), Loop((turn, leave, *self.body(depth - 1, True)), NOWHERE)]
            case "break":
                return [If(self.expression(BOOL, 2), (Break(),))]
            case "continue":
                return [If(self.expression(BOOL, 2), (Continue(),))]
        return [self.index()]

    def program(self, number: int) -> Program:
        self.loops: list[Variable] = []
        body = (*self.body(2, False), Return(self.variables))
        arguments = tuple(Argument(b.type.value, ArrayType(b.type, 1), True, True) for b in self.buffers)
        variables = (*self.variables, *self.loops)
        result = tuple(one.type for one in self.variables)
        return Program(
            "random", f"kw_random{number}", arguments, self.buffers, (), variables, (), body, result, "random.py", 1
        )


def load(name: str) -> Any:
    """A module beside this file."""
    spec = importlib.util.spec_from_file_location(f"loops_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


functions = load("test_python_functions")


def arrays(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        rng.standard_normal(SIZE),
        rng.standard_normal(SIZE).astype(np.float32),
        rng.integers(-9, 9, SIZE),
        rng.integers(-9, 9, SIZE).astype(np.int32),
    ]


def outcome(run: Callable[..., Any], program: Program, given: list[np.ndarray]) -> list[Any]:
    """What came out, or that it failed, and the arrays after it."""
    try:
        returned: Any = run(program, *given)
    except (IndexError, Failed) as failure:
        returned = [getattr(failure, "error", failure) is not None]
    return [*returned, *given]


def agree(found: list[Any], wanted: list[Any]) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


class Failed(Exception):
    pass


def caller(library: ctypes.CDLL) -> Callable[..., tuple[Any, ...]]:
    def call(program: Program, *given: np.ndarray) -> tuple[Any, ...]:
        words = [np.array([one.ctypes.data, len(one), 1]) for one in given]
        pointers = (ctypes.c_void_p * len(words))(*(one.ctypes.data for one in words))
        results, error = np.zeros(len(program.result), np.int64), np.zeros(10, np.int32)
        address = ctypes.c_void_p(results.ctypes.data), ctypes.c_void_p(error.ctypes.data)
        if getattr(library, program.symbol)(pointers, None, *address):
            raise Failed
        return tuple(results[n : n + 1].view(type.value)[0].item() for n, type in enumerate(program.result))

    return call


def programs_and_library(
    build: Callable[..., ctypes.CDLL], *, parallel: bool = False, boundscheck: bool = True
) -> tuple[list[Program], ctypes.CDLL]:
    chance = random.Random(7)
    programs = [Draw(chance.choice).program(number) for number in range(PROGRAMS)]
    texts = [loops.print_function(program, parallel=parallel, boundscheck=boundscheck) for program in programs]
    template = loops.program_template().replace("return work < 1 ? worth : worth / work + 1;", "return 1;")
    library = build("\n".join([functions.TURNS, template, *texts]), "-O1", "-fno-math-errno", "-fno-trapping-math")
    library.start_turns()
    return programs, library


def test_random_programs_do_the_same_in_cpp(build: Callable[..., ctypes.CDLL]) -> None:
    programs, library = programs_and_library(build)
    failed = 0
    with np.errstate(all="ignore"):
        for number, program in enumerate(programs):
            wanted = outcome(loops.interpret, program, arrays(number))
            agree(outcome(caller(library), program, arrays(number)), wanted)
            failed += wanted[0] is True
    assert 0 < failed < PROGRAMS // 2


def test_random_programs_do_the_same_unchecked(build: Callable[..., ctypes.CDLL]) -> None:
    """Those whose indices are within bounds, from the end or from the start."""
    programs, library = programs_and_library(build, boundscheck=False)
    compared = 0
    with np.errstate(all="ignore"):
        for number, program in enumerate(programs):
            wanted = outcome(loops.interpret, program, arrays(number))
            if wanted[0] is not True:
                agree(outcome(caller(library), program, arrays(number)), wanted)
                compared += 1
    assert compared > PROGRAMS // 2


def test_random_programs_do_the_same_in_parallel(build: Callable[..., ctypes.CDLL]) -> None:
    """But for floats that add up in another order, and for what is done before a failure is seen."""
    programs, library = programs_and_library(build, parallel=True)
    compared = 0
    with np.errstate(all="ignore"):
        for number, program in enumerate(programs):
            sums = {op for plan in loops.analyse(program).loops for _, op in (*plan.reductions, *plan.scatters)}
            wanted = outcome(loops.interpret, program, arrays(number))
            if len(wanted) == 5 or sums:
                continue
            agree(outcome(caller(library), program, arrays(number)), wanted)
            compared += 1
    assert compared > PROGRAMS // 4 and library.turns_taken() > 3


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_random_programs_are_printed_and_run_alike_twice(data: st.DataObject) -> None:
    """Whatever is drawn can be analysed and printed in every way, and the interpreter depends on nothing else."""
    program = Draw(lambda choices: data.draw(st.sampled_from(choices))).program(0)
    assert loops.analyse(program) == loops.analyse(program)
    assert loops.print_function(program, parallel=True) == loops.print_function(program, parallel=True)
    assert loops.print_program_cuda(program).launches
    with np.errstate(all="ignore"):
        agree(outcome(loops.interpret, program, arrays(1)), outcome(loops.interpret, program, arrays(1)))
