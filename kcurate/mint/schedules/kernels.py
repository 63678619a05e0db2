"""Kernels of a fast side: what each thread, warp or block computes of a group.

| schedule | a thread, warp or block computes | for |
|---|---|---|
| `elements` | a thread four elements, a block apart | nodes without sums |
| `outputs` | a thread one element | short sums, windows, ranks |
| `block-row` | a block one row | sums along rows |
| `warp-row` | a warp one row | sums along short rows |
| `columns` | a block 32 columns, eight threads each | sums down columns |
| `scan` | a block one row, tile by tile | running sums |

Products have `tiles`. Not covered: which nodes share a kernel (`fusing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcurate.mint.axes import product
from kcurate.mint.graph import REST, Fold, Graph, Node
from kcurate.mint.naive import C_TYPES, FIRST, indented
from kcurate.mint.operators import OPERATORS
from kcurate.mint.schedules.fusing import Group
from kcurate.mint.schedules.writer import Needs, Writer
from kcurate.problem.expressions import evaluate
from kcurate.records import Arg, Expr, Launch

# Sums of at most so many terms stay with one thread; rows of at most so many elements with one warp.
SHORT_SUM, SHORT_ROW = 16, 256
UNROLL = 4
INDENT = "    "


@dataclass
class Kernel:
    """A kernel's text and launch. `schedule` names how it runs."""

    schedule: str
    text: str
    launch: Launch
    needs: Needs
    helpers: tuple[str, ...] = ()


@dataclass
class Body:
    """What the schedules share: a group, its writer, and the names of the kernel."""

    graph: Graph
    group: Group
    inlined: frozenset[str]
    name: str
    block: int

    def __post_init__(self) -> None:
        self.needs = Needs()
        self.operator = OPERATORS[self.group.root.operator]

    def writer(self, linear: str = "") -> Writer:
        """A writer of the root."""
        return Writer(self.graph, self.group.root, self.inlined, self.needs, linear=linear)

    @property
    def out(self) -> str:
        """The name of the array that the kernel writes."""
        return self.group.result.name

    def epilogue(self, root: Writer, place: str) -> list[str]:
        """Lines from the root's value at a place (a name) to the store."""
        if not self.group.epilogue:
            return [f"{self.out}[{place}] = {root.stored(root.expression(self.operator.result))};"]
        node = self.group.root
        first = f"{_kind(node)} {node.name}_value = {root.result()};"
        return scoped([first, *self._rest_of_epilogue(node, 0, place, {})])

    def _rest_of_epilogue(self, above: Node, number: int, place: str, known: Mapping[str, str]) -> list[str]:
        node = self.group.epilogue[number]
        values = {above.name: f"{above.name}_value"}
        writer = Writer(self.graph, node, self.inlined, self.needs, linear=place, values=values)
        last = number + 1 == len(self.group.epilogue)
        value = writer.expression(writer.operator.result) if last else writer.result()
        where = {line.split()[1]: line for line in writer.coordinates(place, writer.operator.out)}
        lines = [line for name, line in where.items() if known.get(name) != line]
        if last:
            lines.append(f"{self.out}[{place}] = {writer.stored(value)};")
        else:
            lines.append(f"{_kind(node)} {node.name}_value = {value};")
            lines += self._rest_of_epilogue(node, number + 1, place, {**known, **where})
        # One name for two axes: the second hides the first, in a scope of its own.
        clash = any(name in known and known[name] != line for name, line in where.items())
        return scoped(lines) if clash else lines

    def kernel(
        self,
        schedule: str,
        lines: Sequence[str],
        grid: Sequence[Expr],
        block: Sequence[Expr],
        helpers: Sequence[str] = (),
    ) -> Kernel:
        """The kernel around its lines; `grid` and `block` as in a launch."""
        parameters = [
            *(text for text in self.needs.parameters(self.graph) if not text.startswith("int ")),
            f"{C_TYPES[self.group.result.dtype]} *__restrict__ {self.out}",
            *(text for text in self.needs.parameters(self.graph) if text.startswith("int ")),
        ]
        threads = product(tuple(block))
        head = f"__global__ void __launch_bounds__({threads})\n{self.name}({', '.join(parameters)})"
        body = "\n".join(indented(lines))
        arguments: list[Arg] = [*self.needs.arrays, self.out, *self.needs.sizes]
        launch = Launch(self.name, tuple(grid), tuple(block), tuple(arguments))
        return Kernel(schedule, f"{head}\n{{\n{body}\n}}\n", launch, self.needs, tuple(helpers))


def scoped(lines: Sequence[str]) -> list[str]:
    """Lines with declarations of their own, in a scope of their own."""
    return ["{", *indented(lines), "}"]


