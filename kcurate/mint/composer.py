"""Composes graphs: one to eight operators, each fitting the types, shapes and values before it.

Deterministic: equal seeds give equal graphs in equal order. Operators that were used less are chosen more
often, so that all occur in about equally many graphs. Not covered: the operators themselves.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kcurate.errors import InputError
from kcurate.mint import sizes as sizing
from kcurate.mint.axes import Shape, bind
from kcurate.mint.graph import OPERATORS, REST, Graph, Input, Node, Operator, Parameter, Value
from kcurate.records import Sizes

TYPES = ("float32", "bfloat16", "float16")
# How often each type is taken: most tasks that people write are in float32.
TYPE_WEIGHTS = (3, 1, 1)
LENGTHS, LENGTH_WEIGHTS = (1, 2, 3, 4, 5, 6, 7, 8), (2, 4, 6, 6, 5, 3, 2, 2)
# The shapes of the first value; their weights are `FORM_WEIGHTS`.
FORMS: Mapping[str, Shape] = {
    "matrix": ("rows", "cols"),
    "sequence": ("batch", "seq", "hidden"),
    "image": ("batch", "channels", "height", "width"),
    "series": ("batch", "channels", "seq"),
    "heads": ("batch", "heads", "seq", "head_dim"),
}
FORM_WEIGHTS = (6, 3, 3, 1, 5)
# The weight of an operator of the second kind after one of the first kind (default 1), as in real models.
LIKES: Mapping[tuple[str, str], float] = {
    ("gemm", "broadcast"): 3, ("gemm", "pointwise"): 2, ("gemm", "normalization"): 1.5,
    ("convolution", "broadcast"): 3, ("convolution", "pointwise"): 2, ("convolution", "pooling"): 3,
    ("convolution", "normalization"): 2, ("broadcast", "pointwise"): 2, ("normalization", "gemm"): 2,
    ("attention", "softmax"): 10, ("attention", "attention"): 40, ("softmax", "attention"): 30,
    ("start", "gemm"): 2, ("start", "convolution"): 3, ("start", "attention"): 100,
    ("start", "reduction"): 2, ("pointwise", "gemm"): 1.5,
}  # fmt: skip
# Operators that many models have; their weight is multiplied by `COMMON_WEIGHT`.
COMMON = ("matmul", "linear", "linear_bias", "softmax", "layer_norm", "rms_norm", "relu", "gelu", "silu",
          "add", "mul", "add_bias", "scale", "conv2d", "attend", "scores", "causal_mask", "row_sum", "swiglu",
          "window_mask", "length_mask", "distance_bias",
)  # fmt: skip
COMMON_WEIGHT = 3.0
# Kinds whose results differ along rows as much as their operands do. Others may leave nearly equal elements:
# minus their mean, these are nothing but rounding.
SPREADING = (
    "pointwise", "broadcast", "gather", "gemm", "convolution", "normalization", "quantization", "backward",
)  # fmt: skip
# Operators (besides softmax and losses) whose exponentials turn large values mostly into rounding.
EXPONENTIAL = ("logsumexp", "cross_entropy_backward", "log_softmax_backward")
UNMASKED = ("softmin", "log_softmax")
SECOND_OUTPUT = 0.06
MOST_NODES = 8
# After this many repeated graphs in a row, all distinct graphs count as found.
MOST_REPEATS = 2000


@dataclass
class PartialGraph:
    """A graph that is being composed; `properties`: those of its values (`small`, `exact`, ...), by name."""

    dtype: str
    inputs: list[Input] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    properties: dict[str, frozenset[str]] = field(default_factory=dict)
    sizes: list[str] = field(default_factory=list)

    def add_input(
        self, parameter: Parameter | None, shape: Shape, below: str | int | None, kind: str
    ) -> Input:
        """A new input, for a parameter (None: the first value of the graph)."""
        element = parameter.element if parameter else "float"
        needs = parameter.needs if parameter else ()
        stem = "x" if parameter is None else parameter.name
        used = {value.name for value in self.inputs}
        name = next(n for n in (stem, *(f"{stem}{i}" for i in range(2, 40))) if n not in used)
        dtype = {"float": self.dtype, "float32": "float32", "int8": "int8", "index": "int64"}[element]
        value = Input(name, dtype, shape, _values_of(element, needs, stem, kind), below)
        self.inputs.append(value)
        bounded = {"small", "tame", "spread"} if element in ("float", "float32") else set()
        self.properties[name] = frozenset({"exact", *bounded, *needs})
        return value

    @property
    def last(self) -> Value | None:
        """The newest value."""
        values = [*self.inputs[:1], *self.nodes]
        return values[-1] if values else None


def _values_of(element: str, needs: Sequence[str], name: str, kind: str) -> str:
    if element in ("int8", "index"):
        return element
    if set(needs) & {"shares", "unit"}:
        return "shares" if "shares" in needs else "unit"
    if "nonnegative" in needs:
        return "positive"
    if element == "float32":
        return "scales" if kind == "quantization" else "small_scales"
    if name in ("w", "slopes"):
        return (
            "weight"
            if kind in ("gemm", "convolution", "backward")
            else "normal"
            if kind == "attention"
            else "positive"
        )
    return "normal"


class Composer:
    """Graphs in order; `operators` restricts which are used, `types` the float types."""

    def __init__(self, seed: int, operators: Sequence[str] = (), types: Sequence[str] = TYPES) -> None:
        self.rng = random.Random(f"mint {seed}")
        self.operators = [OPERATORS[name] for name in operators or OPERATORS]
        self.types = tuple(types)
        self.uses = Counter[str]()
        self.keys = set[str]()
        self._by_form = dict[tuple[str, int, frozenset[str]], list[Operator]]()

    def graphs(self) -> Iterator[Graph]:
        """Distinct graphs without end.

        Raises:
            InputError: no new graph can be composed.
        """
        repeats = 0
        while repeats < MOST_REPEATS:
            graph = self._graph()
            if graph is None or graph.key in self.keys:
                repeats += 1
                continue
            repeats = 0
            self.keys.add(graph.key)
            self.uses.update({node.operator for node in graph.nodes})
            yield graph
        raise InputError(
            f"these operators and types give {len(self.keys)} distinct graphs and no more",
            where="count",
            hint="allow more --kinds or --types",
        )

    def _graph(self) -> Graph | None:
        rng = self.rng
        weights = [TYPE_WEIGHTS[TYPES.index(name)] for name in self.types]
        draft = PartialGraph(rng.choices(self.types, weights)[0])
        shape = FORMS[rng.choices(list(FORMS), FORM_WEIGHTS)[0]]
        length = rng.choices(LENGTHS, LENGTH_WEIGHTS)[0]
        if rng.random() > 0.08:
            draft.sizes = [str(name) for name in shape]
            draft.add_input(None, shape, None, "")
        kind = "start"
        while len(draft.nodes) < length or (draft.nodes and OPERATORS[draft.nodes[-1].operator].unfinished):
            node = self._next(draft, kind) if len(draft.nodes) < MOST_NODES else None
            if node is None:
                break
            kind = OPERATORS[node.operator].kind
        if draft.nodes and OPERATORS[draft.nodes[-1].operator].unfinished:
            return None
        return self._finished(draft) if draft.nodes else None

    def _next(self, draft: PartialGraph, kind: str) -> Node | None:
        """One more node; None if no operator fits."""
        fitting = self._fitting(draft)
        while fitting:
            weights = [self._weight(operator, kind) for operator in fitting]
            operator = self.rng.choices(fitting, weights)[0]
            node = self._apply(draft, operator)
            if node is not None:
                return node
            fitting.remove(operator)
        return None

    def _weight(self, operator: Operator, after: str) -> float:
        # Sharp operators take exact operands alone, so few places suit them.
        common = COMMON_WEIGHT if operator.name in COMMON or operator.sharp else 1.0
        return (
            common * LIKES.get((after, operator.kind), 1.0) * math.pow(2.0 + self.uses[operator.name], -3.0)
        )

    def _fitting(self, draft: PartialGraph) -> list[Operator]:
        """The operators that can take the newest value as their first operand that is not a fresh input."""
        last = draft.last
        if last is None:
            return [operator for operator in self.operators if main_parameter(operator) is None]
        form = (last.dtype, len(last.shape), draft.properties[last.name])
        if form not in self._by_form:
            self._by_form[form] = [
                operator
                for operator in self.operators
                if (main := main_parameter(operator)) is not None and _suits(draft, operator, main, last)
            ]
        if not draft.nodes or not OPERATORS[draft.nodes[-1].operator].unfinished:
            return self._by_form[form]
        # A mask waits for the softmax of its rows. Softmin would give all the weight to what is masked, and
        # beside the -10000 that a log-softmax keeps, no test would see the scores.
        return [
            operator
            for operator in self._by_form[form]
            if operator.kind == "softmax" and operator.row_axes == ("j",) and operator.name not in UNMASKED
        ]

    def _apply(self, draft: PartialGraph, operator: Operator) -> Node | None:
        rng, operand_names = self.rng, list[str | None]()
        takes_newest = True
        for parameter in operator.parameters:
            if parameter.fresh:
                operand_names.append(None)
            elif takes_newest:
                assert draft.last is not None, "the operator fits"
                operand_names.append(draft.last.name)
                takes_newest = False
            else:
                older = [
                    value.name
                    for value in (*draft.inputs, *draft.nodes)
                    if value.name not in operand_names and _suits(draft, operator, parameter, value)
                ]
                operand_names.append(rng.choice(older) if older and rng.random() < 0.5 else None)
        node = self._bound(draft, operator, operand_names)
        if node is None and any(name is not None for name in operand_names[1:]):
            newest = next((name for name in operand_names if name is not None), None)
            node = self._bound(draft, operator, [name if name == newest else None for name in operand_names])
        return node

    def _bound(
        self, draft: PartialGraph, operator: Operator, operand_names: Sequence[str | None]
    ) -> Node | None:
        values = {value.name: value for value in (*draft.inputs, *draft.nodes)}
        shapes = [values[name].shape if name is not None else None for name in operand_names]
        attributes = {name: self.rng.choice(choices) for name, choices in operator.attributes.items()}
        size_names = list(draft.sizes)

        def new_size(axis: str) -> str:
            size_names.append(sizing.fresh_name(axis, operator.kind, size_names))
            return size_names[-1]

        binding = bind(operator, shapes, attributes, new_size)
        if binding is None or not _sensible(operator, binding.extents, binding.rest, attributes, size_names):
            return None
        needed = [binding.shape(parameter.axes) for parameter in operator.parameters]
        if not all(needed) or not binding.shape(operator.out):
            return None  # an array without axes
        draft.sizes = size_names
        operands = []
        for parameter, name in zip(operator.parameters, operand_names, strict=True):
            if name is None:
                below = binding.extents[parameter.below] if parameter.below else None
                name = draft.add_input(parameter, binding.shape(parameter.axes), below, operator.kind).name
            operands.append(name)
        dtype = {"float": "float32", "float32": "float32", "int8": "int8", "index": "int64"}[operator.element]
        node = Node(
            f"h{len(draft.nodes) + 1}",
            dtype,
            binding.shape(operator.out),
            operator.name,
            tuple(operands),
            attributes,
        )
        draft.nodes.append(node)
        draft.properties[node.name] = _properties_of(draft, operator, operands)
        return node

    def _finished(self, draft: PartialGraph) -> Graph:
        outputs = [draft.nodes[-1].name]
        if len(draft.nodes) > 2 and self.rng.random() < SECOND_OUTPUT:
            candidates = [node for node in draft.nodes[:-1] if not OPERATORS[node.operator].unfinished]
            outputs += [self.rng.choice(candidates).name] if candidates else []
        graph = Graph(draft.dtype, tuple(draft.inputs), tuple(draft.nodes), tuple(outputs), Sizes((), {}))
        graph = replace(graph, nodes=tuple(_typed(graph, node) for node in graph.nodes))
        used = {name for value in graph.values.values() for name in sizing.names_in(value.shape)}
        names = [name for name in draft.sizes if name in used]
        return replace(graph, sizes=sizing.choose(graph, names, self.rng))


def main_parameter(operator: Operator) -> Parameter | None:
    """The first parameter that takes an earlier value; None if all are inputs of the graph."""
    return next((parameter for parameter in operator.parameters if not parameter.fresh), None)


def _suits(draft: PartialGraph, operator: Operator, parameter: Parameter, value: Value) -> bool:
    """Whether a value has the type and properties that a parameter needs, and enough axes."""
    properties = draft.properties[value.name]
    floating = value.dtype not in ("int8", "int64")
    if {"float": floating, "int8": value.dtype == "int8"}.get(parameter.element, False) is False:
        return False
    if (operator.sharp and "exact" not in properties) or not properties.issuperset(parameter.needs):
        return False
    if (operator.kind in ("softmax", "loss") or operator.name in EXPONENTIAL) and "tame" not in properties:
        return False
    if "scores" in properties and "scores" in operator.gives and operator.native:
        return False  # scores of scores
    if operator.centers and ("rounded" in properties or "spread" not in properties):
        return False
    axes = [axis for axis in parameter.axes if axis != REST]
    return len(value.shape) == len(axes) or (REST in parameter.axes and len(value.shape) > len(axes))


def _sensible(
    operator: Operator,
    extents: Mapping[str, int | str],
    rest: Shape,
    attributes: Mapping[str, int | float],
    names: Sequence[str],
) -> bool:
    """Whether all extents are positive at every size, enough elements exist to pick from, and a row operator
    has rows."""
    if any(sizing.least(extent, names) < 1 for extent in extents.values()):
        return False
    if operator.kind == "sort" and "count" in attributes:
        return sizing.least(extents["j"], names) >= attributes["count"]
    rows = [axis for axis in operator.axes if axis not in operator.folded and axis != REST]
    return bool(rows or rest) or not operator.folds


def _properties_of(draft: PartialGraph, operator: Operator, operands: Sequence[str]) -> frozenset[str]:
    """The properties of a result, from those of its operands."""
    of_operands = [draft.properties[name] for name in operands]
    keeps, native = "keeps" in operator.gives, operator.native
    all_small, all_tame = (all(_is(draft, name, prop) for name in operands) for prop in ("small", "tame"))
    small = "small" in operator.gives or (keeps and all_small)
    moderate = all_small and operator.kind == "pointwise" and operator.name != "exp"
    bounded = all_tame and (keeps or native or operator.unfinished)
    holds = {
        "small": small,
        "tame": small or moderate or bounded,
        "rounded": any("rounded" in prop for prop in of_operands) or (native and draft.dtype != "float32"),
        "spread": any("spread" in prop for prop in of_operands) and operator.kind in SPREADING,
        "exact": "exact" in operator.gives and all("exact" in prop for prop in of_operands),
    }
    gives = set(operator.gives) - {"keeps", "exact"}
    return frozenset(gives | {prop for prop, true in holds.items() if true})


def _is(draft: PartialGraph, name: str, prop: str) -> bool:
    value = next(value for value in (*draft.inputs, *draft.nodes) if value.name == name)
    return value.dtype in ("int8", "int64") or prop in draft.properties[name]


def _typed(graph: Graph, node: Node) -> Node:
    """The node with the type of its buffer: the graph's type for outputs, and for operands and results of
    products."""
    operator = OPERATORS[node.operator]
    if operator.element != "float":
        return node
    uses = [OPERATORS[other.operator] for other in graph.uses(node.name)]
    narrow = operator.native or node.name in graph.outputs or any(use.native for use in uses)
    return replace(node, dtype=graph.dtype if narrow else "float32")
