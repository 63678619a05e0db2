"""The fast side of a graph in Triton: the groups of `fusing`, each a `@triton.jit` function.

| schedule | a program computes |
|---|---|
| `elements` | a block of elements |
| `outputs` | a block of elements, each with loops over its short sums; or neighbouring columns |
| `block-row` | one row in one block of lanes |
| `scan` | one row with a running sum |
| `tiles` | a tile of a product by `tl.dot` |

What Triton's language lacks (tanh, log1p, expm1, rounding to even, ranks) has no answer here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kcurate.mint.axes import elsewhere
from kcurate.mint.graph import REST, Fold, Graph, Node
from kcurate.mint.naive import indented, scratch_buffers
from kcurate.mint.operators import OPERATORS
from kcurate.mint.scalar_text import parsed
from kcurate.mint.schedules.fusing import Group, groups, is_free
from kcurate.mint.schedules.kernels import SHORT_SUM, sums_down_columns
from kcurate.mint.schedules.products import Factors, factors, headline_counts
from kcurate.mint.schedules.sides import Answer
from kcurate.mint.schedules.writer import Needs, Position, Writer
from kcurate.problem.expressions import evaluate
from kcurate.records import Arg, Expr, Launch, Side

BLOCK, COLUMNS, TILE, DEPTH = 1024, 64, 64, 32
# The longest row that one program holds.
LONGEST_ROW = 16384
_FUNCTIONS = {
    "exp": "tl.exp", "log": "tl.log", "sqrt": "tl.sqrt_rn", "rsqrt": "tl.rsqrt", "sin": "tl.sin",
    "cos": "tl.cos", "erf": "tl.erf", "abs": "tl.abs", "floor": "tl.floor", "max": "tl.maximum",
    "min": "tl.minimum",
}  # fmt: skip
_TYPES = {
    "bfloat16": "tl.bfloat16", "float16": "tl.float16", "int8": "tl.int8", "int64": "tl.int64",
    "float32": "tl.float32",
}  # fmt: skip
_SYMBOLS: Mapping[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|", ast.Lt: "<",
    ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_WORD = re.compile(r"[A-Za-z_]\w*")
_FIRST = {"sum": "0", "max": "-3.4e38", "min": "3.4e38"}
_HEADER = "import triton\nimport triton.language as tl\n"


class UnfitError(Exception):
    """Triton's language, or these schedules, cannot express the graph."""


def triton_side(graph: Graph) -> Answer | None:
    """The side; None if a group has no schedule in Triton."""
    joined, inlined = groups(graph)
    try:
        kernels = [_Kernel(graph, group, inlined, number) for number, group in enumerate(joined)]
        launches = [kernel.launch() for kernel in kernels]
    except UnfitError:
        return None
    functions = {name: text for kernel in kernels for name, text in kernel.needs.functions.items()}
    code = "\n\n".join([_HEADER, *functions.values(), *(kernel.text for kernel in kernels)])
    side = Side(
        code,
        tuple(launches),
        buffers=scratch_buffers(graph, (group.result for group in joined)),
        language="triton",
    )
    return Answer(side, tuple(kernel.schedule for kernel in kernels))


