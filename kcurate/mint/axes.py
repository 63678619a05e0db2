"""Axes of an operator bound to the extents of its operands: the shape rule, and linear indices of
elements."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kcurate.mint.graph import REST, Graph, Node, Operator
from kcurate.problem.expressions import evaluate, names_in
from kcurate.records import Expr

_NAME = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(r"\w+")
Shape = tuple[Expr, ...]


@dataclass(frozen=True)
class Binding:
    """Extents by axis, and those of the leading axes (`...`)."""

    extents: Mapping[str, Expr]
    rest: Shape

    def shape(self, axes: Sequence[str]) -> Shape:
        """The extents of some axes."""
        return tuple(part for axis in axes for part in (self.rest if axis == REST else (self.extents[axis],)))

    def extent(self, axis: str) -> Expr:
        """The extent of one axis; of `...`, the product of the leading ones (1 without any)."""
        if axis != REST:
            return self.extents[axis]
        return product(self.rest)


def product(shape: Shape) -> Expr:
    """The number of elements of a shape."""
    parts = [part if isinstance(part, int) or _NAME.fullmatch(part) else f"({part})" for part in shape]
    if all(isinstance(part, int) for part in parts):
        return math.prod(map(int, parts))
    return " * ".join(map(str, parts))


def bind(
    operator: Operator,
    shapes: Sequence[Shape | None],
    attributes: Mapping[str, int | float],
    new: Callable[[str], Expr],
) -> Binding | None:
    """Bind the operator's axes to its operands' shapes (None: a fresh input); returns None if these do not
    fit.

    `new` names the extent of an axis that only fresh inputs have.
    """
    extents = dict[str, Expr]()
    rest: Shape | None = None
    for parameter, shape in zip(operator.parameters, shapes, strict=True):
        if shape is None:
            continue
        names = [axis for axis in parameter.axes if axis != REST]
        leading = len(shape) - len(names)
        if leading < 0 or (leading and REST not in parameter.axes):
            return None
        if REST in parameter.axes:
            if rest is not None and rest != shape[:leading]:
                return None
            rest = shape[:leading]
        for axis, extent in zip(names, shape[leading:], strict=True):
            if extents.setdefault(axis, extent) != extent:
                return None
    derived = set(operator.extents)
    for parameter in operator.parameters:
        for axis in parameter.axes:
            if axis != REST and axis not in extents and axis not in derived:
                extents[axis] = new(axis)
    for axis, expression in operator.extents.items():
        value = substituted(expression, {**attributes, **extents})
        if extents.setdefault(axis, value) != value:
            return None
    return Binding(extents, rest or ())


def substituted(expression: str, names: Mapping[str, Expr | float]) -> Expr:
    """An extent with names replaced by what they stand for; an integer if no name is left."""

    def put(match: re.Match[str]) -> str:
        value = str(names.get(match[0], match[0]))
        alone = match[0] == expression or _NAME.fullmatch(value) or value.isdigit()
        return value if alone else f"({value})"

    text = _NAME.sub(put, expression)
    return text if names_in(text) else evaluate(text, {})


def binding_of(graph: Graph, node: Node, operator: Operator) -> Binding:
    """The binding of a node."""
    shapes = [graph.values[name].shape for name in node.operands]
    binding = bind(operator, shapes, node.attributes, lambda axis: axis)
    assert binding is not None, "a graph's nodes fit"
    return binding


def linear_index(axes: Sequence[str], extent: Callable[[str], str], index: Callable[[str], str]) -> str:
    """The text of an element's linear index, from its index along every axis, outermost first."""
    text = ""
    for axis in axes:
        at = index(axis)
        outer = text if _WORD.fullmatch(text) else f"({text})"
        behind = f"({at})" if "?" in at else at
        text = f"{outer} * {extent(axis)} + {behind}" if text else at
    return text or "0"


def elsewhere(axes: Sequence[str], subscripts: Sequence[str]) -> dict[str, str]:
    """The indices of `x[subscripts]` by axis: subscripts index the last axes, `...` all axes before them."""
    last = axes[len(axes) - len(subscripts) :]
    return {axis: text for axis, text in zip(last, subscripts, strict=True) if axis != REST}
