"""Kernels of a fast side: which part of a group's result each thread, warp or block computes.

| schedule | by | computes | for |
|---|---|---|---|
| `vectors` | thread | four neighbouring elements, by vector loads and stores | nodes without sums or moves |
| `row-elements` | block | one row of elements | moves and broadcasts along long rows |
| `elements` | thread | four elements, `block` apart | all other nodes without sums |
| `outputs` | thread | one element | short sums, windows, ranks |
| `block-row` | block | one row | sums along rows that are read once |
| `cached-row` | block | one row, kept in shared memory | rows that are read more than once |
| `online-row` | block | one row by online softmax | one result per row; rows too long to keep |
| `warp-row` | warp | one row | sums along short rows that are read once |
| `register-row` | warp | one row, kept in registers | short rows that are read more than once |
| `columns` | block | 32 columns, eight threads each | sums down columns |
| `scan` | block | one row, tile by tile | running sums |

Products have `tiles`. Not covered: which nodes share a kernel (`fusing`), which schedule it gets (`choice`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kcurate.mint.axes import product
from kcurate.mint.graph import OPERATORS, REST, Fold, Graph
from kcurate.mint.naive import C_TYPES, FIRST, indented
from kcurate.mint.schedules.choice import Schedule, cacheable, outer_axes
from kcurate.mint.schedules.fusing import Group
from kcurate.mint.schedules.writer import Needs, Writer
from kcurate.problem.expressions import evaluate
from kcurate.records import Arg, Expr, Launch

UNROLL = 4
# The vector type of four elements.
_VECTORS = {"float32": "float4", "bfloat16": "uint2", "float16": "uint2", "int8": "char4"}
INDENT = "    "


@dataclass
class Kernel:
    """A kernel's text and launch; `helpers`: the device functions that it calls."""

    schedule: Schedule
    text: str
    launch: Launch
    needs: Needs
    helpers: tuple[str, ...] = ()


@dataclass
class Body:
    """The state that all schedules share: a group, its writer, and the names of the kernel."""

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

    def vectors(self) -> bool:
        """Whether all arrays have the result's shape, and types with a vector of four."""
        arrays = [self.graph.values[name] for name in self.needs.arrays]
        shape = self.group.result.shape
        return all(value.shape == shape and value.dtype in _VECTORS for value in (*arrays, self.group.result))

    @property
    def out(self) -> str:
        """The name of the array that the kernel writes."""
        return self.group.result.name

    def epilogue(self, root: Writer, index: str) -> list[str]:
        """The lines from the root's value through the epilogue to the store; `index`: a variable's name."""
        value = root.expression(self.operator.result) if not self.group.epilogue else root.result()
        lines = root.take()
        position = root.position(index, self.operator.out)
        after, stored = root.through(self.group.epilogue, index, position, value)
        return [*lines, *after, self.store_line(index, stored)]

    def store_line(self, index: str, value: str) -> str:
        """The line that writes an element."""
        return f"{self.out}[{index}] = {value};"

    def kernel(
        self,
        schedule: Schedule,
        lines: Sequence[str],
        grid: Sequence[Expr],
        block: Sequence[Expr],
        helpers: Sequence[str] = (),
        shared_bytes: Expr = 0,
    ) -> Kernel:
        """The complete kernel with these lines as its body; `grid`, `block` and `shared_bytes` as in a
        launch."""
        lines = self.needs.tidied(lines)
        parameters = [
            *(text for text in self.needs.parameters(self.graph) if not text.startswith("int ")),
            f"{C_TYPES[self.group.result.dtype]} *__restrict__ {self.out}",
            *(text for text in self.needs.parameters(self.graph) if text.startswith("int ")),
        ]
        threads = product(tuple(block))
        head = f"__global__ void __launch_bounds__({threads})\n{self.name}({', '.join(parameters)})"
        body = "\n".join(indented(lines))
        arguments: list[Arg] = [*self.needs.arrays, self.out, *self.needs.sizes]
        launch = Launch(self.name, tuple(grid), tuple(block), tuple(arguments), shared_bytes=shared_bytes)
        return Kernel(schedule, f"{head}\n{{\n{body}\n}}\n", launch, self.needs, tuple(helpers))