class TritonWriter(Writer):
    """Writes expressions as blocks of lanes.

    `mask`: where a lane may load; `lanes`: the variables that are blocks.
    """

    mask: str = ""
    lanes: frozenset[str] = frozenset()
    equals = "{name} = {value}"

    def inner(self, node: Node, linear: str, position: Position | None = None) -> TritonWriter:
        """As in C, under the same mask."""
        writer = TritonWriter(self.graph, node, self.inlined, self.needs, linear=linear)
        writer.mask, writer.lanes = self.mask, self.lanes
        if position is not None:
            writer.stand(position)
            blocks = [name for name in writer.axis_names.values() if self.of_lanes(writer.before, name)]
            writer.lanes |= frozenset(blocks)
        return writer

    def of_lanes(self, lines: Sequence[str], name: str) -> bool:
        """Whether a variable that some lines declare is a block."""
        return any(line.startswith(f"{name} = ") and self.lanes & set(_WORD.findall(line)) for line in lines)

    def size_text(self, extent: Expr) -> str:
        """As in C, with Python's division."""
        return re.sub(r"(?<!/)/(?!/)", "//", super().size_text(extent))

    def coordinates(self, linear: str, axes: Sequence[str]) -> list[str]:
        """As in C."""
        return [line.replace(f"{linear} / ", f"{linear} // ") for line in super().coordinates(linear, axes)]

    def _named_local(self, kind: str, name: str, value: str) -> str:
        return super()._named_local(kind, name, re.sub(r"^(\w+) / ", r"\1 // ", value) if kind == "int" else value)

    def text(self, tree: ast.expr) -> str:
        """A tree in Triton."""
        return self._text(tree, self.mask)[0]

    def rounded(self, text: str) -> str:
        """As in C."""
        if self.node.dtype == "float32":
            return text
        wide = "tl.int32" if self.node.dtype in ("int8", "int64") else "tl.float32"
        return f"{_called(text)}.to({_TYPES[self.node.dtype]}).to({wide})"

    def stored(self, text: str) -> str:
        """As in C."""
        return text if self.node.dtype == "float32" else f"{_called(text)}.to({_TYPES[self.node.dtype]})"

    def _text(self, node: ast.expr, mask: str, outer: int = 0) -> tuple[str, bool]:
        """The text, and whether it is an integer; `outer`: how tightly the operator around it binds."""
        text, integer = self._plain(node, mask)
        return f"({text})" if _tightness(node) < outer else text, integer

    def _plain(self, node: ast.expr, mask: str) -> tuple[str, bool]:
        match node:
            case ast.Constant(value=value):
                return repr(value), isinstance(value, int)
            case ast.Name(id=name):
                return self._named(name, mask)
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                parts = index.elts if isinstance(index, ast.Tuple) else [index]
                places = ["..." if _is_rest(part) else self._text(part, mask)[0] for part in parts]
                axes = next(p.axes for p in self.operator.parameters if p.name == name)
                return self._load(self.operands[name], self.place(axes, elsewhere(axes, places)), mask)
            case ast.UnaryOp(operand=operand):
                text, integer = self._text(operand, mask, 8)
                return f"-{text}", integer
            case ast.BinOp(left=left, op=op, right=right):
                tight = _tightness(node)
                (a, whole), (b, also) = self._text(left, mask, tight), self._text(right, mask, tight + 1)
                integer = whole and also
                divides = isinstance(op, ast.Div | ast.FloorDiv)
                symbol = ("//" if integer else "/") if divides else _SYMBOLS[type(op)]
                return f"{a} {symbol} {b}", integer
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                a, b = self._text(left, mask, 2)[0], self._text(right, mask, 2)[0]
                return f"{a} {_SYMBOLS[type(op)]} {b}", True
            case ast.IfExp(test=test, body=body, orelse=other):
                condition, guard = self._text(test, mask)[0], self._text(test, mask, 3)[0]
                yes, integer = self._text(body, f"{mask} & {guard}" if mask else guard)
                no, also = self._text(other, self._unless(test, mask))
                return f"tl.where({condition}, {yes}, {no})", integer and also
            case ast.Call(func=ast.Name(id="size"), args=[ast.Name(id=axis)]):
                return self.extent(axis), True
            case ast.Call(func=ast.Name(id=function), args=arguments):
                if function not in _FUNCTIONS:
                    raise UnfitError(function)
                texts = [self._text(argument, mask) for argument in arguments]
                integer = all(whole for _, whole in texts) and function in ("max", "min", "abs")
                return f"{_FUNCTIONS[function]}({', '.join(text for text, _ in texts)})", integer
        raise UnfitError(ast.unparse(node))

    def _unless(self, test: ast.expr, mask: str) -> str:
        """The mask where a condition does not hold."""
        if isinstance(test, ast.Compare):
            symbol = _SYMBOLS[type(test.ops[0])]
            left, right = (self._text(part, mask)[0] for part in (test.left, test.comparators[0]))
            opposite = f"({left} {_OPPOSITE[symbol]} {right})"
            return f"{mask} & {opposite}" if mask else opposite
        return mask

    def _named(self, name: str, mask: str) -> tuple[str, bool]:
        if name in self.uniform:
            return self.uniform[name], False
        if name in self.operands:
            integer = self.graph.values[self.operands[name]].dtype in ("int64", "int8")
            return self._here(name), integer
        if name in self.node.attributes:
            value = self.node.attributes[name]
            return repr(value), isinstance(value, int)
        if name == "inf":
            return "3.4e38", False
        for fold in self.operator.folds:
            if fold.name == name:
                return self.local(name), fold.dtype == "int"
        return self.index(name), True

    def _read(self, operand: str, place: str) -> str:
        return self._load(operand, place, self.mask)[0]

    def _load(self, operand: str, place: str, mask: str) -> tuple[str, bool]:
        dtype = self.graph.values[operand].dtype
        integer = dtype in ("int64", "int8")
        where = mask if set(_WORD.findall(place)) & self.lanes else ""
        if operand in self.inlined:
            return self._call(operand, place, where or "True"), integer
        self.needs.arrays[operand] = ""
        guard = f", mask={where}, other={0 if integer else 0.0}" if where else ""
        text = f"tl.load({operand} + {place}{guard})"
        if dtype != "float32":
            text += f".to({'tl.int32' if integer else 'tl.float32'})"
        return text, integer

    def _call(self, operand: str, place: str, mask: str) -> str:
        if mask == "True":
            raise UnfitError("a value of one row that is computed where it is read")
        node = self.graph.values[operand]
        assert isinstance(node, Node), "inputs are arrays"
        name, inner = f"{node.operator}_{operand}", Needs()
        writer = TritonWriter(self.graph, node, self.inlined, inner, linear="e")
        writer.mask, writer.lanes = "inside", frozenset({"e", *_variables(writer, writer.operator.out)})
        value = writer.result()
        lines = [*writer.coordinates("e", writer.operator.out), *writer.take(), f"return {value}"]
        body = inner.tidied(["e = place", *lines])
        head = ", ".join([*inner.arguments(), "place", "inside"])
        self.needs.add(inner)
        text = "\n".join(indented(body))
        self.needs.functions[name] = f"@triton.jit\ndef {name}({head}):\n{text}\n"
        return f"{name}({', '.join([*inner.arguments(), place, mask])})"


