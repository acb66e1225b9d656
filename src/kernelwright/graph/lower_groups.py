"""Which nodes share a kernel: groups grown from their last node backwards, as long as they fit one nest and pay.

A group is convex: no value leaves it and comes back through a node outside. A node whose value is also needed outside
becomes a further output of the kernel, unless it is cheap to compute twice. Groups that reduce the same rows become
one, which reads them once. What a group saves is the memory traffic of its inner values, so it must hold at least two
operators that touch a whole tensor, or one that is heavy (see Rule), reduces, or has a large tensor.
"""

import heapq
import math
import operator
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from torch import fx
from torch.fx.node import Node

from kernelwright.graph.lower_layout import Layout, layout, memory_order
from kernelwright.graph.lower_rule import Rule
from kernelwright.graph.lower_rules import FIRST_OF, rule_of
from kernelwright.graph.node import example_size, tensor_of

LARGEST_GROUP = 64
LONGEST_CHAIN = 16
"""Values of a row taken in at once."""
LARGEST_SIGNATURE = 24
"""Operands and results of one kernel."""
LEAST_ELEMENTS = 2048
"""A heavy operator or a reduction alone is worth a kernel from this size on; below it a call costs more than the
work."""
LEAST_LIGHT_ELEMENTS = 1 << 18
"""Any other operator alone is worth a kernel from this size on: where memory limits, one may be faster than torch's
by writing past the caches."""
LONGEST_LONE_ROW = 1 << 16
"""Reductions run one thread a row: fewer than 4 rows longer than this are left to torch, which shares them out, but
for a lone row that is passed over once."""


@dataclass(frozen=True)
class Group:
    """Nodes that share a kernel, in graph order, with their layout."""

    nodes: tuple[Node, ...]
    rules: Mapping[Node, Rule]
    layout: Layout
    results: tuple[Node, ...]
    """Those whose values are needed outside."""
    borrowed: frozenset[Node]
    """Those that others compute for themselves as well, because that is cheaper than to write and read the value."""

    @property
    def owned(self) -> tuple[Node, ...]:
        """The nodes that the graph loses to the group: all but the borrowed, and operators whose result they are."""
        sources = (first_of(node) for node in self.nodes)
        return (*(source for source in sources if source), *(n for n in self.nodes if n not in self.borrowed))


def groups_of(graph: fx.Graph, taken: Collection[Node] = ()) -> list[Group]:
    """The groups of the graph, later ones first. None owns another's nodes or those `taken`, and together they leave
    no circle."""
    return _Grouping(graph, taken).groups()


def first_of(node: Node) -> Node | None:
    """The operator with several results of which the node is the first, if it has a rule."""
    source = node.args[0] if node.target is operator.getitem else None
    return source if isinstance(source, Node) and source.target in FIRST_OF else None