def _kind(node: Node) -> str:
    return "int" if node.dtype in ("int64", "int8") else "float"


def elements(body: Body) -> Kernel:
    """A thread computes four elements, so that several loads are under way at once."""
    writer = body.writer("e")
    store = body.epilogue(writer, "e")
    total = writer.count(body.operator.out)
    inner = [*writer.coordinates("e", body.operator.out), *store]
    step = body.block * UNROLL
    lines = [
        f"int total = {total};",
        f"int first = blockIdx.x * {step} + threadIdx.x;",
        "#pragma unroll",
        f"for (int part = 0; part < {UNROLL}; ++part) {{",
        f"{INDENT}int e = first + part * {body.block};",
        *indented(["if (e < total) {", *indented(inner), "}"]),
        "}",
    ]
    count = product(body.group.result.shape)
    return body.kernel("elements", lines, (f"ceil_div({count}, {step})",), (body.block,))


def outputs(body: Body) -> Kernel:
    """A thread computes one element of the result, with all its sums; or one row of scattered stores."""
    operator = body.operator
    writer = body.writer("e")
    # Sums along an axis of the result are over other places than the element's own.
    sums = body.writer() if operator.row_axes else writer
    folds = [line for fold in operator.folds for line in fold_alone(sums, fold, fold.over)]
    writer.used_axes |= sums.used_axes - set(operator.row_axes)
    if operator.to:
        at = {
            axis: writer.local(text) if text.isidentifier() else text
            for axis, text in zip(operator.out, operator.to, strict=True)
            if axis != REST
        }
        place = writer.place(operator.out, at)
        value = writer.stored(writer.expression(operator.result))
        store = [f"{body.out}[{place}] = {value};"]
        if operator.only:
            store = [f"if ({writer.expression(operator.only)})", *indented(store)]
    else:
        store = body.epilogue(writer, "e")
    axes = operator.axes
    lines = [
        f"int e = blockIdx.x * {body.block} + threadIdx.x;",
        f"if (e >= {writer.count(axes)}) return;",
        *writer.coordinates("e", axes),
        *folds,
        *store,
    ]
    count = writer.total(axes)
    return body.kernel("outputs", lines, (f"ceil_div({count}, {body.block})",), (body.block,))


def declared(writer: Writer, fold: Fold) -> str:
    """The accumulator of a fold."""
    return f"{fold.dtype} {writer.local(fold.name)} = {FIRST[fold.how][fold.dtype == 'int']};"


def combined(writer: Writer, fold: Fold, other: str) -> str:
    """The line that takes another value into the accumulator."""
    name = writer.local(fold.name)
    if fold.how == "sum":
        return f"{name} += {other};"
    function = f"f{fold.how}f" if fold.dtype == "float" else fold.how
    return f"{name} = {function}({name}, {other});"


def fold_alone(writer: Writer, fold: Fold, over: Sequence[str]) -> list[str]:
    """A fold by one thread: nested loops."""
    lines = [combined(writer, fold, writer.expression(fold.term))]
    for axis in reversed(writer.existing(over)):
        index = writer.index(axis)
        lines = [
            f"for (int {index} = 0; {index} < {writer.extent(axis)}; ++{index}) {{",
            *indented(lines),
            "}",
        ]
    return [declared(writer, fold), *lines]


def strided(writer: Writer, axes: Sequence[str], inner: Sequence[str], first: str, step: str) -> list[str]:
    """A loop over the product of axes by several threads, each at every `step`-th place."""
    present = writer.existing(axes)
    if len(present) == 1:
        index = writer.index(present[0])
        head = f"for (int {index} = {first}; {index} < {writer.extent(present[0])}; {index} += {step}) {{"
        return [head, *indented(inner), "}"]
    head = f"for (int flat = {first}; flat < {writer.count(present)}; flat += {step}) {{"
    return [head, *indented([*writer.coordinates("flat", present), *inner]), "}"]


def outer_axes(writer: Writer) -> list[str]:
    """The axes of the result along which nothing is summed."""
    operator = writer.operator
    return writer.existing([axis for axis in operator.axes if axis not in operator.row_axes])


def sums_down_columns(writer: Writer) -> bool:
    """Whether neighbouring results are neighbours in memory, and the terms of a sum are not."""
    operator, outer = writer.operator, outer_axes(writer)
    last = {p.axes[-1] for p in operator.parameters if p.axes and set(p.axes) & set(operator.folded)}
    return bool(outer) and not last & set(operator.folded) and (outer[-1] in last or REST in last)