def elements(body: Body) -> Kernel:
    """A thread computes four elements, so that several loads are in flight at once."""
    operator, writer = body.operator, body.writer("e")
    work = body.epilogue(writer, "e")
    indexed = body.needs.tidied([*writer.coordinates("e", operator.out), *work])
    # Vectors need `e` to be the only index, and to be used for nothing else.
    if body.vectors() and not re.search(r"(?<!\[)\be\b|\[(?!e\])", " ".join(indexed)):
        return vectors(body, indexed)
    if _along_rows(body):
        return row_elements(body)
    total = writer.bare_count(operator.out)
    step = body.block * UNROLL
    lines = [
        f"int total = {total};",
        f"int first = blockIdx.x * {step} + threadIdx.x;",
        "#pragma unroll",
        f"for (int part = 0; part < {UNROLL}; ++part) {{",
        f"{INDENT}int e = first + part * {body.block};",
        *indented(["if (e < total) {", *indented([*writer.coordinates("e", operator.out), *work]), "}"]),
        "}",
    ]
    count = product(body.group.result.shape)
    return body.kernel("elements", lines, (f"ceil_div({count}, {step})",), (body.block,))


def _along_rows(body: Body) -> bool:
    """Whether the result has rows that are long enough for a block each."""
    axes, writer = body.operator.out, body.writer()
    outer = writer.existing(axes[:-1])
    if not outer or axes[-1] == REST:
        return False
    return evaluate(writer.total(axes[-1:]), body.graph.sizes.headline) >= body.block


def row_elements(body: Body) -> Kernel:
    """A block computes one row, so that no thread divides to find its element's coordinates."""
    axes, writer = body.operator.out, body.writer()
    place = writer.linear_index(axes)
    inner = [f"int e = {place};", *body.epilogue(writer, "e")]
    loop = strided(writer, axes[-1:], inner, "threadIdx.x", str(body.block))
    lines = ["int item = blockIdx.x;", *writer.coordinates("item", axes[:-1]), *loop]
    return body.kernel("row-elements", lines, (writer.total(axes[:-1]),), (body.block,))


def vectors(body: Body, work: Sequence[str]) -> Kernel:
    """A thread loads and stores four neighbouring elements at once; the last thread may have fewer."""
    arrays = {name: body.graph.values[name].dtype for name in body.needs.arrays}
    types = {name: (C_TYPES[dtype], _VECTORS[dtype]) for name, dtype in arrays.items()}
    element, vector = C_TYPES[body.group.result.dtype], _VECTORS[body.group.result.dtype]
    inside = [re.sub(r"\b(\w+)\[e\]", r"\1_four[i]", line) for line in work]
    loads = [
        line
        for name, (scalar, four) in types.items()
        for line in (
            f"__align__(16) {scalar} {name}_four[4];",
            f"*({four} *){name}_four = *(const {four} *)({name} + first);",
        )
    ]
    # The lines are tidied again, which finds loads by their text: both forms occur.
    body.needs.loads |= {(text.replace("[e]", "_four[i]"), name) for text, name in body.needs.loads}
    total = body.writer().bare_count(body.operator.out)
    lines = [
        f"int total = {total};",
        f"int first = (blockIdx.x * {body.block} + threadIdx.x) * 4;",
        "if (first + 4 <= total) {",
        *indented(
            [
                *dict.fromkeys(loads),
                f"__align__(16) {element} {body.out}_four[4];",
                "#pragma unroll",
                "for (int i = 0; i < 4; ++i) {",
                *indented(inside),
                "}",
                f"*({vector} *)({body.out} + first) = *({vector} *){body.out}_four;",
            ]
        ),
        "} else {",
        "    for (int e = first; e < total; ++e) {",
        *indented(indented(work)),
        "    }",
        "}",
    ]
    count = product(body.group.result.shape)
    return body.kernel("vectors", lines, (f"ceil_div({count}, {body.block * UNROLL})",), (body.block,))


def outputs(body: Body) -> Kernel:
    """A thread computes one element of the result with all its sums, or makes one store of a scatter."""
    operator = body.operator
    writer = body.writer("e")
    # A sum along an axis of the result runs over all its elements, not only this thread's.
    sums = body.writer() if operator.row_axes else writer
    folds = [line for fold in operator.folds for line in fold_alone(sums, fold, fold.over)]
    writer.used_axes |= sums.used_axes - set(operator.row_axes)
    if operator.to:
        at = {
            axis: writer.local(text) if text.isidentifier() else text
            for axis, text in zip(operator.out, operator.to, strict=True)
            if axis != REST
        }
        index_text = writer.linear_index(operator.out, at)
        value = writer.stored(writer.expression(operator.result))
        store = [*writer.take(), body.store_line(index_text, value)]
        if operator.only:
            only = writer.expression(operator.only)
            store = [*writer.take(), f"if ({only}) {{", *indented(store), "}"]
    else:
        store = body.epilogue(writer, "e")
    axes = operator.axes
    lines = [
        f"int e = blockIdx.x * {body.block} + threadIdx.x;",
        f"if (e >= {writer.bare_count(axes)}) return;",
        *writer.coordinates("e", axes),
        *folds,
        *store,
    ]
    count = writer.total(axes)
    return body.kernel("outputs", lines, (f"ceil_div({count}, {body.block})",), (body.block,))


