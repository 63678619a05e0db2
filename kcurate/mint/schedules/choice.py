"""Which schedule a kernel gets, from its reductions and their lengths; the same for CUDA and Triton.

For `softmax(x)` along rows of 64 the answer is `register-row`, of 4,000 `cached-row`, of 20,000 `online-row`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kcurate.mint.graph import REST, Graph
from kcurate.mint.scalar_text import parsed
from kcurate.mint.schedules.fusing import is_free
from kcurate.mint.schedules.writer import Writer, axes_of, names_of
from kcurate.problem.expressions import evaluate
from kcurate.records import Expr

Schedule = Literal[
    "elements",  # no reduction: each thread computes some elements
    "vectors", "row-elements",  # in CUDA: `elements` by 16-byte loads, or with one block per row
    "outputs",  # one thread per output, which reduces alone
    "tiles",  # one block per tile of a matrix product, staged in shared memory, accumulated in registers
    "tensor-cores",  # the same by WMMA
    "scan",  # a running reduction along a row
    "columns",  # a reduction down columns: neighbouring threads take neighbouring columns, so loads coalesce
    "register-row",  # one warp per row, kept in registers between passes
    "warp-row",  # one warp per row, read again in each pass
    "cached-row",  # one block per row, kept in shared memory between passes
    "block-row",  # one block per row, read again in each pass
    "online-row",  # one block per row, maximum and sum of exponentials in one pass (online softmax)
]  # fmt: skip
# The longest sum that one thread computes, and the longest row that one warp computes.
SHORT_SUM, SHORT_ROW = 16, 512
# The longest row that the lanes of a warp keep in registers, eight elements each.
LONGEST_KEPT = 256
WARP = 32
# The longest row that a block keeps in shared memory: 12,288 floats are the 48 KiB of a default launch.
LONGEST_CACHED = 12288
# A product with fewer rows, columns or terms would leave most of a tile empty.
THIN = 16
# Types that WMMA multiplies as they are stored.
NARROW = ("bfloat16", "float16")


def schedule_of(graph: Graph, writer: Writer) -> Schedule:
    """The schedule of the kernel whose root node `writer` writes."""
    operator = writer.operator
    if is_free(operator):
        return "elements"
    if operator.to:
        return "outputs"
    if is_tiled(graph, writer):
        return "tensor-cores" if has_16_bit_factors(graph, writer) else "tiles"
    if any(fold.running for fold in operator.folds):
        return "scan" if len(operator.folds) == len(operator.row_axes) == 1 else "outputs"
    lengths = [writer.total(fold.over) for fold in operator.folds]
    length = max(headline(graph, extent) for extent in lengths)
    if length <= SHORT_SUM:
        return "outputs"
    if sums_down_columns(writer):
        return "columns"
    return _row_schedule(graph, writer, lengths, length)


def _row_schedule(graph: Graph, writer: Writer, lengths: Sequence[Expr], length: int) -> Schedule:
    """The schedule of long reductions along rows; `length`: the longest of `lengths` at the headline size."""
    longest = max(evaluate(extent, sizes) for extent in lengths for sizes in graph.sizes.all)
    cached = longest <= LONGEST_CACHED and cacheable(writer) is not None
    if cached and WARP < longest <= LONGEST_KEPT and outer_axes(writer):
        return "register-row"
    if (not cached or longest <= WARP) and length <= SHORT_ROW and outer_axes(writer):
        return "warp-row"
    if is_online_softmax(writer) and not (cached and writer.operator.row_axes):
        return "online-row"
    return "cached-row" if cached else "block-row"


@dataclass(frozen=True)
class Factors:
    """`out[b, i, j] = sum over k of left[b, i, k] * right[b, k, j]`: factor expressions and b, i, j, k."""

    left: str
    right: str
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    summed: tuple[str, ...]


def factors(writer: Writer) -> Factors | None:
    """The factors of a matrix product, perhaps batched; None if the node is not a product."""
    operator = writer.operator
    if len(operator.folds) != 1 or operator.to or operator.row_axes:
        return None
    (fold,) = operator.folds
    parts = _factor_texts(fold.term)
    if fold.running or fold.how != "sum" or parts is None:
        return None
    left, right = (axes_of(part, writer) for part in parts)
    batch = tuple(axis for axis in operator.out if axis in left and axis in right)
    rows = tuple(axis for axis in operator.out if axis in left - right)
    columns = tuple(axis for axis in operator.out if axis in right - left)
    if not rows or not columns or not set(fold.over) <= left & right:
        return None
    return Factors(*parts, batch, rows, columns, fold.over)


def is_tiled(graph: Graph, writer: Writer) -> bool:
    """Whether a node is a matrix product large enough for tiles at the headline size."""
    parts = factors(writer)
    if parts is None:
        return False
    counts = (writer.total(axes) for axes in (parts.rows, parts.columns, parts.summed))
    return min(evaluate(count, graph.sizes.headline) for count in counts) >= THIN


def has_16_bit_factors(graph: Graph, writer: Writer) -> bool:
    """Whether both factors of a product, and its result, have one 16-bit type, as tensor cores need."""
    operator, node = writer.operator, writer.node
    names = names_of(operator.folds[0].term)
    types = {graph.values[writer.operands[p.name]].dtype for p in operator.parameters if p.name in names}
    return node.dtype in NARROW and types == {node.dtype}


def _factor_texts(term: str) -> tuple[str, str] | None:
    """The factors of `a * b`; of `a * b if inside else 0.0`: `a if inside else 0.0`, and `b`."""
    tree = parsed(term)
    inside = tree.test if isinstance(tree, ast.IfExp) else None
    multiplied = tree.body if isinstance(tree, ast.IfExp) else tree
    if not (isinstance(multiplied, ast.BinOp) and isinstance(multiplied.op, ast.Mult)):
        return None
    left, right = ast.unparse(multiplied.left), ast.unparse(multiplied.right)
    return (left if inside is None else f"{left} if {ast.unparse(inside)} else 0.0", right)


def outer_axes(writer: Writer) -> list[str]:
    """The axes of the result along which nothing is reduced: each of their elements is a row."""
    operator = writer.operator
    return writer.existing([axis for axis in operator.axes if axis not in operator.row_axes])


def sums_down_columns(writer: Writer) -> bool:
    """Whether neighbouring results are contiguous in memory, and the terms of a sum are strided."""
    operator, outer = writer.operator, outer_axes(writer)
    last = {p.axes[-1] for p in operator.parameters if p.axes and set(p.axes) & set(operator.folded)}
    return bool(outer) and not last & set(operator.folded) and (outer[-1] in last or REST in last)


def cacheable(writer: Writer) -> str | None:
    """The operand whose row is kept on chip: a float row that the first fold and a later pass read."""
    operator = writer.operator
    over = operator.folds[0].over
    passes = [*(fold.term for fold in operator.folds), *([operator.result] if operator.row_axes else [])]
    if len(over) != 1 or any(fold.over != over for fold in operator.folds):
        return None
    for parameter in operator.parameters:
        readers = [text for text in passes if parameter.name in names_of(text)]
        along = parameter.axes[-1:] == over and parameter.element == "float"
        is_indexed = any(f"{parameter.name}[" in text for text in passes)
        if along and len(readers) > 1 and readers[0] is passes[0] and not is_indexed:
            return parameter.name
    return None


def is_online_softmax(writer: Writer) -> bool:
    """Whether the first folds are `m = max(t)` and `sum(exp(t - m))`, which one pass over the row can do."""
    folds = writer.operator.folds
    return (
        len(folds) > 1
        and folds[0].how == "max"
        and folds[1].how == "sum"
        and folds[1].term == f"exp({folds[0].term} - {folds[0].name})"
    )


def headline(graph: Graph, extent: Expr) -> int:
    """An extent at the headline size."""
    return evaluate(extent, graph.sizes.headline)
