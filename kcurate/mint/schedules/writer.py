"""The text of nodes inside kernels: expressions at an index, and device functions of inlined nodes."""

from __future__ import annotations

import ast
import copy
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kcurate.mint.axes import Shape, binding_of, elsewhere, linear_index, product
from kcurate.mint.graph import OPERATORS, REST, Graph, Node
from kcurate.mint.naive import C_TYPES, LOADS, STORES
from kcurate.mint.scalar_text import c_number, c_text_of, parsed
from kcurate.mint.schedules.tidy import tidied, uses
from kcurate.problem.expressions import names_in
from kcurate.records import Expr

_WORD = re.compile(r"\w+")


@dataclass
class Needs:
    """The arrays and sizes that a text reads, in the order of their first use, and its device functions."""

    arrays: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, None] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    places: set[str] = field(default_factory=set)
    loads: set[tuple[str, str]] = field(default_factory=set)
    locals: set[str] = field(default_factory=lambda: {"at"})

    def tidied(self, lines: Sequence[str]) -> list[str]:
        """The lines of a kernel, and only the sizes that these still use."""
        kept = tidied(lines, self.places, self.loads)
        self.sizes = {name: None for name in self.sizes if any(uses(line, name) for line in kept)}
        return kept

    def parameters(self, graph: Graph) -> list[str]:
        """The kernel's parameters in C."""
        pointers = [f"const {C_TYPES[graph.values[name].dtype]} *__restrict__ {name}" for name in self.arrays]
        return [*pointers, *(f"int {name}" for name in self.sizes)]

    def arguments(self) -> list[str]:
        """The names of the arguments, in the order of `parameters`."""
        return [*self.arrays, *self.sizes]

    def add(self, other: Needs) -> None:
        """Add everything that a called function needs."""
        self.arrays.update(other.arrays)
        self.sizes.update(other.sizes)
        self.functions.update(other.functions)

    def fresh(self, name: str) -> str:
        """A name of a local variable that no other has."""
        name = next(n for n in (name, *(f"{name}_{i}" for i in range(2, 99))) if n not in self.locals)
        self.locals.add(name)
        return name


@dataclass(frozen=True)
class Position:
    """A position in an array: the text of the linear index over some spans of its axes (`first` up to
    `last`)."""

    shape: Shape
    spans: Mapping[tuple[int, int], str]

    def at(self, first: int, last: int, size: Callable[[Expr], str]) -> str:
        """The linear index over a span, derived from known spans; `size` gives the text of an extent."""
        if (first, last) in self.spans:
            return self.spans[first, last]
        around = [(b - a, a, b) for a, b in self.spans if a <= first and last <= b]
        if not around:
            parts = [span for span in sorted(self.spans) if first <= span[0] and span[1] <= last]
            return linear_index(
                [str(number) for number in range(len(parts))],
                lambda number: size(product(self.shape[slice(*parts[int(number)])])),
                lambda number: self.spans[parts[int(number)]],
            )
        _, outer, end = min(around)
        text = self.spans[outer, end]
        if last < end:
            text += f" / {size(product(self.shape[last:end]))}"
        if first > outer:
            text += f" % {size(product(self.shape[first:last]))}"
        return text


