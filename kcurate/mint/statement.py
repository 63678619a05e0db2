"""A graph in words: arrays, steps with formulas, and how results are compared. Wordings vary with a seed."""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping, Sequence

from kcurate.mint.axes import Binding, binding_of
from kcurate.mint.graph import REST, Graph, Node, Operator, Value
from kcurate.mint.module_text import LOW
from kcurate.mint.operators import OPERATORS
from kcurate.mint.problem import tolerance_of
from kcurate.problem.compare import norm_bound
from kcurate.problem.dtypes import is_float
from kcurate.problem.expressions import evaluate
from kcurate.records import Expr

_OPENINGS = (
    "Compute {results} from {inputs}.",
    "Given {inputs}, compute {results}.",
    "From {inputs} the kernels compute {results}.",
)
_LAYOUTS = (
    "All arrays are dense and row-major (the last axis is contiguous).",
    "Arrays lie in C order without gaps.",
    "Every array is contiguous, its last axis innermost.",
)
_STEPS = ("Steps:", "In order:", "The computation:")
# Indices along the height and width of images: arrays may be called x and y.
INDICES = {"y": "i", "x_": "j"}
_FOLDS = {"sum": "the sum", "max": "the largest", "min": "the smallest"}


def statement(graph: Graph, seed: int) -> str:
    """Everything that is needed to write the kernels: types, shapes, layout, formulas, tolerance."""
    rng = random.Random(f"words {seed}")
    inputs = ", ".join(_array(value) for value in graph.inputs)
    results = " and ".join(_array(graph.values[name]) for name in graph.outputs)
    lines = [
        rng.choice(_OPENINGS).format(inputs=inputs, results=results),
        rng.choice(_LAYOUTS),
        *_indices(graph),
        *(["Divisions of sizes and indices round down."] if _divides(graph) else []),
        *_narrow(graph),
        rng.choice(_STEPS),
        *(f"{number}. {_step(graph, node, rng)}" for number, node in enumerate(graph.nodes, 1)),
        _tolerances(graph),
    ]
    return "\n".join(lines)


def _array(value: Value) -> str:
    return f"{value.name} ({value.dtype}, {_shape(value)})"


def _shape(value: Value) -> str:
    return " x ".join(_alone(extent) for extent in value.shape)


def _alone(extent: Expr) -> str:
    """An extent, in parentheses where it is more than a name or number."""
    return str(extent) if str(extent).isidentifier() or str(extent).isdigit() else f"({extent})"


def _indices(graph: Graph) -> list[str]:
    return [
        f"The values of {value.name} are from 0 to {value.below} - 1."
        for value in graph.inputs
        if value.values == "index"
    ]


def _divides(graph: Graph) -> bool:
    """Whether a shape or a formula may divide integers."""
    operators = [OPERATORS[node.operator] for node in graph.nodes]
    return any(" / " in extent for one in operators for extent in one.extents.values()) or any(
        one.kind in ("gather", "pooling") and " / " in one.result for one in operators
    )


def _narrow(graph: Graph) -> list[str]:
    """How values between the steps are rounded, where the graph has a narrow type."""
    if graph.dtype not in LOW:
        return []
    kept = [node.name for node in graph.nodes if node.dtype in LOW]
    rounded = f"{', '.join(kept)} {'is' if len(kept) == 1 else 'are'}" if kept else "nothing is"
    return [f"Everything is computed in float32; {rounded} rounded to {graph.dtype}."]


def _step(graph: Graph, node: Node, rng: random.Random) -> str:
    operator = OPERATORS[node.operator]
    names = {p.name: name for p, name in zip(operator.parameters, node.operands, strict=True)}
    phrase = rng.choice(operator.words).format(**names, **node.attributes)
    formula = "" if operator.to else f"; {_formula(graph, node, operator, names)}"
    element = "" if is_float(node.dtype) else f"{node.dtype}, "
    return f"{node.name} ({element}{_shape(node)}): {phrase}{formula}."


def _formula(graph: Graph, node: Node, operator: Operator, names: Mapping[str, str]) -> str:
    binding = binding_of(graph, node, operator)

    def text(expression: str) -> str:
        return ast.unparse(
            _Named(operator, binding, names, node.attributes).visit(ast.parse(expression, mode="eval"))
        )

    left = f"{node.name}{_subscripts(operator.out, binding)}"
    where = [
        f"{fold.name} = {_FOLDS[fold.how]} over {_axes(fold.over, binding)}"
        f"{_up_to(fold.over[0], backwards=fold.backwards) if fold.running else ''} of {text(fold.term)}"
        for fold in operator.folds
    ]
    return f"{left} = {text(operator.result)}{', where ' if where else ''}{', '.join(where)}"


def _up_to(axis: str, *, backwards: bool) -> str:
    return f" ({'from the current one on' if backwards else 'up to and with the current one'})"


def _axes(axes: Sequence[str], binding: Binding) -> str:
    return ", ".join(f"{INDICES.get(axis, axis)} < {_alone(binding.extent(axis))}" for axis in axes)


def _subscripts(axes: Sequence[str], binding: Binding) -> str:
    parts = [INDICES.get(axis, axis) for axis in axes if axis != REST or binding.rest]
    return f"[{', '.join(parts)}]" if parts else ""


class _Named(ast.NodeTransformer):
    """Operands as elements of arrays, extents and attributes as what they are."""

    def __init__(
        self,
        operator: Operator,
        binding: Binding,
        names: Mapping[str, str],
        attributes: Mapping[str, int | float],
    ) -> None:
        self.operator, self.binding, self.names, self.attributes = operator, binding, names, attributes

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        assert isinstance(node.value, ast.Name), "only operands have subscripts"
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts = [ast.unparse(self.visit(part)) for part in index]
        parts = [part for part in parts if part != REST or self.binding.rest]
        return ast.Name(f"{self.names[node.value.id]}[{', '.join(parts)}]")

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.names:
            parameter = next(p for p in self.operator.parameters if p.name == node.id)
            return ast.Name(f"{self.names[node.id]}{_subscripts(parameter.axes, self.binding)}")
        return ast.Name(str(self.attributes.get(node.id, INDICES.get(node.id, node.id))))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        assert isinstance(node.func, ast.Name), "functions are named"
        if node.func.id == "size":
            argument = node.args[0]
            assert isinstance(argument, ast.Name), "an axis"
            return ast.Name(_alone(self.binding.extent(argument.id)))
        return ast.Call(node.func, [self.visit(part) for part in node.args], [])


def _tolerances(graph: Graph) -> str:
    """How far a result may be from the reference, in words."""
    texts = []
    for name in graph.outputs:
        dtype = graph.values[name].dtype
        if not is_float(dtype):
            texts.append(f"{name} must be exact")
            continue
        tolerance = tolerance_of(graph, name)
        bound = norm_bound(dtype, tolerance, evaluate(tolerance.terms, graph.sizes.headline))
        narrow = dtype in LOW and tolerance.accumulate is None
        rest = (
            f"what the roundings to {dtype} before leave" if narrow else "the rounding of its sums in float32"
        )
        texts.append(
            f"{name} may differ by rounding: by {bound:.1g} of the norm of the whole and of each row, an "
            f"element by a few units in the last place of {dtype} and {rest}"
        )
    return f"{'; '.join(texts)}."
