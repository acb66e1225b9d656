"""Loops, returns and calls: the statements of a function that lead elsewhere."""

import ast
from typing import Any

from kernelwright.loops.expressions import Apply, Constant, Expression, Op, Variable
from kernelwright.loops.program import Assign, Break, Failure, If, Loop, Range, Require, Return
from kernelwright.loops.python.promotion import BOOL, I64, cast, negation, truth
from kernelwright.loops.python.source import UNKNOWN, UnsupportedError, python_function
from kernelwright.loops.python.statements import Statements, returns
from kernelwright.loops.python.values import ZERO, Value, View


class Function(Statements):
    """Lowers one function. Of an inlined one the result goes into variables instead of a Return."""

    def loop(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            raise self.refuse(node, "else after a loop", "loops without else")
        if isinstance(node, ast.For):
            self._for(node)
        else:
            self._while(node)

    # ---- loops --------------------------------------------------------------------------------------------------

    def _for(self, node: ast.For) -> None:
        call = node.iter
        found = self.source.resolve(call.func) if isinstance(call, ast.Call) else UNKNOWN
        asserted = getattr(found, "__name__", "") == "prange"
        if not isinstance(call, ast.Call) or not (found is range or asserted) or not isinstance(node.target, ast.Name):
            raise self.refuse(node, f"a loop over {ast.unparse(call)}", "for NAME in range(...) or prange(...)")
        bounds = [self._bound(part) for part in call.args]
        start = bounds[0] if len(bounds) > 1 else ZERO
        stop, step = bounds[0 if len(bounds) == 1 else 1], bounds[2] if len(bounds) > 2 else Constant(1, I64)
        where, name = self.source.where(node), node.target.id
        self.builder.indices += 1
        counter = Variable(f"{self.mangled(name)}{self.builder.indices}", I64)
        self.builder.lets.add(counter.name)
        index, given = self._index(counter, start, stop, step, node)
        before, names = self.builder.block, dict(self.names)
        self.builder.block = inner = []
        if name in self.seen.indices:
            self.names[name] = self._kept(given)
        else:
            variable = self.variable(name, I64)
            self.builder.emit(Assign(variable, cast(given, variable.type)))
        self.loops += 1
        self.body(node.body)
        self.loops -= 1
        self.builder.block, self.names = before, names
        self.builder.emit(Range(counter, *index, tuple(inner), where, asserted))

    def _bound(self, node: ast.expr) -> Expression:
        value = self.whole_number(node, "a bound of range")
        return value if self.builder.constant(value) else self.bound(value)

    def _index(
        self, counter: Variable, start: Expression, stop: Expression, step: Expression, node: ast.AST
    ) -> tuple[tuple[Expression, Expression, int], Expression]:
        """Start, stop and constant step of the counter, and the index made of it."""
        if isinstance(step, Constant) and step.value:
            return (start, stop, int(step.value)), counter
        step = self.bound(step)
        holds = Apply(Op.NE, (step, ZERO))
        self.builder.emit(Require(holds, Failure.STEP, self.source.where(node), ZERO, ZERO))
        way = self.bound(Apply(Op.SIGN, (step,)))
        room = Apply(Op.ADD, (Apply(Op.SUB, (stop, start)), Apply(Op.SUB, (step, way))))
        count = self.bound(Apply(Op.FLOORED_DIV, (room, step)))
        return (ZERO, count, 1), Apply(Op.ADD, (start, Apply(Op.MUL, (counter, step))))

    def _while(self, node: ast.While) -> None:
        before, names = self.builder.block, dict(self.names)
        self.builder.block = inner = []
        condition = truth(self.scalar(node.test))
        if not (isinstance(condition, Constant) and condition.value):
            self.builder.emit(If(negation(condition), (Break(),)))
        self.loops += 1
        self.body(node.body)
        self.loops -= 1
        self.builder.block, self.names = before, names
        self.builder.emit(Loop(tuple(inner), self.source.where(node)))

    # ---- functions ----------------------------------------------------------------------------------------------

    def give_back(self, node: ast.Return, value: ast.expr | None) -> None:
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            given: list[Expression] = []
        else:
            found = self.value(value)
            parts = found if isinstance(found, tuple) else (found,)
            if any((isinstance(part, View) and part.open_axes) or isinstance(part, tuple) for part in parts):
                raise self.refuse(node, "an array is returned", "numbers; write arrays into an argument")
            given = [self.element(part, node) for part in parts if not isinstance(part, tuple)]
        if self.result_types is not None and len(self.result_types) != len(given):
            raise self.refuse(node, "as many values are not returned elsewhere", "the same number at every return")
        self.result_types = [part.type for part in given]
        self.finish([self.bound(part) for part in given] if len(given) > 1 else given)

    def finish(self, values: list[Expression]) -> None:
        """Ends the function with these results."""
        for number, value in enumerate(values):
            self.builder.widen(f"result{self.suffix}{number}", value.type)
        types = [self.builder.types[f"result{self.suffix}{number}"] for number in range(len(values))]
        self.result_types = types
        typed = tuple(cast(value, type) for value, type in zip(values, types, strict=True))
        if self.suffix == "_":
            self.builder.emit(Return(typed))
            return
        self.results = [Variable(f"result{self.suffix}{number}", type) for number, type in enumerate(types)]
        for variable, value in zip(self.results, typed, strict=True):
            self.builder.emit(Assign(variable, value))
        if self.done is not None:
            self.builder.emit(Assign(self.done, Constant(True, BOOL)))
            if self.loops:
                self.builder.emit(Break())

    def user_call(self, found: Any, node: ast.Call) -> Value:
        """A call of another function of the user's: its text in place of the call."""
        text = ast.unparse(node.func)
        if found is UNKNOWN:
            raise self.refuse(node, f"{text} has no value here", "functions that are known when this one is compiled")
        try:
            plain = python_function(found)
        except UnsupportedError:
            raise self.refuse(
                node, f"{text} is not supported", "functions of math and NumPy on numbers, and your own functions"
            ) from None
        source = self.make(found)
        if plain.__qualname__ in self.builder.inlined:
            raise self.refuse(node, f"{text} calls itself", "loops; a function that is compiled cannot recurse")
        parameters = [argument.arg for argument in source.tree.args.args]
        given = dict(zip(parameters, node.args, strict=False)) | {
            word.arg: word.value for word in node.keywords if word.arg
        }
        if set(given) != set(parameters) or len(node.args) + len(node.keywords) != len(parameters):
            raise self.refuse(node, f"{text} takes {', '.join(parameters)}", "a value for each parameter")
        self.builder.instances += 1
        inner = Function(source, self.builder, self.make, f"f{self.builder.instances}")
        for name in parameters:
            value = self._kept(self.value(given[name]))
            if name not in inner.seen.stores:
                inner.names[name] = value
            elif isinstance(value, (View, tuple)):
                raise self.refuse(node, f"{text} gives its array {name} a new value", "parameters that stay")
            else:
                variable = inner.variable(name, value.type)
                self.builder.emit(Assign(variable, cast(value, variable.type)))
        return self._inlined(inner, plain.__qualname__)

    def _inlined(self, inner: "Function", name: str) -> Value:
        builder, body = self.builder, inner.source.tree.body
        if any(returns(statement) for statement in body[:-1]) or not isinstance(body[-1], ast.Return):
            inner.done = Variable(f"done{inner.suffix}", BOOL)
            builder.widen(inner.done.name, BOOL)
            builder.emit(Assign(inner.done, Constant(False, BOOL)))
        builder.inlined.append(name)
        start = len(builder.block)
        inner.body(body)
        builder.inlined.pop()
        if inner.done is not None:  # on every way there is a value of this very call
            first = [Assign(variable, cast(ZERO, variable.type)) for variable in inner.results]
            builder.block[start:start] = first
        results = tuple(self.bound(variable) for variable in inner.results)
        return results[0] if len(results) == 1 else results
