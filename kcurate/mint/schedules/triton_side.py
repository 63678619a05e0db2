"""The fast side of a graph in Triton: the groups of `fusing`, each a `@triton.jit` function.

| schedule | a program computes |
|---|---|
| `elements` | a block of elements |
| `outputs` | a block of elements, each with loops over its short sums |
| `columns` | the same for neighbouring columns |
| `warp-row`, `register-row` | some short rows, a row of lanes each |
| `cached-row` | one row in one block of lanes, which stays in registers |
| `block-row`, `online-row` | one row, a block of lanes after the other |
| `scan` | one row with a running sum |
| `tiles`, `tensor-cores` | a tile of a product by `tl.dot` |

Graphs with functions that Triton lacks (tanh, log1p, expm1, rounding to even, ranks) get no side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kcurate.mint.graph import OPERATORS, Fold, Graph
from kcurate.mint.naive import indented, scratch_buffers
from kcurate.mint.schedules.choice import factors, has_16_bit_factors, outer_axes, schedule_of
from kcurate.mint.schedules.fusing import Group, groups
from kcurate.mint.schedules.kernels import without_uniform
from kcurate.mint.schedules.sides import Answer
from kcurate.mint.schedules.triton_writer import TYPES, TritonWriter, UnfitError, called, variables
from kcurate.mint.schedules.writer import Needs, names_of
from kcurate.problem.expressions import evaluate
from kcurate.records import Arg, Expr, Launch, Side

BLOCK, COLUMNS, TILE, DEPTH = 1024, 64, 64, 32
# The longest row that one program holds.
LONGEST_ROW = 16384
# Short rows that one program holds.
SHORT_ROWS = 4
_FIRST = {"sum": "0", "max": "-3.4e38", "min": "3.4e38"}
_HEADER = "import triton\nimport triton.language as tl\n"


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
        writer.lanes = frozenset({"e", "flat", "item", *variables(writer, lanes)})
        return writer

    def epilogue(self, root: TritonWriter, place: str, *, blocks: bool) -> list[str]:
        """Lines from the root's value at `place` to the store; `blocks`: the value is a block of lanes."""
        value = root.expression(self.operator.result) if not self.group.epilogue else root.result()
        lines = root.take()
        if not blocks:
            root.mask, root.lanes = "", frozenset()
        else:
            root.lanes |= {place}
        position = root.position(place, self.operator.out)
        behind, stored = root.through(self.group.epilogue, place, position, value)
        guard = f", mask={root.mask}" if blocks else ""
        return [*lines, *behind, f"tl.store({self.out} + {place}, {stored}{guard})"]

    def _scheduled(self) -> tuple[str, list[str], tuple[Expr, ...]]:
        if self.operator.to:
            raise UnfitError("stores in places that depend on values")
        schedule = schedule_of(self.graph, self.writer((), ""))
        schedules: Mapping[str, Callable[[], tuple[list[str], tuple[Expr, ...]]]] = {
            "elements": self._elements, "outputs": self._outputs, "columns": self._outputs,
            "tiles": self._tiles,
            "tensor-cores": self._tiles, "scan": self._scan, "warp-row": self._short_rows,
            "register-row": self._short_rows, "cached-row": self._row,
        }  # fmt: skip
        return schedule, *schedules.get(schedule, self._long_row)()

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
        """Neighbouring elements (or columns of elements), each with its sums in loops."""
        operator = self.operator
        outer = [axis for axis in operator.axes if axis not in operator.row_axes]
        writer = self.writer(outer, "inside")
        work = list[str]()
        for fold in operator.folds:
            name, first = writer.local(fold.name), _FIRST[fold.how]
            kind = "tl.int32" if fold.dtype == "int" else "tl.float32"
            work.append(f"{name} = tl.full([{COLUMNS}], {first}, {kind})")
            work += _loops(writer, fold.over, _combined(writer, fold))
        store = [f"e = {writer.linear_index(operator.out)}", *self.epilogue(writer, "e", blocks=True)]
        work += _loops(writer, operator.row_axes, store)
        lines = [
            f"item = tl.program_id(0) * {COLUMNS} + tl.arange(0, {COLUMNS})",
            f"inside = item < {writer.bare_count(outer)}",
            *writer.coordinates("item", outer),
            *work,
        ]
        self.warps = COLUMNS // 32
        return lines, (f"ceil_div({writer.total(outer)}, {COLUMNS})",)

    def _row(self) -> tuple[list[str], tuple[Expr, ...]]:
        """One row in one block of lanes, kept in registers."""
        operator = self.operator
        over, outer = operator.folds[0].over, outer_axes(self.writer((), ""))
        if operator.row_axes and operator.row_axes != over:
            raise UnfitError("a result along other axes than the sums")
        writer = self.writer(over, "inside")
        blocks = bool(operator.row_axes)
        work = [*self._reduced(writer, "axis=0"), *self._store(writer, blocks=blocks)]
        self.constants = {"BLOCK": f"pow2(log2(2 * ({writer.total(over)}) - 1))"}
        lines = [
            *(["item = tl.program_id(0)"] if outer else []),
            "flat = tl.arange(0, BLOCK)",
            f"inside = flat < {writer.bare_count(over)}",
            *writer.coordinates("item", outer),
            *writer.coordinates("flat", over),
            *work,
        ]
        return lines, (writer.total(outer),)

    def _short_rows(self) -> tuple[list[str], tuple[Expr, ...]]:
        """Several short rows, a row of lanes each; the last program computes the last row again instead."""
        operator = self.operator
        over, outer = operator.folds[0].over, outer_axes(self.writer((), ""))
        if any(fold.over != over for fold in operator.folds) or operator.row_axes not in ((), over):
            return self._long_row()
        writer = self.writer(over, "inside")
        work = self._reduced(writer, "axis=1, keep_dims=True")
        work += self._store(writer, blocks=bool(operator.row_axes), guard="" if operator.row_axes else "live")
        self.constants = {"ROWS": SHORT_ROWS, "BLOCK": f"pow2(log2(2 * ({writer.total(over)}) - 1))"}
        lines = [
            "wanted = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]",
            f"live = wanted < {writer.bare_count(outer)}",
            f"item = tl.minimum(wanted, {writer.bare_count(outer)} - 1)",
            "flat = tl.arange(0, BLOCK)[None, :]",
            f"inside = live & (flat < {writer.bare_count(over)})",
            *writer.coordinates("item", outer),
            *writer.coordinates("flat", over),
            *work,
        ]
        return lines, (f"ceil_div({writer.total(outer)}, {SHORT_ROWS})",)

    def _reduced(self, writer: TritonWriter, axis: str) -> list[str]:
        """The folds of rows that are held as blocks of lanes."""
        lines, writer.folds_done = list[str](), True
        for fold in self.operator.folds:
            term = writer.expression(fold.term)
            held = f"tl.where(inside, {term}, {_FIRST[fold.how]})"
            lines += [*writer.take(), f"{writer.local(fold.name)} = tl.{fold.how}({held}, {axis})"]
        writer.folds_done = bool(self.operator.row_axes)
        return lines

    def _store(self, writer: TritonWriter, *, blocks: bool, guard: str = "") -> list[str]:
        place = writer.linear_index(self.operator.out)
        lines = [f"e = {place}", *self.epilogue(writer, "e", blocks=blocks)]
        return [*lines[:-1], f"{lines[-1][:-1]}, mask={guard})"] if guard else lines

    def _long_row(self) -> tuple[list[str], tuple[Expr, ...]]:
        """One row, one block of lanes after the other; each lane keeps its own sums until the row ends."""
        operator, folds = self.operator, list(self.operator.folds)
        outer = outer_axes(self.writer((), ""))
        writer = self.writer(operator.folded, "inside")
        work, writer.folds_done = list[str](), True
        if schedule_of(self.graph, writer) == "online-row":
            work, folds = self._online(writer), folds[2:]
        for fold in folds:
            name, first = writer.local(fold.name), _FIRST[fold.how]
            part = self.needs.fresh(f"{name}_of_lane")
            term = writer.expression(fold.term)
            before, uniform = without_uniform(writer, writer.take())
            held = f"tl.where(inside, {term}, {first})"
            update = f"{part} + {held}" if fold.how == "sum" else f"tl.{fold.how}imum({part}, {held})"
            kind = "tl.int32" if fold.dtype == "int" else "tl.float32"
            work += [*uniform, f"{part} = tl.full([BLOCK], {first}, {kind})"]
            work += self._by_blocks(writer, fold.over, [*before, f"{part} = {update}"])
            work.append(f"{name} = tl.{fold.how}({part}, axis=0)")
        writer.folds_done = bool(operator.row_axes)
        store, uniform = without_uniform(writer, self._store(writer, blocks=bool(operator.row_axes)))
        work += [
            *uniform,
            *(self._by_blocks(writer, operator.row_axes, store) if operator.row_axes else store),
        ]
        self.constants = {"BLOCK": BLOCK}
        lines = ["item = tl.program_id(0)", *writer.coordinates("item", outer)] if outer else []
        return [*lines, *work], (writer.total(outer),)

    def _online(self, writer: TritonWriter) -> list[str]:
        """Maximum and sum of exponentials in one pass: a lane rescales its sum when its maximum grows."""
        largest, total = self.operator.folds[:2]
        term = writer.expression(largest.term)
        m, s = writer.local(largest.name), writer.local(total.name)
        grow = [
            *writer.take(),
            f"value = tl.where(inside, {term}, -3.4e38)",
            "larger = tl.maximum(m_of_lane, value)",
            "s_of_lane *= tl.exp(m_of_lane - larger)",
            "s_of_lane += tl.where(inside, tl.exp(value - larger), 0)",
            "m_of_lane = larger",
        ]
        return [
            "m_of_lane = tl.full([BLOCK], -3.4e38, tl.float32)",
            "s_of_lane = tl.zeros([BLOCK], tl.float32)",
            *self._by_blocks(writer, largest.over, grow),
            f"{m} = tl.max(m_of_lane, axis=0)",
            f"{s} = tl.sum(s_of_lane * tl.exp(m_of_lane - {m}), axis=0)",
        ]

    def _by_blocks(self, writer: TritonWriter, over: Sequence[str], inner: Sequence[str]) -> list[str]:
        """A loop over the product of axes, a block of lanes at a time."""
        return [
            f"for start in range(0, {writer.bare_count(over)}, BLOCK):",
            *indented(
                [
                    "flat = start + tl.arange(0, BLOCK)",
                    f"inside = flat < {writer.bare_count(over)}",
                    *writer.coordinates("flat", over),
                    *inner,
                ]
            ),
        ]

    def _scan(self) -> tuple[list[str], tuple[Expr, ...]]:
        operator = self.operator
        (fold,), (axis,) = operator.folds, operator.row_axes
        writer = self.writer((axis,), "inside")
        longest = max(evaluate(writer.total((axis,)), sizes) for sizes in self.graph.sizes.all)
        if fold.how != "sum" or longest > LONGEST_ROW or fold.over != operator.row_axes:
            raise UnfitError("a scan that is no running sum along a row")
        outer = outer_axes(writer)
        index, extent = writer.index(axis), writer.extent(axis)
        term = writer.expression(fold.term)
        before = writer.take()
        store = [f"e = {writer.linear_index(operator.out)}", *self.epilogue(writer, "e", blocks=True)]
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

    def _tiles(self) -> tuple[list[str], tuple[Expr, ...]]:
        (fold,) = self.operator.folds
        parts = factors(self.writer((), ""))
        assert parts is not None, "it was chosen for tiles"
        left = self._tile_load(parts.left, parts.rows, parts.summed, ("row_a", "deep_a", "inside_a"))
        right = self._tile_load(parts.right, parts.columns, parts.summed, ("column_b", "deep_b", "inside_b"))
        writer = self.writer((*parts.rows, *parts.columns), "inside")
        batch = writer.existing(parts.batch)
        for axis in (*parts.rows, *parts.columns):
            writer.axis_names[axis] = self.needs.fresh(writer.local(axis))
        place = writer.linear_index(self.operator.out)
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
        """A tile of one factor, in the type that tensor cores take; `names`: of places and mask."""
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
            if p.name in names_of(part) and p.element != "index"
        }
        narrow = self.group.root.dtype
        if dtypes == {"int8"} and self.operator.folds[0].dtype == "int":
            cast = ".to(tl.int8)"
        else:
            cast = (
                f".to({TYPES[narrow]})"
                if has_16_bit_factors(self.graph, writer)
                else ".to(tl.float32)"
                if "int8" in dtypes
                else ""
            )
        return [
            *writer.coordinates(along, side),
            *writer.coordinates(deep, summed),
            *writer.take(),
            f"{name} = {called(value)}{cast}" if cast else f"{name} = {value}",
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
