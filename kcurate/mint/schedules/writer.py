"""The text of nodes inside kernels: expressions at a place, and device functions of inlined nodes."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kcurate.mint.axes import binding_of, elsewhere, linear_index, product
from kcurate.mint.graph import REST, Graph, Node
from kcurate.mint.naive import C_TYPES, LOADS, STORES
from kcurate.mint.operators import OPERATORS
from kcurate.mint.scalar_text import c_number, c_text, parsed
from kcurate.problem.expressions import names_in
from kcurate.records import Expr

_WORD = re.compile(r"\w+")


@dataclass
class Needs:
    """The arrays and sizes that a text reads, in the order of their first use, and its device functions."""

    arrays: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, None] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)

    def parameters(self, graph: Graph) -> list[str]:
        """The C parameters."""
        pointers = [f"const {C_TYPES[graph.values[name].dtype]} *__restrict__ {name}" for name in self.arrays]
        return [*pointers, *(f"int {name}" for name in self.sizes)]

    def arguments(self) -> list[str]:
        """The names of all that is passed."""
        return [*self.arrays, *self.sizes]

    def add(self, other: Needs) -> None:
        """All that another text needs."""
        self.arrays.update(other.arrays)
        self.sizes.update(other.sizes)
        self.functions.update(other.functions)


class Writer:
    """Writes the expressions of one node in a kernel.

    `linear`: the text of the linear index over the operator's axes, at the current place. `values`: texts of
    operands that are in registers (by name of the value).
    """

    def __init__(
        self,
        graph: Graph,
        node: Node,
        inlined: frozenset[str],
        needs: Needs,
        *,
        linear: str = "",
        values: Mapping[str, str] | None = None,
    ) -> None:
        self.graph, self.node, self.inlined, self.needs = graph, node, inlined, needs
        self.operator = OPERATORS[node.operator]
        self.binding = binding_of(graph, node, self.operator)
        self.linear, self.values = linear, values or {}
        self.operands = dict(zip((p.name for p in self.operator.parameters), node.operands, strict=True))
        self.used_axes = set[str]()

    # Sizes and places

    def extent(self, axis: str) -> str:
        """The extent of an axis."""
        return self.size_text(self.binding.extent(axis))

    def size_text(self, extent: Expr) -> str:
        """An expression of sizes, whose names become parameters of the kernel."""
        self.needs.sizes.update(dict.fromkeys(sorted(names_in(extent))))
        text = str(extent)
        return text if _WORD.fullmatch(text) else f"({text})"

    def count(self, axes: Sequence[str]) -> str:
        """The product of the extents of axes."""
        return " * ".join(self.extent(axis) for axis in self.existing(axes)) or "1"

    def total(self, axes: Sequence[str]) -> Expr:
        """The product of the extents of axes, as an expression of a launch."""
        return product(tuple(self.binding.extent(axis) for axis in self.existing(axes)))

    def existing(self, axes: Sequence[str]) -> list[str]:
        """Axes without the leading ones where there are none."""
        return [axis for axis in axes if axis != REST or self.binding.rest]

    def index(self, axis: str) -> str:
        """The variable of an axis."""
        self.used_axes.add(axis)
        return self.local("row" if axis == REST else axis)

    def local(self, name: str) -> str:
        """A name of a local variable that hides no array and no size."""
        taken = name in self.graph.values or name in self.graph.sizes.headline
        return f"{name.rstrip('_')}_here" if taken else name

    def place(self, axes: Sequence[str], at: Mapping[str, str] | None = None) -> str:
        """The linear index of an element, from its index along every axis (`at`; else the current one)."""
        return linear_index(
            self.existing(axes), self.extent, lambda axis: (at or {}).get(axis) or self.index(axis)
        )

    def coordinates(self, linear: str, axes: Sequence[str]) -> list[str]:
        """Declares the index along each of `axes` that was used, from a linear index over all of them."""
        lines, present = [], self.existing(axes)
        for position, axis in enumerate(present):
            if axis not in self.used_axes:
                continue
            behind = self.count(present[position + 1 :])
            text = linear
            if behind != "1":
                text = f"{linear} / {behind if _WORD.fullmatch(behind) else f'({behind})'}"
            if position:
                text += f" % {self.extent(axis)}"
            lines.append(f"int {self.index(axis)} = {text};")
        return lines

    # Expressions

    def expression(self, expression: str) -> str:
        """An expression of the operator in C++."""
        return c_text(expression, self._name, self._element)

    def result(self) -> str:
        """The node's element at the current place, rounded to its type, as a float."""
        return self.rounded(self.expression(self.operator.result))

    def rounded(self, text: str) -> str:
        """A value as it is read back from the node's array."""
        stored = STORES.get(self.node.dtype)
        return text if stored is None else widened(self.node.dtype, stored.format(text))

    def stored(self, text: str) -> str:
        """A value as the node's array holds it."""
        return STORES.get(self.node.dtype, "{}").format(text)

    def _name(self, name: str) -> str:
        if name.startswith("size("):
            return self.extent(name[5:-1])
        if name in self.operands:
            operand = self.operands[name]
            if operand in self.values:
                return self.values[operand]
            axes = next(p.axes for p in self.operator.parameters if p.name == name)
            same = self.linear and axes == self.operator.axes
            return self._read(operand, self.linear if same else self.place(axes))
        if name in self.node.attributes:
            return c_number(self.node.attributes[name])
        if name == "inf":
            return "3.4e38f"
        if any(fold.name == name for fold in self.operator.folds):
            return self.local(name)
        return self.index(name)

    def _element(self, name: str, subscripts: Sequence[str]) -> str:
        axes = next(p.axes for p in self.operator.parameters if p.name == name)
        return self._read(self.operands[name], self.place(axes, elsewhere(axes, subscripts)))

    def _read(self, operand: str, place: str) -> str:
        """An element of an array, or the call that computes it."""
        if operand not in self.inlined:
            self.needs.arrays[operand] = ""
            return widened(self.graph.values[operand].dtype, f"{operand}[{place}]")
        node = self.graph.values[operand]
        assert isinstance(node, Node), "inputs are arrays"
        inner = Needs()
        writer = Writer(self.graph, node, self.inlined, inner, linear="e")
        value = writer.result()
        lines = [*writer.coordinates("e", writer.operator.out), f"return {value};"]
        head = ", ".join([*inner.parameters(self.graph), "int e"])
        body = "\n".join(f"    {line}" for line in lines)
        kind = "int" if node.dtype in ("int64", "int8") else "float"
        function = f"__device__ __forceinline__ {kind} {operand}_at({head})\n{{\n{body}\n}}\n"
        self.needs.add(inner)
        self.needs.functions[operand] = function
        return f"{operand}_at({', '.join([*inner.arguments(), place])})"


def widened(dtype: str, text: str) -> str:
    """An element of an array as it takes part in expressions."""
    return f"(int){text}" if dtype == "int64" else LOADS.get(dtype, "{}").format(text)


def names_of(expression: str) -> set[str]:
    """The names that an expression uses."""
    return {part.id for part in ast.walk(parsed(expression)) if isinstance(part, ast.Name)}


def axes_of(expression: str, writer: Writer) -> set[str]:
    """The axes that an expression depends on: those of its operands and those that it names."""
    axes = set[str]()
    for name in names_of(expression):
        parameter = next((p for p in writer.operator.parameters if p.name == name), None)
        axes |= set(parameter.axes) if parameter else {name}
    return axes