class _Grouping:
    def __init__(self, graph: fx.Graph, taken: Collection[Node]) -> None:
        self.order = {node: place for place, node in enumerate(graph.nodes)}
        free = [node for node in graph.nodes if node not in taken]
        self.rules = {node: rule for node in free if (rule := rule_of(node)) is not None}
        self.unit = {node: node for node in graph.nodes}
        """A grouped node's last fellow; itself for a node alone."""
        self.fused: set[Node] = set()
        self.lent: dict[Node, list[Node]] = {}
        """What groups read by way of nodes that they borrow, and those groups' last nodes."""
        self.before = self._ancestors()

    def groups(self) -> list[Group]:
        found = []
        for root in reversed(list(self.order)):
            rule = self.rules.get(root)
            if rule is None or rule.view or not rule.uses or root in self.fused:
                continue
            group = self._grown(root)
            if group is not None and _pays(group):
                group = self._beside(group, found)
                root = group.nodes[-1]
                found.append(group)
                self.fused |= set(group.owned)
                for node in group.owned:
                    self.unit[node] = root
                for use in (use for node in group.borrowed for use in group.rules[node].uses):
                    if use.node not in group.nodes:
                        self.lent.setdefault(use.node, []).append(root)
                self.before = self._ancestors()
        return found

    def _ancestors(self) -> dict[Node, int]:
        """For each unit the set of units it needs, directly or not, as bits by the graph order of their last nodes."""
        needs: dict[Node, set[Node]] = {}
        for node in self.order:
            own = needs.setdefault(self.unit[node], set())
            own |= {self.unit[operand] for operand in node.all_input_nodes} - {self.unit[node]}
        before: dict[Node, int] = {}
        waiting = list(reversed(needs))
        while waiting:
            unit = waiting[-1]
            if unit in before:
                waiting.pop()
                continue
            missing = [need for need in needs[unit] if need not in before]
            if missing:
                waiting += missing
                continue
            bits = 0
            for need in needs[unit]:
                bits |= before[need] | (1 << self.order[need])
            before[unit] = bits
            waiting.pop()
        return before

    def _grown(self, root: Node) -> Group | None:
        """The largest group that ends in `root`, adding operands from the nearest backwards."""
        best = self._group([root])
        if best is None:
            return None
        seen = {root}
        candidates: list[tuple[int, Node]] = []

        def look_at(nodes: Iterable[Node]) -> None:
            for use in (use for node in nodes for use in self.rules[node].uses):
                if use.node not in seen and use.node in self.rules and use.node not in self.fused:
                    seen.add(use.node)
                    heapq.heappush(candidates, (-self.order[use.node], use.node))

        look_at([root])
        while candidates and len(best.nodes) < LARGEST_GROUP:
            _, node = heapq.heappop(candidates)
            if node in best.nodes:
                continue
            rows = self._row_values(node)
            for more in ([] if self._of_larger_rows(rows, best) else [node], rows):
                grown = self._group([*more, *best.nodes]) if more else None
                if grown is not None:
                    best = grown
                    look_at(more)
                    break
        return self._without_idle_views(best)

    def _beside(self, group: Group, found: list[Group]) -> Group:
        """The group together with those found before that reduce the same rows, which are taken away: what they share
        is read once."""
        for other in [other for other in found if _same_rows(group, other)]:
            merged = self._group([*group.nodes, *other.nodes])
            if merged is not None and len(merged.nodes) <= LARGEST_GROUP:
                group = merged
                found.remove(other)
        return group

    def _row_values(self, node: Node) -> list[Node]:
        """The node with what leads to it from reductions: values of a row make sense only together with those."""
        found = [node]
        for member in found:
            if self.rules[member].reduced or len(found) > LONGEST_CHAIN:
                continue
            for use in self.rules[member].uses:
                fits = use.node in self.rules and use.node not in self.fused and use.node not in found
                if fits and _elements(use.node) <= _elements(node):
                    found.append(use.node)
        return found if any(self.rules[member].reduced for member in found) else []

    def _of_larger_rows(self, rows: Iterable[Node], group: Group) -> bool:
        """Whether a group that reduces leaves row values to the rows they come from: there they cost nothing, and what
        several reductions of the same rows say is put together in one pass."""
        elements = math.prod(example_size(size) for size in group.layout.dims)
        if elements < LEAST_ELEMENTS or not any(group.rules[node].reduced for node in group.nodes):
            return False
        reduced = (self.rules[node] for node in rows if self.rules[node].reduced)
        return any(math.prod(example_size(size) for size in rule.space) > elements for rule in reduced)

    def _users(self, node: Node) -> list[Node]:
        """Where the value is used; an operator of which only the first result counts stands for that."""
        users: list[Node] = []
        for user in node.users:
            results = [result for result in user.users if result in self.rules and first_of(result) is user]
            users += results or [user]
        return users

    def _cheap(self, node: Node) -> bool:
        """Whether to compute the value again costs less than to write it and read it back."""
        rule = self.rules[node]
        return rule.view or not rule.uses or (len(rule.uses) == 1 and not rule.heavy and not rule.reduced)

    def _group(self, nodes: Iterable[Node]) -> Group | None:
        """The nodes as a group, if that is convex, fits one nest, and every value needed outside can be written."""
        nodes = sorted(set(nodes), key=self.order.__getitem__)
        members = set(nodes)
        outside: dict[Node, list[Node]] = {}
        borrowed: frozenset[Node] = frozenset()
        for node in reversed(nodes):  # what is borrowed exists outside as well, and needs its operands there
            outside[node] = [user for user in self._users(node) if user not in members or user in borrowed]
            outside[node] += self.lent.get(node, [])
            if outside[node] and self._cheap(node) and node is not nodes[-1]:
                borrowed |= {node}
        results = tuple(node for node in nodes if outside[node] and node not in borrowed)
        needed = 0
        for node in nodes:
            needed |= self.before[self.unit[node]]
        if any(needed >> self.order[self.unit[user]] & 1 for node in results for user in outside[node]):
            return None
        if not results or any(memory_order(tensor_of(node)) is None for node in results):
            return None
        operands = {use.node for node in nodes for use in self.rules[node].uses} - members
        if len(operands) + len(results) > LARGEST_SIGNATURE:
            return None
        found = layout(nodes, self.rules)
        if found is None:
            return None
        rows = math.prod(example_size(size) for size in found.dims[: len(found.dims) - found.inner])
        row = math.prod(example_size(size) for size in found.dims[len(found.dims) - found.inner :])
        if rows * row == 0 or (
            found.inner
            and rows < 4
            and row > LONGEST_LONE_ROW
            and not (rows == 1 and self._one_pass(nodes, results, found))
        ):
            return None
        for node in nodes:
            rule = self.rules[node]
            if not found.covers(node) and (node in results or (rule.uses and not rule.view)):
                return None
        return Group(tuple(nodes), {node: self.rules[node] for node in nodes}, found, results, borrowed)

    def _one_pass(self, nodes: list[Node], results: Iterable[Node], found: Layout) -> bool:
        """Whether a lone row is passed over once, by reductions: those are shared out among threads."""
        reduced = [node for node in nodes if self.rules[node].reduced]
        heavy = any(self.rules[node].heavy for node in reduced)  # norms and softmax make several passes
        return len(reduced) == 1 and not heavy and all(found.covers(node) == "row" for node in results)

    def _without_idle_views(self, group: Group) -> Group | None:
        """Without views at the group's border: the kernel reads what they show without them."""
        members = list(group.nodes)
        while True:
            inside = set(members)
            kept = [n for n in members if not (n in group.borrowed or group.rules[n].view) or self._feeds(n, inside)]
            if kept == members:
                return group if len(members) == len(group.nodes) else self._group(members)
            members = kept

    def _feeds(self, node: Node, inside: set[Node]) -> bool:
        """Whether something inside the group leads into the node, or it is worth computing there."""
        rule = self.rules[node]
        return not rule.view or any(use.node in inside for use in rule.uses)