class Writer:
    """Writes the expressions of one node in a kernel.

    `linear`: the text of the linear index over the operator's axes, for the current element. `values`: texts
    of operands that are in registers, by the value's name. `position`: the current position in the node's
    array if it is set from outside. `before`: lines that an expression needs before it.
    """

    equals = "{kind} {name} = {value};"

    def __init__(
        self,
        graph: Graph,
        node: Node,
        inlined: frozenset[str],
        needs: Needs,
        *,
        linear: str = "",
        values: Mapping[str, str] | None = None,
        position: Position | None = None,
    ) -> None:
        self.graph, self.node, self.inlined, self.needs = graph, node, inlined, needs
        self.operator = OPERATORS[node.operator]
        self.binding = binding_of(graph, node, self.operator)
        self.linear, self.values = linear, values or {}
        self.operands = dict(zip((p.name for p in self.operator.parameters), node.operands, strict=True))
        self.used_axes = set[str]()
        self.before: list[str] = []
        # Once a row's folds are known, what depends on them alone is computed before its elements.
        self.folds_done = False
        self.uniform = dict[str, str]()
        self.axis_names = dict[str, str]()
        self.standing: Position | None = None
        needs.locals |= {self.local(fold.name) for fold in self.operator.folds}
        if position is not None:
            self.stand(position)

    def stand(self, position: Position) -> None:
        """Set the index along each axis from a position in the node's array."""
        self.standing = position
        for axis, span in spans_of(self.operator.out, len(self.binding.rest)):
            if axis != REST or self.binding.rest:
                text = position.at(*span, self.size_text)
                whole = span == (0, len(position.shape)) and len(position.shape) > 1
                self.axis_names[axis] = self._named_local("int", "at" if whole else self.local(axis), text)

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
        extents = [self.extent(axis) for axis in self.existing(axes)]
        number = math.prod(int(extent) for extent in extents if extent.isdigit())
        names = [extent for extent in extents if not extent.isdigit()]
        return " * ".join([*names, *([str(number)] if number != 1 or not names else [])])

    def bare_count(self, axes: Sequence[str]) -> str:
        """`count` without parentheses, for use where no operator surrounds it."""
        text = self.count(axes)
        return text[1:-1] if re.fullmatch(r"\([^()]*\)", text) else text

    def total(self, axes: Sequence[str]) -> Expr:
        """The product of the extents of axes, as an expression of a launch."""
        return product(tuple(self.binding.extent(axis) for axis in self.existing(axes)))

    def existing(self, axes: Sequence[str]) -> list[str]:
        """The axes, without `...` if it stands for no axis."""
        return [axis for axis in axes if axis != REST or self.binding.rest]

    def index(self, axis: str) -> str:
        """The variable of an axis."""
        self.used_axes.add(axis)
        if axis not in self.axis_names:
            self.axis_names[axis] = self.local(axis)
            self.needs.locals.add(self.axis_names[axis])
        return self.axis_names[axis]

    def local(self, name: str) -> str:
        """A name for a local variable, such as an axis's, that shadows no array or size."""
        name = {REST: "row", "x_": "column"}.get(name, name)
        taken = name in self.graph.values or name in self.graph.sizes.headline
        return f"{name}_here" if taken else name

    def _named_local(self, kind: str, name: str, value: str) -> str:
        """Declare a variable before the current line."""
        name = self.needs.fresh(name)
        self.before.append(self.equals.format(kind=kind, name=name, value=value))
        return name

    def position(self, linear: str, axes: Sequence[str]) -> Position:
        """The current place in an array over some axes, as its linear index and the index along each axis."""
        rest = self.binding.rest
        spans = {span: self.index(a) for a, span in spans_of(axes, len(rest)) if a != REST or rest}
        shape = self.binding.shape(axes)
        return Position(shape, {**spans, (0, len(shape)): linear} if linear else spans)

    def take(self) -> list[str]:
        """The lines that the last expressions need before them; clears them."""
        lines, self.before = self.before, []
        return lines

    def linear_index(self, axes: Sequence[str], at: Mapping[str, str] | None = None) -> str:
        """The linear index of an element, from its index along every axis (in `at`, else the current
        index)."""
        text = linear_index(
            self.existing(axes), self.extent, lambda axis: (at or {}).get(axis) or self.index(axis)
        )
        self.needs.places.add(text)
        return text

    def coordinates(self, linear: str, axes: Sequence[str]) -> list[str]:
        """Declare the index along each used axis of `axes`, from a linear index over all of them."""
        position = Position(self.binding.shape(axes), {(0, len(self.binding.shape(axes))): linear})
        return [
            self.equals.format(kind="int", name=self.index(axis), value=position.at(*span, self.size_text))
            for axis, span in spans_of(axes, len(self.binding.rest))
            if axis in self.used_axes and axis in self.existing(axes)
        ]

    # Expressions

    def expression(self, expression: str) -> str:
        """An expression of the operator in C++."""
        return self.text(self.reduced(expression))

    def text(self, tree: ast.expr) -> str:
        """A tree in C++."""
        return c_text_of(tree, self._name, self._element)

    def reduced(self, expression: str) -> ast.expr:
        """The parsed expression, with variables in place of parts that are the same along a row."""
        tree = parsed(expression)
        if not self.folds_done:
            return tree
        changed = _Uniform(self).visit(copy.deepcopy(tree))
        assert isinstance(changed, ast.expr), "an expression stays one"
        return changed

    def result(self) -> str:
        """The node's element at the current index, rounded to its type, as a float."""
        return self.rounded(self.expression(self.operator.result))

    def rounded(self, text: str) -> str:
        """A value as it would be read back from the node's array."""
        stored = STORES.get(self.node.dtype)
        return text if stored is None else widened(self.node.dtype, stored.format(text))

    def stored(self, text: str) -> str:
        """A value as the node's array holds it."""
        return STORES.get(self.node.dtype, "{}").format(text)

    def _name(self, name: str) -> str:
        if name.startswith("size("):
            return self.extent(name[5:-1])
        if name in self.uniform:
            return self.uniform[name]
        if name in self.operands:
            return self.element(name)
        if name in self.node.attributes:
            return c_number(self.node.attributes[name])
        if name == "inf":
            return "3.4e38f"
        if any(fold.name == name for fold in self.operator.folds):
            return self.local(name)
        return self.index(name)

    def element(self, name: str) -> str:
        """The element of an operand at the current index."""
        operand = self.operands[name]
        axes = next(p.axes for p in self.operator.parameters if p.name == name)
        if operand in self.values:
            return self.values[operand]
        linear = self.linear if axes == self.operator.axes else ""
        if operand in self.inlined:
            same = self.standing is not None and axes == self.operator.out
            position = self.standing if same and self.standing else self.position(linear, axes)
            return self._computed(operand, position)
        text = self._read(operand, linear or self.linear_index(axes))
        self.needs.loads.add((text, operand))
        return text

    def _computed(self, operand: str, position: Position) -> str:
        """The variable that holds an operand computed at the current index."""
        node = self.graph.values[operand]
        assert isinstance(node, Node), "inputs are arrays"
        whole = position.spans.get((0, len(position.shape)), "")
        inner = self.inner(node, whole, position)
        value = inner.result()
        self.before += inner.take()
        return self._named_local(kind_of(node), operand, value)

    def inner(self, node: Node, linear: str, position: Position | None = None) -> Writer:
        """A writer of a node that this one reads, in the same kernel."""
        return type(self)(self.graph, node, self.inlined, self.needs, linear=linear, position=position)

    def through(
        self, nodes: Sequence[Node], index_text: str, position: Position, value: str
    ) -> tuple[list[str], str]:
        """The lines from this node's value through the epilogue nodes, and the text of the value to store."""
        lines, writer, above = list[str](), self, self.node
        for number, node in enumerate(nodes, 1):
            name = self.needs.fresh(above.name)
            lines.append(self.equals.format(kind=kind_of(above), name=name, value=value))
            writer = self.inner(node, index_text, position)
            writer.values = {above.name: name}
            value = writer.expression(writer.operator.result) if number == len(nodes) else writer.result()
            lines += writer.take()
            above = node
        return lines, writer.stored(value)

    def _element(self, name: str, subscripts: Sequence[str]) -> str:
        axes = next(p.axes for p in self.operator.parameters if p.name == name)
        return self._read(self.operands[name], self.linear_index(axes, elsewhere(axes, subscripts)))

    def _read(self, operand: str, index_text: str) -> str:
        """An element of an array, or the call that computes it."""
        if operand not in self.inlined:
            self.needs.arrays[operand] = ""
            return widened(self.graph.values[operand].dtype, f"{operand}[{index_text}]")
        node = self.graph.values[operand]
        assert isinstance(node, Node), "inputs are arrays"
        name, inner = f"{node.operator}_{operand}", Needs()
        writer = Writer(self.graph, node, self.inlined, inner, linear="e")
        value = writer.result()
        lines = [*writer.coordinates("e", writer.operator.out), *writer.take(), f"return {value};"]
        text = inner.tidied(["int e = place;", *lines])
        head = ", ".join([*inner.parameters(self.graph), "int place"])
        body = "\n".join(f"    {line}" for line in text)
        self.needs.add(inner)
        self.needs.functions[name] = (
            f"__device__ __forceinline__ {kind_of(node)} {name}({head})\n{{\n{body}\n}}\n"
        )
        return f"{name}({', '.join([*inner.arguments(), index_text])})"


