"""Turns a graph into a problem, and into a PyTorch module that is the problem's reference."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from kcurate.mint.axes import binding_of, product
from kcurate.mint.graph import OPERATORS, Graph, Input, Node
from kcurate.problem.dtypes import is_float
from kcurate.records import Buffer, Call, Expr, Init, Problem, Reference, Side, Tolerance

MODEL = "Model"
LOW = ("bfloat16", "float16")
_TORCH_VALUES = {  # `VALUES` as PyTorch expressions
    "normal": "torch.randn({})",
    "weight": "torch.randn({}) * 0.1",
    "mostly_positive": "torch.rand({}) * 3.0 - 1.0",
    "positive": "torch.rand({}) + 0.5",
    "scales": "torch.rand({}) * 0.02 + 0.01",
    "small_scales": "torch.rand({}) * 0.001 + 0.0005",
    "shares": "torch.rand({}).softmax(-1)",
    "unit": "torch.rand({})",
}
_HEADER = "import torch\nimport torch.nn.functional as F\n"


def module_text(graph: Graph, *, exact: bool = False) -> str:
    """The module: sizes as constants, `forward`, `get_inputs` at the headline size.

    `exact`: everything in float64, without rounding to the types of buffers.
    """
    sizes = "".join(f"{name} = {value}\n" for name, value in graph.sizes.headline.items())
    names = ", ".join(value.name for value in graph.inputs)
    lines = [f"{node.name} = {node_text(graph, node, exact=exact)}" for node in graph.nodes]
    body = textwrap.indent("\n".join([*lines, f"return {', '.join(graph.outputs)}"]), " " * 8)
    forward = f"class {MODEL}(torch.nn.Module):\n    def forward(self, {names}):\n{body}\n"
    inputs = textwrap.indent(",\n".join(map(_input_text, graph.inputs)) + ",", " " * 8)
    return (
        f"{_HEADER}\n{sizes}\n\n{forward}\n\ndef get_inputs():\n    return [\n{inputs}\n    ]\n\n\n"
        "def get_init_inputs():\n    return []\n"
    )


def node_text(graph: Graph, node: Node, *, exact: bool = False) -> str:
    """A node's expression. 16-bit operands are widened to float32 first, unless the operator is `native`."""
    operator = OPERATORS[node.operator]
    fields = dict[str, object](node.attributes)
    for parameter, operand in zip(operator.parameters, node.operands, strict=True):
        narrow = graph.values[operand].dtype in LOW and not operator.native and not exact
        fields[parameter.name] = f"{operand}.float()" if narrow else operand
    text = operator.torch.format(**fields)
    if exact:
        return text.replace(".float()", ".double()")
    return f"({text}).to(torch.{node.dtype})" if node.dtype in LOW and not operator.native else text


def _input_text(value: Input) -> str:
    shape = ", ".join(str(extent).replace("/", "//") for extent in value.shape)
    if value.values == "index":
        return f"torch.randint(0, {str(value.below).replace('/', '//')}, ({shape},))"
    if value.dtype == "int8":
        return f"torch.randint(-127, 128, ({shape},), dtype=torch.int8)"
    text = _TORCH_VALUES[value.values].format(shape)
    return text if value.dtype == "float32" else f"({text}).to(torch.{value.dtype})"


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
    """An output's tolerance: float32 sums, or, larger, the rounding of 16-bit intermediates."""
    nodes = list(ancestors(graph, name))
    narrow = [node for node in nodes if node.dtype in LOW and node.name != name]
    out = graph.values[name].dtype
    if narrow:
        return Tolerance(terms=len(narrow) + 1)
    lengths = list(dict.fromkeys(length for node in nodes for length in _lengths(graph, node)))
    constants = [length for length in lengths if isinstance(length, int)]
    symbolic = [length for length in lengths if not isinstance(length, int)]
    longest: list[Expr] = [*symbolic, *([max(constants)] if constants else [])]
    terms: Expr = f"max({', '.join(map(str, longest))})" if len(longest) > 1 else next(iter(longest), 1)
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
