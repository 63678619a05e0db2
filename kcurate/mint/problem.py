"""A graph as a problem: buffers, inputs, tolerances, statement, and the side that calls the module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcurate.mint.axes import binding_of, product
from kcurate.mint.graph import Graph, Input, Node
from kcurate.mint.module_text import LOW, MODEL, module_text
from kcurate.mint.operators import OPERATORS
from kcurate.problem.dtypes import is_float
from kcurate.records import Buffer, Call, Expr, Init, Problem, Reference, Side, Tolerance

VALUES: Mapping[str, Init] = {
    "normal": Init("normal"),
    "weight": Init("normal", {"std": 0.1}),
    "mostly_positive": Init("uniform", {"low": -1, "high": 2}),
    "positive": Init("uniform", {"low": 0.5, "high": 1.5}),
    "scales": Init("uniform", {"low": 0.01, "high": 0.03}),
    "small_scales": Init("uniform", {"low": 0.0005, "high": 0.0015}),
    "shares": Init("shares"),
    "unit": Init("uniform"),
    "int8": Init("integers", {"low": -127, "high": 128}),
}


def problem_of(graph: Graph, statement: str | None = None) -> Problem:
    """The problem; its reference is the module."""
    centers = any(OPERATORS[node.operator].centers for node in graph.nodes)
    buffers = {
        value.name: Buffer(
            value.dtype,
            value.shape,
            _init(value),
            promises=("varied",) if centers and value.values in ("normal", "mostly_positive") else (),
        )
        for value in graph.inputs
    }
    for name in graph.outputs:
        value = graph.values[name]
        tolerance = tolerance_of(graph, name) if is_float(value.dtype) else None
        buffers[name] = Buffer(value.dtype, value.shape, role="out", tolerance=tolerance)
    reference = Reference(module_text(graph), _call(graph))
    return Problem(graph.sizes, buffers, statement=statement, reference=reference)


def module_side(graph: Graph, *, exact: bool = False) -> Side:
    """The side in PyTorch; `exact`: in float64."""
    loose = tuple(name for name in graph.outputs if is_float(graph.values[name].dtype))
    text = module_text(graph, exact=exact)
    return Side(text, (_call(graph),), nondeterministic=loose, language="torch")


def _call(graph: Graph) -> Call:
    return Call(MODEL, tuple(value.name for value in graph.inputs), graph.outputs)


def _init(value: Input) -> Init:
    if value.values == "index":
        assert value.below is not None, "an index has a bound"
        return Init("integers", {"low": 0, "high": value.below})
    return VALUES[value.values]


def tolerance_of(graph: Graph, name: str) -> Tolerance:
    """Sums are accumulated in float32; where narrow values lie between, their roundings are what counts."""
    nodes = list(ancestors(graph, name))
    narrow = [node for node in nodes if node.dtype in LOW and node.name != name]
    out = graph.values[name].dtype
    if narrow:
        return Tolerance(terms=len(narrow) + 1)
    lengths = list(dict.fromkeys(length for node in nodes for length in _lengths(graph, node)))
    numbers = [length for length in lengths if isinstance(length, int)]
    names = [length for length in lengths if not isinstance(length, int)]
    kept: list[Expr] = [*names, *([max(numbers)] if numbers else [])]
    terms: Expr = 1 if not kept else kept[0] if len(kept) == 1 else f"max({', '.join(map(str, kept))})"
    return Tolerance(terms=terms, accumulate="float32" if out in LOW else None)


def ancestors(graph: Graph, name: str) -> Iterator[Node]:
    """The node and those that it depends on, in the graph's order."""
    needed = {name}
    for node in reversed(graph.nodes):
        if node.name in needed:
            needed |= set(node.operands)
    return (node for node in graph.nodes if node.name in needed)


def _lengths(graph: Graph, node: Node) -> Iterator[Expr]:
    """How many terms each sum of a node adds."""
    operator = OPERATORS[node.operator]
    binding = binding_of(graph, node, operator)
    for fold in operator.folds:
        if fold.how == "sum" and fold.dtype == "float":
            yield product(tuple(binding.extent(axis) for axis in fold.over))
