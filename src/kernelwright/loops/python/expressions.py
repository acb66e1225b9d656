"""Python expressions as IR expressions. What must happen first, as a read or a check, is emitted on the way."""

import ast
from typing import Any

from kernelwright.loops.expressions import Apply, Constant, Expression, Op, Select, Variable
from kernelwright.loops.program import Assign, Command, Failure, If, Require
from kernelwright.loops.python import arithmetic as rules
from kernelwright.loops.python.arrays import Arrays
from kernelwright.loops.python.promotion import (
    BOOL,
    I64,
    U64,
    arithmetic,
    cast,
    join,
    machine,
    negation,
    quotient,
    truth,
)
from kernelwright.loops.python.source import UNKNOWN, qualified
from kernelwright.loops.python.values import ZERO, Value, View, elements
from kernelwright.loops.types import ScalarType


class Expressions(Arrays):
    """Lowers expressions of one function."""

    # ---- expressions --------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value):
                return self._constant(node, value)
            case ast.Name():
                return self._name(node)
            case ast.BinOp(left, op, right):
                return self.operation(type(op).__name__, self.scalar(left), self.scalar(right), node)
            case ast.UnaryOp(op, operand):
                return self._unary(op, self.scalar(operand), node)
            case ast.Compare():
                return self._compare(node)
            case ast.BoolOp(op, values):
                return self._logic(isinstance(op, ast.And), values)
            case ast.IfExp(test, body, orelse):
                return self._choice(test, body, orelse)
            case ast.Subscript(array, index):
                return self.subscript(self.value(array), index, node)
            case ast.Tuple(elts):
                return tuple(self.value(part) for part in elts)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self.call(node)
        raise self.refuse(
            node,
            f"{_named(node)} is not supported",
            "numbers, arithmetic, comparisons, array elements, and functions of math and NumPy on numbers",
        )

    def _constant(self, node: ast.expr, value: Any) -> Expression:
        if isinstance(value, bool):
            return Constant(value, BOOL)
        if isinstance(value, int):
            if not -(2**63) <= value < 2**64:
                raise self.refuse(node, f"{value} does not fit into 64 bits", "integers of at most 64 bits")
            return Constant(value, I64 if value < 2**63 else U64)
        if isinstance(value, float):
            return Constant(value, self.builder.real)
        kind = "complex numbers are" if isinstance(value, complex) else f"a {type(value).__name__} is"
        raise self.refuse(node, f"{kind} not supported", "bool, int and float numbers")

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.names:
            return self.names[node.id]
        if node.id in self.variables or self.late(node.id):
            name = self.variables[node.id]
            return Variable(name, self.builder.types.get(name, BOOL))  # a type found later widens in the next pass
        return self._global(node)

    def _global(self, node: ast.expr) -> Value:
        found = self.source.resolve(node)
        name = ast.unparse(node)
        if found is UNKNOWN:
            raise self.refuse(node, f"{name} has no value here", "names assigned before on every way, and globals")
        if isinstance(found, (bool, int, float, complex)):
            return self._constant(node, found)
        if type(found).__module__ == "numpy" and hasattr(found, "item") and not hasattr(found, "__len__"):
            return cast(self._constant(node, found.item()), ScalarType(str(found.dtype)))
        if isinstance(found, tuple) and all(isinstance(part, (bool, int, float)) for part in found):
            return tuple(self._constant(node, part) for part in found)
        kind = type(found).__name__
        raise self.refuse(
            node,
            f"the global {name} is a {kind}",
            "global numbers, which are taken as constants; pass arrays as arguments",
        )

    def _attribute(self, node: ast.Attribute) -> Value:
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id not in self.names | self.variables:
            return self._global(node)
        owner = self.value(node.value)
        if isinstance(owner, View):
            match node.attr:
                case "shape":
                    return owner.shape
                case "size":
                    return elements(owner)
                case "ndim":
                    return Constant(len(owner.open_axes), I64)
                case "T" if len(owner.open_axes) < 2:
                    return owner
        raise self.refuse(node, f".{node.attr} is not supported", ".shape, .size and .ndim of arrays")

    def _unary(self, op: ast.unaryop, value: Expression, node: ast.AST) -> Expression:
        match op:
            case ast.Not():
                return negation(truth(value))
            case ast.USub():
                return rules.negative(value)
            case ast.UAdd():
                return cast(value, machine(value.type))
            case _:
                if value.type.floating:
                    raise self.refuse(node, f"~ of a {value.type.value}", "~ of whole numbers")
                return Apply(Op.BIT_NOT, (cast(value, machine(value.type)),))

    def operation(self, op: str, a: Expression, b: Expression, node: ast.AST) -> Expression:
        """a op b, by the name of the operator's class in `ast`."""
        real = self.builder.real
        if op in rules.BITS or op in rules.SHIFTS:
            if a.type.floating or b.type.floating:
                raise self.refuse(node, "a bit operation on a floating number", "bit operations on whole numbers")
            if op in rules.SHIFTS:
                return Apply(rules.SHIFTS[op], (cast(a, machine(a.type)), cast(b, machine(a.type))))
            if a.type is b.type is BOOL and op != "BitXor":
                return Apply(Op.AND if op == "BitAnd" else Op.OR, (a, b))
            if a.type is b.type is BOOL:
                return Apply(Op.NE, (a, b))
            return rules.binary(rules.BITS[op], a, b, arithmetic(a.type, b.type, real))
        if op == "Div":
            type = quotient(a.type, b.type, real)
            return Apply(Op.DIV, (cast(a, type), cast(b, type)))
        if op == "Pow":
            return rules.power(self.named(a), b, real)
        if op not in rules.ARITHMETIC:
            raise self.refuse(node, f"the operator {op} is not supported", "+ - * / // % ** & | ^ << >>")
        type = arithmetic(a.type, b.type, real)
        if op in ("FloorDiv", "Mod") and not type.floating:
            b = self._divisor(cast(b, type), node)
        return rules.binary(rules.ARITHMETIC[op], a, b, type)

    def _divisor(self, b: Expression, node: ast.AST) -> Expression:
        if isinstance(b, Constant) and b.value:
            return b
        b = self.bound(b)
        holds = Apply(Op.NE, (b, Constant(0, b.type)))
        self.builder.emit(Require(holds, Failure.ZERO_DIVISION, self.source.where(node), ZERO, ZERO))
        return b

    def _compare(self, node: ast.Compare) -> Expression:
        ops = [rules.COMPARISONS.get(type(op).__name__) for op in node.ops]
        if None in ops:
            named = _named(node.ops[ops.index(None)])
            raise self.refuse(node, f"the comparison {named} is not supported", "== != < <= > >=")
        return self._chain(self.scalar(node.left), [op for op in ops if op], node.comparators)

    def _chain(self, left: Expression, ops: list[Op], nodes: list[ast.expr]) -> Expression:
        """a < b < c: c is looked at only where a < b."""
        right = self.scalar(nodes[0])
        if len(ops) == 1:
            return rules.compare(ops[0], left, right, self.builder.real)
        right = self.bound(right)
        own = rules.compare(ops[0], left, right, self.builder.real)
        before = self.builder.block
        self.builder.block = first = []
        rest = self._chain(right, ops[1:], nodes[1:])
        self.builder.block = before
        if not first:
            return Apply(Op.AND, (own, rest))
        return self._either(self.bound(own), rest, tuple(first), Constant(False, BOOL), ())

    def _logic(self, both: bool, nodes: list[ast.expr]) -> Expression:
        """a and b, a or b: b is looked at only where a does not decide; the deciding value comes out."""
        left = self.scalar(nodes[0])
        for node in nodes[1:]:
            right, first = self.apart(node)
            if not first and left.type is right.type is BOOL:
                left = Apply(Op.AND if both else Op.OR, (left, right))
                continue
            left = self.bound(left)
            decided = truth(left) if both else negation(truth(left))
            left = self._either(decided, right, first, left, ())
        return left

    def _choice(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Expression:
        condition = truth(self.scalar(test))
        then, before_then = self.apart(body)
        otherwise, before_otherwise = self.apart(orelse)
        return self._either(condition, then, before_then, otherwise, before_otherwise)

    def _either(
        self,
        condition: Expression,
        then: Expression,
        before_then: tuple[Command, ...],
        otherwise: Expression,
        before_otherwise: tuple[Command, ...],
    ) -> Expression:
        type = join(then.type, otherwise.type, self.builder.real)
        then, otherwise = cast(then, type), cast(otherwise, type)
        if not before_then and not before_otherwise:
            return Select(condition, then, otherwise)
        self.builder.count += 1
        chosen = Variable(f"c{self.builder.count}", type)
        self.builder.widen(chosen.name, type)
        chosen = Variable(chosen.name, self.builder.types[chosen.name])
        then, otherwise = cast(then, chosen.type), cast(otherwise, chosen.type)
        self.builder.emit(
            If(condition, (*before_then, Assign(chosen, then)), (*before_otherwise, Assign(chosen, otherwise)))
        )
        return self.bound(chosen)

    # ---- calls --------------------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Value:
        found = self.source.resolve(node.func)
        name = qualified(found) if found is not UNKNOWN else ""
        if name == "builtins.len" and len(node.args) == 1:
            owner = self.value(node.args[0])
            if isinstance(owner, View) and owner.open_axes:
                return owner.shape[0]
            if isinstance(owner, tuple):
                return Constant(len(owner), I64)
        if name == "builtins.divmod" and len(node.args) == 2:
            a, b = (self.bound(self.scalar(part)) for part in node.args)
            return self.operation("FloorDiv", a, b, node), self.operation("Mod", a, b, node)
        operator = {"numpy.floor_divide": "FloorDiv", "numpy.remainder": "Mod", "numpy.divide": "Div"}.get(name)
        operator = operator or {"numpy.bitwise_and": "BitAnd", "numpy.bitwise_or": "BitOr"}.get(name)
        if operator and len(node.args) == 2:
            return self.operation(operator, self.scalar(node.args[0]), self.scalar(node.args[1]), node)
        if name in rules.FUNCTIONS:
            return self._function(name, node)
        return self.user_call(found, node)

    def _function(self, name: str, node: ast.Call) -> Expression:
        count, rule = rules.FUNCTIONS[name]
        arguments = node.args
        if len(arguments) == 1 and isinstance(arguments[0], ast.Tuple) and count == -1:
            arguments = arguments[0].elts
        if node.keywords or (len(arguments) != count if count >= 0 else len(arguments) < 2):
            wanted = f"{count} numbers" if count >= 0 else "two numbers or more"
            raise self.refuse(node, f"this form of {ast.unparse(node.func)} is not supported", f"{wanted}, by place")
        return rule([self.named(self.scalar(part)) for part in arguments], self.builder.real)

    def late(self, name: str) -> bool:
        """Whether the name gets a value further down, which a loop brings back here."""
        raise NotImplementedError

    def user_call(self, found: Any, node: ast.Call) -> Value:
        raise NotImplementedError


def _named(node: ast.AST) -> str:
    words = {
        "ListComp": "a list comprehension",
        "List": "a list",
        "Dict": "a dictionary",
        "Set": "a set",
        "GeneratorExp": "a generator",
        "Lambda": "a lambda",
        "JoinedStr": "an f-string",
        "Starred": "a starred expression",
        "NamedExpr": ":=",
        "Await": "await",
        "Yield": "yield",
        "In": "in",
        "NotIn": "not in",
        "Is": "is",
        "IsNot": "is not",
        "MatMult": "@",
    }
    return words.get(type(node).__name__, type(node).__name__)
