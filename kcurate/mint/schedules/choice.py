"""Which schedule a kernel gets, from its sums and their lengths. CUDA and Triton ask here alike."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from kcurate.mint.graph import REST, Graph
from kcurate.mint.scalar_text import parsed
from kcurate.mint.schedules.fusing import is_free
from kcurate.mint.schedules.writer import Writer, axes_of, names_of
from kcurate.problem.expressions import evaluate
from kcurate.records import Expr

# Sums of at most so many terms stay with one thread; rows of at most so many elements with one warp.
SHORT_SUM, SHORT_ROW = 16, 512
# The longest row that the lanes of a warp keep in registers, eight elements each.
LONGEST_KEPT = 256
WARP = 32
# The longest row that a block keeps in shared memory without asking for more of it.
LONGEST_CACHED = 12288
# A product with fewer rows, columns or terms is too thin for tiles.
THIN = 16
NARROW = ("bfloat16", "float16")


def schedule_of(graph: Graph, writer: Writer) -> str:
    """The schedule of the kernel whose root a writer writes."""
    operator = writer.operator
    if is_free(operator):
        return "elements"
    if operator.to:
        return "outputs"
    if is_tiled(graph, writer):
        return "tensor-cores" if narrow_product(graph, writer) else "tiles"
    if any(fold.running for fold in operator.folds):
        return "scan" if len(operator.folds) == len(operator.row_axes) == 1 else "outputs"
    lengths = [writer.total(fold.over) for fold in operator.folds]
    length = max(headline(graph, extent) for extent in lengths)
    if length <= SHORT_SUM:
        return "outputs"
    if sums_down_columns(writer):
        return "columns"
    return _row_schedule(graph, writer, lengths, length)


def _row_schedule(graph: Graph, writer: Writer, lengths: Sequence[Expr], length: int) -> str:
    """That of a kernel with long sums along rows: `lengths`; `length`: the longest at the headline size."""
    longest = max(evaluate(extent, sizes) for extent in lengths for sizes in graph.sizes.all)
    cached = longest <= LONGEST_CACHED and cacheable(writer) is not None
    if cached and WARP < longest <= LONGEST_KEPT and outer_axes(writer):
        return "register-row"
    if (not cached or longest <= WARP) and length <= SHORT_ROW and outer_axes(writer):
        return "warp-row"
    if is_online(writer) and not (cached and writer.operator.row_axes):
        return "online-row"
    return "cached-row" if cached else "block-row"


@dataclass(frozen=True)
class Factors:
    """A product's two factors (expressions) and its axes: of both and the result, of one, summed."""

    left: str
    right: str
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    summed: tuple[str, ...]


def factors(writer: Writer) -> Factors | None:
    """The factors of a sum of products with rows of its own on both sides; None if it is no such sum."""
    operator = writer.operator
    if len(operator.folds) != 1 or operator.to or operator.row_axes:
        return None
    (fold,) = operator.folds
    parts = _parts(fold.term)
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
    """Whether a node is a product with enough rows, columns and terms at the headline size for tiles."""
    parts = factors(writer)
    if parts is None:
        return False
    counts = (writer.total(axes) for axes in (parts.rows, parts.columns, parts.summed))
    return min(evaluate(count, graph.sizes.headline) for count in counts) >= THIN


def narrow_product(graph: Graph, writer: Writer) -> bool:
    """Whether tensor cores take both factors of a product as they are."""
    operator, node = writer.operator, writer.node
    names = names_of(operator.folds[0].term)
    types = {graph.values[writer.operands[p.name]].dtype for p in operator.parameters if p.name in names}
    return node.dtype in NARROW and types == {node.dtype}


def _parts(term: str) -> tuple[str, str] | None:
    """`a * b`; `a * b if inside else 0.0` with the condition at the first."""
    tree = parsed(term)
    inside = tree.test if isinstance(tree, ast.IfExp) else None
    multiplied = tree.body if isinstance(tree, ast.IfExp) else tree
    if not (isinstance(multiplied, ast.BinOp) and isinstance(multiplied.op, ast.Mult)):
        return None
    left, right = ast.unparse(multiplied.left), ast.unparse(multiplied.right)
    return (left if inside is None else f"{left} if {ast.unparse(inside)} else 0.0", right)


def outer_axes(writer: Writer) -> list[str]:
    """The axes of the result along which nothing is summed."""
    operator = writer.operator
    return writer.existing([axis for axis in operator.axes if axis not in operator.row_axes])


def sums_down_columns(writer: Writer) -> bool:
    """Whether neighbouring results are neighbours in memory, and the terms of a sum are not."""
    operator, outer = writer.operator, outer_axes(writer)
    last = {p.axes[-1] for p in operator.parameters if p.axes and set(p.axes) & set(operator.folded)}
    return bool(outer) and not last & set(operator.folded) and (outer[-1] in last or REST in last)


def cacheable(writer: Writer) -> str | None:
    """The operand whose row is worth keeping: a row of floats that the first fold reads, and others too."""
    operator = writer.operator
    over = operator.folds[0].over
    passes = [*(fold.term for fold in operator.folds), *([operator.result] if operator.row_axes else [])]
    if len(over) != 1 or any(fold.over != over for fold in operator.folds):
        return None
    for parameter in operator.parameters:
        readers = [text for text in passes if parameter.name in names_of(text)]
        along = parameter.axes[-1:] == over and parameter.element == "float"
        moved = any(f"{parameter.name}[" in text for text in passes)
        if along and len(readers) > 1 and readers[0] is passes[0] and not moved:
            return parameter.name
    return None


def is_online(writer: Writer) -> bool:
    """Whether the first folds are the largest of a term, and the sum of its exponentials."""
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