def declared(writer: Writer, fold: Fold) -> str:
    """The accumulator of a fold."""
    return f"{fold.dtype} {writer.local(fold.name)} = {FIRST[fold.how][fold.dtype == 'int']};"


def combined(writer: Writer, fold: Fold) -> list[str]:
    """The lines that fold one more value into the accumulator."""
    name, other = writer.local(fold.name), writer.expression(fold.term)
    if fold.how == "sum":
        return [*writer.take(), f"{name} += {other};"]
    function = f"f{fold.how}f" if fold.dtype == "float" else fold.how
    return [*writer.take(), f"{name} = {function}({name}, {other});"]


def fold_alone(writer: Writer, fold: Fold, over: Sequence[str]) -> list[str]:
    """A fold by one thread alone, as nested loops."""
    lines = combined(writer, fold)
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
    head = f"for (int flat = {first}; flat < {writer.bare_count(present)}; flat += {step}) {{"
    return [head, *indented([*writer.coordinates("flat", present), *inner]), "}"]


def rows(body: Body, schedule: Schedule) -> Kernel:
    """A block or a warp computes the folds of one row, then the row's elements."""
    operator, writer = body.operator, body.writer()
    outer, row = outer_axes(writer), _Row(body, writer, schedule)
    folds, helpers, work = list(operator.folds), list[str](), row.begin()
    writer.folds_done = True
    if schedule == "online-row":
        work += online(writer, row)
        helpers, folds = ["block_max_float", "block_sum_float"], folds[2:]
    for fold in folds:
        helpers.append(f"{row.group}_{fold.how}_{fold.dtype}")
        work += row.sum(fold, helpers[-1], keep=fold is folds[0])
    index_text, writer.folds_done = writer.linear_index(operator.out), bool(operator.row_axes)
    store, uniform = without_uniform(writer, body.epilogue(writer, "e"))
    store = [f"int e = {index_text};", *store]
    if operator.row_axes:
        work += [*uniform, *row.loop(operator.row_axes, store)]
    else:
        work += [f"if ({row.first} == 0) {{", *indented([*uniform, *store]), "}"]
    count, lines = writer.total(outer), list[str]()
    if row.group == "warp":
        per_block = body.block // 32
        lines = [
            "int lane = threadIdx.x & 31;",
            f"int item = blockIdx.x * {per_block} + (threadIdx.x >> 5);",
            f"if (item >= {writer.bare_count(outer)}) return;",
        ]
        count = f"ceil_div({count}, {per_block})"
    elif outer:
        lines = ["int item = blockIdx.x;"]
    lines += [*writer.coordinates("item", outer), *work]
    shared = f"4 * ({writer.total(folds[0].over)})" if schedule == "cached-row" else 0
    return body.kernel(schedule, lines, (count,), (body.block,), helpers, shared)


