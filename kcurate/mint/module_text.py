"""A graph as a PyTorch module, the reference of its problem; and in float64, to measure its rounding."""

from __future__ import annotations

import textwrap

from kcurate.mint.graph import Graph, Input, Node
from kcurate.mint.operators import OPERATORS

MODEL = "Model"
LOW = ("bfloat16", "float16")
_VALUES = {
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
    made = textwrap.indent(",\n".join(map(_made, graph.inputs)) + ",", " " * 8)
    return (
        f"{_HEADER}\n{sizes}\n\n{forward}\n\ndef get_inputs():\n    return [\n{made}\n    ]\n\n\n"
        "def get_init_inputs():\n    return []\n"
    )


def node_text(graph: Graph, node: Node, *, exact: bool = False) -> str:
    """The expression of a node; operands of a narrow type are widened first, unless it computes in it."""
    operator = OPERATORS[node.operator]
    names = dict[str, object](node.attributes)
    for parameter, operand in zip(operator.parameters, node.operands, strict=True):
        narrow = graph.values[operand].dtype in LOW and not operator.native and not exact
        names[parameter.name] = f"{operand}.float()" if narrow else operand
    text = operator.torch.format(**names)
    if exact:
        return text.replace(".float()", ".double()")
    return f"({text}).to(torch.{node.dtype})" if node.dtype in LOW and not operator.native else text


def _made(value: Input) -> str:
    shape = ", ".join(str(extent).replace("/", "//") for extent in value.shape)
    if value.values == "index":
        return f"torch.randint(0, {str(value.below).replace('/', '//')}, ({shape},))"
    if value.dtype == "int8":
        return f"torch.randint(-127, 128, ({shape},), dtype=torch.int8)"
    text = _VALUES[value.values].format(shape)
    return text if value.dtype == "float32" else f"({text}).to(torch.{value.dtype})"
