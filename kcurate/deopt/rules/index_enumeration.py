"""Bounds of an index, found by evaluating it for all values of its variables if there are few.

`bounds(ranges, node)` traces an expression to thread indices, counters of constant loops and constants, and
evaluates it for all their values that satisfy the conditions of enclosing `if`s (those that can be traced).
So `m - tx` after `if (tx <= m)` is never negative, which `ranges` cannot prove. Not covered: counters
declared before their loop, more than `MOST` combinations, values that are negative anywhere (refused, so that
signed and unsigned arithmetic agree).
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kcurate.cuda_source.parse.syntax_tree import Declared, Node, ancestors, bare
from kcurate.deopt.rules.ranges import LARGEST, Bounds, Ranges, changed_at, literal
from kcurate.deopt.rules.variable_uses import declaration_of

# The most combinations of values that are evaluated.
MOST = 1 << 14
MAX_DEPTH = 30
_SIGNS: Mapping[bytes, Callable[[int, int], int]] = {
    b"+": operator.add,
    b"-": operator.sub,
    b"*": operator.mul,
}
_RELATIONS: Mapping[bytes, Callable[[int, int], bool]] = {
    b"<": operator.lt, b"<=": operator.le, b">": operator.gt, b">=": operator.ge, b"==": operator.eq,
}  # fmt: skip
Values = Mapping[int | bytes, int]
Reading = Callable[[Values], int]


class _Untraceable(Exception):  # noqa: N818 - ends a search, not an error
    """An expression that cannot be traced, or leaves 0..2**31 - 1."""


def bounds(ranges: Ranges, node: Node) -> Bounds | None:
    """Inclusive bounds of an index at its position; None if it cannot be enumerated."""
    enumeration = _Enumeration(ranges)
    try:
        value = enumeration.read(node, 0)
    except _Untraceable:
        return None
    predicates = [enumeration.condition(comparison) for comparison in _conditions(node)]
    conditions = [predicate for predicate in predicates if predicate is not None]
    count = math.prod(map(len, enumeration.variables.values()))
    if not enumeration.variables or count > MOST:
        return None
    reached = []
    for chosen in itertools.product(*enumeration.variables.values()):
        names = dict(zip(enumeration.variables, chosen, strict=True))
        try:
            if all(condition(names) for condition in conditions):
                reached.append(value(names))
        except _Untraceable:
            return None
    return (min(reached), max(reached)) if reached else None


def _conditions(node: Node) -> Iterator[Node]:
    """Comparisons known to hold at a node: from the `if`s whose first branch contains it."""
    child = node
    for around in ancestors(node):
        if around.type == "if_statement" and child == around.child_by_field_name("consequence"):
            yield from _joined(bare(around.child_by_field_name("condition")))
        child = around


def _joined(node: Node) -> Iterator[Node]:
    if node.type == "binary_expression" and node.children[1].text == b"&&":
        yield from _joined(bare(node.child_by_field_name("left")))
        yield from _joined(bare(node.child_by_field_name("right")))
    else:
        yield node


def _within(value: int) -> int:
    if not 0 <= value <= LARGEST:
        raise _Untraceable
    return value


@dataclass(eq=False)
class _Enumeration:
    """Collects the variables of an expression, with the values of each, by declaration."""

    ranges: Ranges
    variables: dict[int | bytes, range] = field(default_factory=dict)

    def condition(self, node: Node) -> Callable[[Values], bool] | None:
        """A comparison of traceable expressions as a predicate; None for any other condition."""
        if node.type != "binary_expression" or node.children[1].text not in _RELATIONS:
            return None
        variables_before = dict(self.variables)
        try:
            left, right = (self.read(node.child_by_field_name(side), 0) for side in ("left", "right"))
        except _Untraceable:
            self.variables = variables_before
            return None
        relation = _RELATIONS[node.children[1].text]
        return lambda names: relation(left(names), right(names))

    def read(self, node: Node, depth: int) -> Reading:
        """A function that computes an expression's value from its variables.

        Raises:
            _Untraceable: it cannot be traced.
        """
        node = bare(node)
        if depth > MAX_DEPTH:
            raise _Untraceable
        if node.type == "number_literal" and (number := literal(node.text)) is not None:
            return lambda names: number
        if node.type == "field_expression":
            return self._builtin(node)
        if node.type == "identifier":
            return self._name(node, depth)
        if node.type == "binary_expression" and node.children[1].text in _SIGNS:
            left, right = (self.read(node.child_by_field_name(side), depth + 1) for side in ("left", "right"))
            sign = _SIGNS[node.children[1].text]
            return lambda names: _within(sign(left(names), right(names)))
        raise _Untraceable

    def _builtin(self, node: Node) -> Reading:
        text = b"".join(node.text.split())
        limits = self.ranges.of(node)
        if limits is None or not text.startswith(b"threadIdx."):
            raise _Untraceable
        self.variables[text] = range(limits[0], limits[1] + 1)
        return lambda names: names[text]

    def _name(self, node: Node, depth: int) -> Reading:
        variable = declaration_of(self.ranges.tree, self.ranges.function, node)
        if variable is None:
            if (constant := self.ranges.constant(node)) is None:
                raise _Untraceable
            return lambda names: constant
        if variable.value is None or variable.sizes or variable.stars or variable.reference:
            raise _Untraceable
        scope = variable.declaration.parent
        if scope.type == "for_statement" and scope.child_by_field_name("initializer") == variable.declaration:
            key = variable.node.start_byte
            self.variables[key] = self._counted(variable, scope)
            return lambda names: names[key]
        if changed_at(self.ranges.tree, scope, variable.name):
            raise _Untraceable
        return self.read(variable.value, depth + 1)

    def _counted(self, counter: Declared, loop: Node) -> range:
        """The values of a loop counter that steps by one, up or down, between constants."""
        condition, update = (loop.child_by_field_name(name) for name in ("condition", "update"))
        first = self.ranges.constant(counter.value)
        if first is None or condition is None or condition.type != "binary_expression" or update is None:
            raise _Untraceable
        limit = self.ranges.constant(condition.child_by_field_name("right"))
        plain = (
            condition.child_by_field_name("left").text == counter.name and update.type == "update_expression"
        )
        changes = changed_at(self.ranges.tree, loop, counter.name)
        if limit is None or not plain or changes != [update] or counter.type != b"int":
            raise _Untraceable
        relation, up = condition.children[1].text, b"++" in update.text
        if up and relation in (b"<", b"<="):
            return range(first, limit + (relation == b"<="))
        if not up and relation in (b">", b">="):
            return range(limit + (relation == b">"), first + 1)
        raise _Untraceable