class _Row:
    """How the threads of a block or a warp loop over a row, and where they keep it between passes."""

    def __init__(self, body: Body, writer: Writer, schedule: Schedule) -> None:
        self.writer, self.schedule = writer, schedule
        self.group = "warp" if schedule in ("warp-row", "register-row") else "block"
        self.first, self.step = ("lane", "32") if self.group == "warp" else ("threadIdx.x", str(body.block))
        self.kept = cacheable(writer) if schedule in ("cached-row", "register-row") else None
        over = writer.operator.folds[0].over
        longest = max(evaluate(writer.total(over), sizes) for sizes in body.graph.sizes.all)
        self.parts = -(-longest // 32)

    def begin(self) -> list[str]:
        """The declaration of the array that keeps the row, if any."""
        if self.schedule == "cached-row":
            return ["extern __shared__ float cached[];  // each thread reads only what it wrote"]
        return [f"float kept[{self.parts}];"] if self.kept else []

    def loop(self, axes: Sequence[str], inner: Sequence[str]) -> list[str]:
        """The loop over a row around `inner`, the lines for one element."""
        if self.schedule != "register-row":
            return strided(self.writer, axes, inner, self.first, self.step)
        (axis,) = axes
        index = self.writer.index(axis)
        return [
            "#pragma unroll",
            f"for (int part = 0; part < {self.parts}; ++part) {{",
            f"{INDENT}int {index} = lane + 32 * part;",
            *indented([f"if ({index} < {self.writer.extent(axis)}) {{", *indented(inner), "}"]),
            "}",
        ]

    def sum(self, fold: Fold, helper: str, *, keep: bool) -> list[str]:
        """A fold along the row by all its threads; `keep`: this pass also keeps the row."""
        writer, before = self.writer, list[str]()
        if keep and self.kept:
            operand = writer.operands[self.kept]
            value = writer.needs.fresh(f"{operand}_value")
            place = (
                "kept[part]" if self.schedule == "register-row" else f"cached[{writer.index(fold.over[0])}]"
            )
            text = writer.element(self.kept)
            before = [*writer.take(), f"float {value} = {text};", f"{place} = {value};"]
            writer.values = {operand: value}
            term = combined(writer, fold)
            writer.values = {operand: place}
        else:
            term = combined(writer, fold)
        term, uniform = without_uniform(writer, term)
        name = writer.local(fold.name)
        loop = self.loop(fold.over, [*before, *term])
        return [*uniform, declared(writer, fold), *loop, f"{name} = {helper}({name});"]


def without_uniform(writer: Writer, lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Two lists: the lines that differ between the elements of a row, and those that do not."""
    names = {name for key, name in writer.uniform.items() if key.startswith("$")}
    uniform = [line for line in lines if line.startswith("float ") and line.split()[1] in names]
    uniform += [line for line in lines if line.partition(" = ")[0] in names]
    return [line for line in lines if line not in uniform], uniform


def online(writer: Writer, row: _Row) -> list[str]:
    """Both folds in one pass: the sum is rescaled whenever the maximum grows (online softmax)."""
    largest, total = (writer.local(fold.name) for fold in writer.operator.folds[:2])
    term = writer.expression(writer.operator.folds[0].term)
    grow = [
        *writer.take(),
        f"float value = {term};",
        f"float larger = fmaxf({largest}, value);",
        f"{total} = {total} * expf({largest} - larger) + expf(value - larger);",
        f"{largest} = larger;",
    ]
    return [
        *(declared(writer, fold) for fold in writer.operator.folds[:2]),
        *row.loop(writer.operator.folds[0].over, grow),
        f"float own_largest = {largest};",
        f"{largest} = block_max_float({largest});",
        f"{total} = block_sum_float({total} * expf(own_largest - {largest}));",
    ]


def columns(body: Body) -> Kernel:
    """A block computes 32 neighbouring columns, each by eight threads, so that loads are coalesced."""
    operator, writer = body.operator, body.writer()
    outer = outer_axes(writer)
    work = list[str]()
    helpers = list[str]()
    for fold in operator.folds:
        helper = f"column_{fold.how}_{fold.dtype}"
        helpers.append(helper)
        name = writer.local(fold.name)
        work.append(declared(writer, fold))
        writer.folds_done = True
        term, uniform = without_uniform(writer, combined(writer, fold))
        loop = strided(writer, fold.over, term, "threadIdx.y", "8")
        work += [*uniform, "if (item < total) {", *indented(loop), "}", f"{name} = {helper}({name});"]
    writer.folds_done = bool(operator.row_axes)
    store, uniform = without_uniform(writer, body.epilogue(writer, "e"))
    store = [f"int e = {writer.linear_index(operator.out)};", *store]
    work += uniform
    if operator.row_axes:
        loop = strided(writer, operator.row_axes, store, "threadIdx.y", "8")
        work += ["if (item < total) {", *indented(loop), "}"]
    else:
        work += ["if (item < total && threadIdx.y == 0) {", *indented(store), "}"]
    lines = [
        f"int total = {writer.bare_count(outer)};",
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
    before = writer.take()
    store = [f"int e = {writer.linear_index(operator.out)};", *body.epilogue(writer, "e")]
    at = f"{extent} - 1 - place" if fold.backwards else "place"
    first = FIRST[fold.how][fold.dtype == "int"]
    outer = [a for a in operator.axes if a != axis]
    tile = [
        "int place = start + threadIdx.x;",
        f"int {index} = {at};",
        f"{fold.dtype} {name} = {first};",
        f"if (place < {extent}) {{",
        *indented([*before, f"{name} = {term};"]),
        "}",
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