def _called(text: str) -> str:
    """A text that a method can be called of."""
    closed = re.fullmatch(r"[\w.]+|[\w.]+\([^()]*(\([^()]*\)[^()]*)*\)", text)
    return text if closed else f"({text})"


def _tightness(node: ast.expr) -> int:
    """How tightly the outermost operator of an expression binds in Python."""
    match node:
        case ast.Compare():
            return 1
        case ast.BinOp(op=ast.BitOr()):
            return 2
        case ast.BinOp(op=ast.BitAnd()):
            return 3
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            return 6
        case ast.BinOp():
            return 7
        case ast.UnaryOp():
            return 8
        case _:
            return 9


def _is_rest(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _variables(writer: Writer, axes: Sequence[str]) -> Iterator[str]:
    """The names of the variables of axes, without counting them as used."""
    for axis in axes:
        yield writer.local("row" if axis == REST else axis)


@dataclass
class _Kernel:
    graph: Graph
    group: Group
    inlined: frozenset[str]
    number: int
    needs: Needs = field(default_factory=Needs)

    def __post_init__(self) -> None:
        self.operator = OPERATORS[self.group.root.operator]
        stem = "_".join(dict.fromkeys(node.operator for node in (self.group.root, *self.group.epilogue)))
        self.name = f"{stem}_{self.number + 1}"
        self.constants: dict[str, Expr] = {}
        self.schedule, lines, self.grid = self._scheduled()
        lines = self.needs.tidied(lines)
        parameters = [*self.needs.arrays, self.out, *self.needs.sizes]
        head = ", ".join([*parameters, *(f"{name}: tl.constexpr" for name in self.constants)])
        body = "\n".join(indented(lines))
        self.text = f"@triton.jit\ndef {self.name}({head}):\n{body}\n"

    @property
    def out(self) -> str:
        return self.group.result.name

    def launch(self) -> Launch:
        """The launch."""
        arguments: list[Arg] = [*self.needs.arrays, self.out, *self.needs.sizes]
        return Launch(
            self.name, self.grid, args=tuple(arguments), constexprs=self.constants, num_warps=self.warps
        )

    warps: int = 4

    def writer(self, lanes: Sequence[str], mask: str, linear: str = "") -> TritonWriter:
        """A writer of the root: which axes are blocks of lanes."""
        writer = TritonWriter(self.graph, self.group.root, self.inlined, self.needs, linear=linear)
        writer.mask = mask
        writer.lanes = frozenset({"e", "flat", "item", *_variables(writer, lanes)})
        return writer

    def epilogue(self, root: TritonWriter, place: str, *, blocks: bool) -> list[str]:
        """Lines from the root's value at `place` to the store; `blocks`: the value is a block of lanes."""
        value = root.expression(self.operator.result) if not self.group.epilogue else root.result()
        lines, writer, above = root.take(), root, self.group.root
        if not blocks:
            root.mask, root.lanes = "", frozenset()
        else:
            root.lanes |= {place}
        position = root.position(place, self.operator.out)
        for number, node in enumerate(self.group.epilogue, 1):
            kept = root.needs.fresh(above.name)
            lines.append(f"{kept} = {value}")
            writer = root.inner(node, place, position)
            writer.values = {above.name: kept}
            last = number == len(self.group.epilogue)
            value = writer.expression(writer.operator.result) if last else writer.result()
            lines += writer.take()
            above = node
        guard = f", mask={root.mask}" if blocks else ""
        return [*lines, f"tl.store({self.out} + {place}, {writer.stored(value)}{guard})"]

    def _scheduled(self) -> tuple[str, list[str], tuple[Expr, ...]]:
        operator = self.operator
        if operator.to:
            raise UnfitError("stores in places that depend on values")
        writer = self.writer((), "")
        if is_free(operator):
            return "elements", *self._elements()
        parts = factors(self.group.root, writer)
        if parts is not None and min(headline_counts(self.graph, writer, parts)) >= 16:
            return "tiles", *self._tiles(parts)
        longest = self._longest(writer)
        if any(fold.running for fold in operator.folds):
            return "scan", *self._scan(longest)
        if longest <= SHORT_SUM or sums_down_columns(writer):
            return "outputs", *self._outputs()
        return "block-row", *self._row(longest)

    def _longest(self, writer: Writer) -> int:
        """The most terms of a sum at any size."""
        lengths = [writer.total(fold.over) for fold in self.operator.folds]
        return max(evaluate(length, sizes) for length in lengths for sizes in self.graph.sizes.all)

    def _elements(self) -> tuple[list[str], tuple[Expr, ...]]:
        axes = self.operator.out
        writer = self.writer(axes, "inside", "e")
        store = self.epilogue(writer, "e", blocks=True)
        self.constants = {"BLOCK": BLOCK}
        lines = [
            "e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            f"inside = e < {writer.bare_count(axes)}",
            *writer.coordinates("e", axes),
            *store,
        ]
        return lines, (f"ceil_div({writer.total(axes)}, {BLOCK})",)

    def _outputs(self) -> tuple[list[str], tuple[Expr, ...]]:
        """Neighbouring elements (or columns of elements), their sums in loops."""
        operator = self.operator
        outer = [axis for axis in operator.axes if axis not in operator.row_axes]
        writer = self.writer(outer, "inside")
        work = list[str]()
        for fold in operator.folds:
            name, first = writer.local(fold.name), _FIRST[fold.how]
            kind = "tl.int32" if fold.dtype == "int" else "tl.float32"
            work.append(f"{name} = tl.full([{COLUMNS}], {first}, {kind})")
            work += _loops(writer, fold.over, _combined(writer, fold))
        store = [f"e = {writer.place(operator.out)}", *self.epilogue(writer, "e", blocks=True)]
        work += _loops(writer, operator.row_axes, store)
        lines = [
            f"item = tl.program_id(0) * {COLUMNS} + tl.arange(0, {COLUMNS})",
            f"inside = item < {writer.bare_count(outer)}",
            *writer.coordinates("item", outer),
            *work,
        ]
        self.warps = COLUMNS // 32
        return lines, (f"ceil_div({writer.total(outer)}, {COLUMNS})",)

    def _row(self, longest: int) -> tuple[list[str], tuple[Expr, ...]]:
        """One row, all its lanes at once."""
        operator = self.operator
        over = operator.folds[0].over
        if longest > LONGEST_ROW or any(fold.over != over for fold in operator.folds):
            raise UnfitError("rows that one program cannot hold")
        if operator.row_axes and operator.row_axes != tuple(over):
            raise UnfitError("a result along other axes than the sums")
        outer = [axis for axis in operator.axes if axis not in operator.row_axes]
        writer = self.writer(over, "inside")
        work = list[str]()
        writer.folds_done = True
        for fold in operator.folds:
            kind, term = fold.how, writer.expression(fold.term)
            held = f"tl.where(inside, {term}, {_FIRST[fold.how]})"
            work += writer.take()
            work.append(f"{writer.local(fold.name)} = tl.{kind}({held}, axis=0)")
        blocks = writer.folds_done = bool(operator.row_axes)
        store = [f"e = {writer.place(operator.out)}", *self.epilogue(writer, "e", blocks=blocks)]
        length = writer.total(over)
        self.constants = {"BLOCK": f"pow2(log2(2 * ({length}) - 1))"}
        lines = [
            *(["item = tl.program_id(0)"] if writer.existing(outer) else []),
            "flat = tl.arange(0, BLOCK)",
            f"inside = flat < {writer.bare_count(over)}",
            *writer.coordinates("item", outer),
            *writer.coordinates("flat", over),
            *work,
            *store,
        ]
        return lines, (writer.total(outer),)

    def _scan(self, longest: int) -> tuple[list[str], tuple[Expr, ...]]:
        operator = self.operator
        (fold,) = operator.folds if len(operator.folds) == 1 else (None,)
        if (
            fold is None
            or fold.how != "sum"
            or longest > LONGEST_ROW
            or tuple(fold.over) != operator.row_axes
        ):
            raise UnfitError("a scan that is no running sum along a row")
        (axis,) = operator.row_axes
        outer = [other for other in operator.axes if other != axis]
        writer = self.writer((axis,), "inside")
        index, extent = writer.index(axis), writer.extent(axis)
        term = writer.expression(fold.term)
        before = writer.take()
        store = [f"e = {writer.place(operator.out)}", *self.epilogue(writer, "e", blocks=True)]
        self.constants = {"BLOCK": f"pow2(log2(2 * ({writer.total((axis,))}) - 1))"}
        lines = [
            *(["item = tl.program_id(0)"] if writer.existing(outer) else []),
            f"{index} = tl.arange(0, BLOCK)",
            f"inside = {index} < {extent}",
            *writer.coordinates("item", outer),
            *before,
            f"{writer.local(fold.name)} = tl.cumsum(tl.where(inside, {term}, 0), axis=0"
            f"{', reverse=True' if fold.backwards else ''})",
            *store,
        ]
        return lines, (writer.total(outer),)

    def _tiles(self, parts: Factors) -> tuple[list[str], tuple[Expr, ...]]:
        (fold,) = self.operator.folds
        left = self._tile_load(parts.left, parts.rows, parts.summed, ("row_a", "deep_a", "inside_a"))
        right = self._tile_load(parts.right, parts.columns, parts.summed, ("column_b", "deep_b", "inside_b"))
        writer = self.writer((*parts.rows, *parts.columns), "inside")
        batch = writer.existing(parts.batch)
        for axis in (*parts.rows, *parts.columns):
            writer.axis_names[axis] = self.needs.fresh(writer.local(axis))
        place = writer.place(self.operator.out)
        store = self.epilogue(writer, "e", blocks=True)
        rows, columns, depth = (writer.bare_count(axes) for axes in (parts.rows, parts.columns, parts.summed))
        for axis in batch:
            writer.index(axis)
        precise = "" if fold.dtype == "int" else ', input_precision="ieee"'
        kind = "tl.int32" if fold.dtype == "int" else "tl.float32"
        name = writer.local(fold.name)
        self.constants = {"ROWS": TILE, "COLUMNS": TILE, "DEPTH": DEPTH}
        lines = [
            *(["item = tl.program_id(2)", *writer.coordinates("item", batch)] if batch else []),
            "first_row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)",
            "first_column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)",
            f"{name} = tl.zeros([ROWS, COLUMNS], {kind})",
            f"for start in range(0, {depth}, DEPTH):",
            *indented(
                [
                    "inner = start + tl.arange(0, DEPTH)",
                    "row_a = tl.broadcast_to(first_row[:, None], (ROWS, DEPTH))",
                    "deep_a = tl.broadcast_to(inner[None, :], (ROWS, DEPTH))",
                    f"inside_a = (row_a < {rows}) & (deep_a < {depth})",
                    *left,
                    "column_b = tl.broadcast_to(first_column[None, :], (DEPTH, COLUMNS))",
                    "deep_b = tl.broadcast_to(inner[:, None], (DEPTH, COLUMNS))",
                    f"inside_b = (column_b < {columns}) & (deep_b < {depth})",
                    *right,
                    f"{name} += tl.dot(left, right{precise})",
                ]
            ),
            "down = tl.broadcast_to(first_row[:, None], (ROWS, COLUMNS))",
            "across = tl.broadcast_to(first_column[None, :], (ROWS, COLUMNS))",
            f"inside = (down < {rows}) & (across < {columns})",
            *writer.coordinates("down", parts.rows),
            *writer.coordinates("across", parts.columns),
            f"e = {place}",
            *store,
        ]
        grid = tuple(f"ceil_div({writer.total(axes)}, {TILE})" for axes in (parts.columns, parts.rows))
        return lines, (*grid, writer.total(batch))

    def _tile_load(
        self, part: str, side: Sequence[str], summed: Sequence[str], names: tuple[str, str, str]
    ) -> list[str]:
        """A tile of one factor, in the type that the tensor cores take; `names`: of places and of the mask."""
        along, deep, inside = names
        writer = self.writer((), inside)
        for axis in (*side, *summed):
            writer.axis_names[axis] = self.needs.fresh(writer.local(axis))
        writer.lanes |= frozenset(writer.axis_names.values())
        value = writer.expression(part)
        name = "left" if along == "row_a" else "right"
        dtypes = {
            self.graph.values[writer.operands[p.name]].dtype
            for p in self.operator.parameters
            if p.name in part and p.element != "index"
        }
        narrow = self.group.root.dtype
        if dtypes == {"int8"} and self.operator.folds[0].dtype == "int":
            cast = ".to(tl.int8)"
        else:
            same = dtypes == {narrow} and narrow in ("bfloat16", "float16")
            cast = f".to({_TYPES[narrow]})" if same else ".to(tl.float32)" if "int8" in dtypes else ""
        return [
            *writer.coordinates(along, side),
            *writer.coordinates(deep, summed),
            *writer.take(),
            f"{name} = {_called(value)}{cast}" if cast else f"{name} = {value}",
        ]


def _combined(writer: TritonWriter, fold: Fold) -> list[str]:
    name, term = writer.local(fold.name), writer.expression(fold.term)
    line = f"{name} += {term}" if fold.how == "sum" else f"{name} = tl.{fold.how}imum({name}, {term})"
    return [*writer.take(), line]


def _loops(writer: TritonWriter, axes: Sequence[str], inner: Sequence[str]) -> list[str]:
    """Nested loops over axes."""
    lines = list(inner)
    for axis in reversed(writer.existing(axes)):
        lines = [f"for {writer.index(axis)} in range({writer.extent(axis)}):", *indented(lines)]
    return lines