class _Uniform(ast.NodeTransformer):
    """Replaces the largest parts of an expression that depend only on folds and sizes by variables."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.folds = {fold.name for fold in writer.operator.folds if fold.dtype == "float"}

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Call | ast.BinOp) and not isinstance(
            getattr(node, "op", None), ast.BitAnd | ast.BitOr
        ):
            axes = {part.args[0] for part in ast.walk(node) if isinstance(part, ast.Call) and _is_size(part)}
            functions = {part.func for part in ast.walk(node) if isinstance(part, ast.Call)}
            variables = {
                part.id
                for part in ast.walk(node)
                if isinstance(part, ast.Name) and part not in axes and part not in functions
            }
            known = self.folds | {*self.writer.node.attributes} | {*self.writer.uniform}
            if variables & self.folds and variables <= known:
                return ast.Name(self._name(node))
        return super().visit(node) if not isinstance(node, ast.Name) else node

    def _name(self, node: ast.Call | ast.BinOp) -> str:
        """Declare a variable for the part, and return its name."""
        key = f"${ast.unparse(node)}"
        if key not in self.writer.uniform:
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id
            stem = {"sqrt": "root", "log": "logarithm", "exp": "power"}.get(str(called), "factor")
            if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Call) and _is_size(node.right):
                stem = "mean"
            text = self.writer.text(node)
            self.writer.uniform[key] = self.writer._named_local("float", self.writer.local(stem), text)
        return key


def _is_size(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "size"


def spans_of(axes: Sequence[str], rest: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Each axis with its span of dimensions in a shape; `rest`: how many dimensions `...` stands for."""
    first = 0
    for axis in axes:
        last = first + (rest if axis == REST else 1)
        yield axis, (first, last)
        first = last


def kind_of(node: Node) -> str:
    """The C type of a value in a register."""
    return "int" if node.dtype in ("int64", "int8") else "float"


def widened(dtype: str, text: str) -> str:
    """An element of an array, converted to its type in expressions."""
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