def _same_rows(group: Group, other: Group) -> bool:
    """Whether both reduce rows of the same space, and read a whole tensor of it that is the same."""
    if not group.layout.inner or (group.layout.dims, group.layout.inner) != (other.layout.dims, other.layout.inner):
        return False
    elements = math.prod(example_size(size) for size in group.layout.dims)
    return any(_elements(node) == elements for node in _read(group) & _read(other))


def _read(group: Group) -> set[Node]:
    """What the group reads from outside."""
    return {use.node for node in group.nodes for use in group.rules[node].uses} - set(group.nodes)


def _elements(node: Node) -> int:
    return math.prod(example_size(size) for size in tensor_of(node).shape)


def _pays(group: Group) -> bool:
    """See the module. Whole-tensor operators are those with an element for each of the domain, or a reduction."""
    whole = [
        node
        for node in group.nodes
        if not group.rules[node].view
        and group.rules[node].uses
        and (group.rules[node].reduced or group.layout.covers(node) == "element")
    ]
    elements = math.prod(example_size(size) for size in group.layout.dims)
    worth = any(group.rules[node].heavy or group.rules[node].reduced for node in whole)
    least = LEAST_ELEMENTS if worth else LEAST_LIGHT_ELEMENTS
    return len(whole) >= 2 or (bool(whole) and elements >= least)
