"""A graph in words: arrays, steps with formulas, and how results are compared. Wordings vary with a seed."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable, Mapping, Sequence

from kcurate.mint.axes import Binding, binding_of
from kcurate.mint.graph import OPERATORS, REST, Fold, Graph, Node, Operator, Value
from kcurate.mint.problem import LOW, tolerance_of
from kcurate.problem.compare import norm_bound
from kcurate.problem.dtypes import is_float
from kcurate.problem.expressions import evaluate
from kcurate.problem.groups import BLOCK
from kcurate.records import Expr

_OPENINGS = (
    "Compute {results} from {inputs}.",
    "Given {inputs}, compute {results}.",
    "From {inputs}, compute {results}.",
)
_LAYOUTS = (
    "All arrays are dense and row-major (the last axis is contiguous).",
    "Arrays lie in C order without gaps.",
    "Every array is contiguous, its last axis innermost.",
)
_STEPS = ("Steps:", "In order:", "The computation:")
# Indices along the height and width of images, and letters for indices and sums that an array is called.
INDICES = {"y": "i", "x_": "j"}
_LETTERS = "klmnopqrtuvacdefz"
_FOLDS = {"sum": "the sum", "max": "the largest", "min": "the smallest"}


def statement(graph: Graph, seed: int, scales: Mapping[str, float] | None = None) -> str:
    """The statement has everything needed to write the kernels: types, shapes, layout, formulas, tolerance.

    `scales`: the declared magnitude of the terms of results, by name (`Tolerance.scale`).
    """
    rng = random.Random(f"words {seed}")
    inputs = ", ".join(_array(value) for value in graph.inputs)
    results = " and ".join(_array(graph.values[name]) for name in graph.outputs)
    opening = rng.choice(_OPENINGS).format(inputs=inputs, results=results)
    layout, heading = rng.choice(_LAYOUTS), rng.choice(_STEPS)
    steps = [f"{number}. {_step(graph, node, rng)}" for number, node in enumerate(graph.nodes, 1)]
    text = "\n".join((opening, *steps))
    lines = [
        opening,
        layout,
        *_indices(graph),
        *(["In formulas, ... stands for all leading indices."] if "[..." in text else []),
        *(["// divides integers and rounds down."] if "//" in text else []),
        *_narrow(graph),
        heading,
        *steps,
        *_tolerances(graph, scales or {}),
    ]
    return "\n".join(lines)


def _array(value: Value) -> str:
    return f"{value.name} ({value.dtype}, {_shape(value)})"


def _shape(value: Value) -> str:
    return " x ".join(_alone(extent) for extent in value.shape)


def _alone(extent: Expr) -> str:
    """An extent, in parentheses if it is more than a name or number."""
    text = str(extent).replace("/", "//")
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _indices(graph: Graph) -> list[str]:
    return [
        f"The values of {value.name} are from 0 to {value.below} - 1."
        for value in graph.inputs
        if value.values == "index"
    ]


def _narrow(graph: Graph) -> list[str]:
    """How values are rounded, if the graph has a narrow type; else empty."""
    if graph.dtype not in LOW:
        return []
    narrow = [node.name for node in graph.nodes if node.dtype in LOW]
    results = [name for name in narrow if name in graph.outputs]
    between = [name for name in narrow if name not in graph.outputs]
    are = "is" if len(results) == 1 else "are"
    rounded = f"; {', '.join(results)} {are} rounded to {graph.dtype}" if results else ""
    optional = f" ({', '.join(between)} may be, as in the reference)" if between else ""
    return [f"Everything is computed in float32{rounded}{optional}."]


def _step(graph: Graph, node: Node, rng: random.Random) -> str:
    operator = OPERATORS[node.operator]
    names = {p.name: name for p, name in zip(operator.parameters, node.operands, strict=True)}
    phrase = rng.choice(operator.words).format(**names, **node.attributes).replace(" plus -", " minus ")
    if all(len(graph.values[name].shape) == 1 for name in node.operands):
        phrase = phrase.replace("each row of ", "").replace(" of each row,", ",")
    formula = "" if operator.to else f"; {_formula(graph, node, operator, names)}"
    element = "" if is_float(node.dtype) else f"{node.dtype}, "
    return f"{node.name} ({element}{_shape(node)}): {phrase}{formula}."


def _formula(graph: Graph, node: Node, operator: Operator, names: Mapping[str, str]) -> str:
    binding, shown = binding_of(graph, node, operator), _shown(graph, operator)

    def text(expression: str, shown: Mapping[str, str]) -> str:
        named = _Named(operator, binding, names, node.attributes, shown)
        return ast.unparse(named.visit(ast.parse(expression, mode="eval")))

    def where(fold: Fold) -> str:
        if fold.running:
            # Two names: the index that the fold goes over, and the one up to which it does.
            (axis,) = fold.over
            inner = {**shown, axis: _free(graph, shown.values())}
            over = f"{inner[axis]} {'>=' if fold.backwards else '<='} {shown[axis]}"
        else:
            inner = shown
            over = ", ".join(f"{shown[axis]} < {_alone(binding.extent(axis))}" for axis in fold.over)
        return f"{shown[fold.name]} = {_FOLDS[fold.how]} over {over} of {text(fold.term, inner)}"

    left = f"{node.name}{_subscripts(operator.out, binding, shown)}"
    folds = ", ".join(map(where, operator.folds))
    result = text(operator.result, shown).replace(" + -", " - ")
    return f"{left} = {result}{', where ' if folds else ''}{folds}"


def _shown(graph: Graph, operator: Operator) -> dict[str, str]:
    """The names for indices and folds in a formula, none of which is also the name of an array."""
    axes = [axis for parameter in operator.parameters for axis in parameter.axes]
    axes += [*operator.out, *operator.folded]
    folds = [fold.name for fold in operator.folds]
    shown = {name: INDICES.get(name, name) for name in (*axes, *folds)}
    for name, text in shown.items():
        if text in graph.values:
            shown[name] = _free(graph, shown.values(), _LETTERS[::-1] if name in folds else _LETTERS)
    return shown


def _free(graph: Graph, taken: Iterable[str], letters: str = _LETTERS) -> str:
    return next(letter for letter in letters if letter not in {*graph.values, *taken})


def _subscripts(axes: Sequence[str], binding: Binding, shown: Mapping[str, str]) -> str:
    parts = [shown[axis] for axis in axes if axis != REST or binding.rest]
    return f"[{', '.join(parts)}]" if parts else ""


class _Named(ast.NodeTransformer):
    """Text of names in formulas: operands as array elements, extents and attributes as values, local names as
    in `shown`."""

    def __init__(
        self,
        operator: Operator,
        binding: Binding,
        names: Mapping[str, str],
        attributes: Mapping[str, int | float],
        shown: Mapping[str, str],
    ) -> None:
        self.operator, self.binding, self.names = operator, binding, names
        self.attributes, self.shown = attributes, shown
        self.integers = {*shown} - {fold.name for fold in operator.folds if fold.dtype == "float"}
        self.integers |= {name for name, value in attributes.items() if isinstance(value, int)}

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        assert isinstance(node.value, ast.Name), "only operands have subscripts"
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts = [ast.unparse(self.visit(part)) for part in index]
        parts = [part for part in parts if part != REST or self.binding.rest]
        return ast.Name(f"{self.names[node.value.id]}[{', '.join(parts)}]")

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.names:
            parameter = next(p for p in self.operator.parameters if p.name == node.id)
            return ast.Name(f"{self.names[node.id]}{_subscripts(parameter.axes, self.binding, self.shown)}")
        return ast.Name(str(self.attributes.get(node.id, self.shown.get(node.id, node.id))))

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        parts = [self.visit(node.left), self.visit(node.right)]
        if isinstance(node.op, ast.BitAnd):
            # `ast.unparse` puts parentheses around some terms of a longer conjunction.
            return ast.Name(" and ".join(map(ast.unparse, parts)))
        divides = isinstance(node.op, ast.Div) and self._whole(node)
        return ast.BinOp(parts[0], ast.FloorDiv() if divides else node.op, parts[1])

    def _whole(self, node: ast.expr) -> bool:
        """Whether an expression is an integer."""
        match node:
            case ast.Constant(value=value):
                return isinstance(value, int)
            case ast.Name(id=name):
                return name in self.integers
            case ast.BinOp(left=left, right=right):
                return self._whole(left) and self._whole(right)
            case _:
                return (
                    isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "size"
                )

    def visit_Call(self, node: ast.Call) -> ast.expr:
        assert isinstance(node.func, ast.Name), "functions are named"
        if node.func.id == "size":
            argument = node.args[0]
            assert isinstance(argument, ast.Name), "an axis"
            return ast.Name(_alone(self.binding.extent(argument.id)))
        return ast.Call(node.func, [self.visit(part) for part in node.args], [])


def _tolerances(graph: Graph, scales: Mapping[str, float]) -> list[str]:
    """How far results may be from the reference, in words."""
    names_of = dict[str, list[str]]()
    for name in graph.outputs:
        floats = is_float(graph.values[name].dtype)
        allowed = _allowed(graph, name, scales.get(name)) if floats else "must be exact"
        names_of.setdefault(allowed, []).append(name)
    return [f"{' and '.join(names)} {allowed}." for allowed, names in names_of.items()]


def _allowed(graph: Graph, name: str, scale: float | None) -> str:
    value, tolerance = graph.values[name], tolerance_of(graph, name)
    bound = norm_bound(value.dtype, tolerance, evaluate(tolerance.terms, graph.sizes.headline))
    row, group = ("row",) * 2 if len(value.shape) > 1 else ("block", f"block of {BLOCK} elements")
    narrow = value.dtype in LOW and tolerance.accumulate is None
    loss = f"roundings to {value.dtype}" if narrow else "sums in float32"
    return (
        f"may differ by rounding: in relative norm by {bound:.1g}, over the whole and over each {group}; in "
        f"an element by a few units in the last place, and by what {loss} lose of values as large as "
        + (f"{scale:g}" if scale else f"the root mean square of its {row}")
    )