def rows(body: Body, *, warp: bool) -> Kernel:
    """A block or a warp computes what one row of sums needs, then the row's elements."""
    operator, writer = body.operator, body.writer()
    outer = outer_axes(writer)
    first, step = ("lane", "32") if warp else ("threadIdx.x", str(body.block))
    work = list[str]()
    helpers = list[str]()
    for fold in operator.folds:
        helper = f"{'warp' if warp else 'block'}_{fold.how}_{fold.dtype}"
        helpers.append(helper)
        name = writer.local(fold.name)
        work.append(declared(writer, fold))
        work += strided(
            writer, fold.over, [combined(writer, fold, writer.expression(fold.term))], first, step
        )
        work.append(f"{name} = {helper}({name});")
    place = writer.place(operator.out)
    store = ["int e = " + place + ";", *body.epilogue(writer, "e")]
    if operator.row_axes:
        work += strided(writer, operator.row_axes, store, first, step)
    else:
        work += [f"if ({first} == 0) {{", *indented(store), "}"]
    count = writer.total(outer)
    total = writer.count(outer)
    if warp:
        per_block = body.block // 32
        lines = [
            "int lane = threadIdx.x & 31;",
            f"int item = blockIdx.x * {per_block} + (threadIdx.x >> 5);",
            f"if (item >= {total}) return;",
        ]
        grid: Expr = f"ceil_div({count}, {per_block})"
    else:
        lines, grid = ["int item = blockIdx.x;"], count
    lines += [*writer.coordinates("item", outer), *work]
    if not writer.existing(outer):
        lines = lines[2:] if warp else lines[1:]
        lines = (["int lane = threadIdx.x & 31;"] if warp else []) + work
    return body.kernel("warp-row" if warp else "block-row", lines, (grid,), (body.block,), helpers)


def columns(body: Body) -> Kernel:
    """A block computes 32 neighbouring columns; eight threads add up each, so that loads are coalesced."""
    operator, writer = body.operator, body.writer()
    outer = outer_axes(writer)
    work = list[str]()
    helpers = list[str]()
    for fold in operator.folds:
        helper = f"column_{fold.how}_{fold.dtype}"
        helpers.append(helper)
        name = writer.local(fold.name)
        work.append(declared(writer, fold))
        term = [combined(writer, fold, writer.expression(fold.term))]
        loop = strided(writer, fold.over, term, "threadIdx.y", "8")
        work += ["if (item < total) {", *indented(loop), "}", f"{name} = {helper}({name});"]
    store = [f"int e = {writer.place(operator.out)};", *body.epilogue(writer, "e")]
    if operator.row_axes:
        loop = strided(writer, operator.row_axes, store, "threadIdx.y", "8")
        work += ["if (item < total) {", *indented(loop), "}"]
    else:
        work += ["if (item < total && threadIdx.y == 0) {", *indented(store), "}"]
    lines = [
        f"int total = {writer.count(outer)};",
        "int item = blockIdx.x * 32 + threadIdx.x;",
        *writer.coordinates("item", outer),
        *work,
    ]
    count = writer.total(outer)
    return body.kernel("columns", lines, (f"ceil_div({count}, 32)",), (32, 8), helpers)


def scan(body: Body) -> Kernel:
    """A block runs along one row, a tile at a time: scans of warps, then of their totals, then the carry."""
    operator, writer = body.operator, body.writer()
    (axis,) = operator.row_axes
    (fold,) = operator.folds
    name, extent, index = writer.local(fold.name), writer.extent(axis), writer.index(axis)
    helper = f"block_scan_{fold.how}_{fold.dtype}"
    term = writer.expression(fold.term)
    store = [f"int e = {writer.place(operator.out)};", *body.epilogue(writer, "e")]
    at = f"{extent} - 1 - place" if fold.backwards else "place"
    first = FIRST[fold.how][fold.dtype == "int"]
    outer = [a for a in operator.axes if a != axis]
    tile = [
        "int place = start + threadIdx.x;",
        f"int {index} = {at};",
        f"{fold.dtype} {name} = place < {extent} ? {term} : {first};",
        f"{name} = {helper}({name}, &carry);",
        f"if (place < {extent}) {{",
        *indented(store),
        "}",
    ]
    lines = [
        *(["int item = blockIdx.x;"] if writer.existing(outer) else []),
        *writer.coordinates("item", outer),
        f"{fold.dtype} carry = {first};",
        f"for (int start = 0; start < {extent}; start += {body.block}) {{",
        *indented(tile),
        "}",
    ]
    count = writer.total(outer)
    return body.kernel("scan", lines, (count,), (body.block,), (helper,))


def headline(graph: Graph, extent: Expr) -> int:
    """An extent at the headline size."""
    return evaluate(extent, graph.sizes.headline)
