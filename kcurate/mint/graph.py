"""Typed operator graphs: operators as data, nodes, shapes as expressions of sizes, and the canonical hash.

An operator is one entry of `operators.toml`. Its PyTorch text, device code, words, types
and shapes all come from that entry. Not covered: which graphs are made (`composer`), their texts
(`torch_text`, `naive`, `statement`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from kcurate.core import resources
from kcurate.records import Expr, Sizes

Kind = Literal[
    "pointwise", "broadcast", "reduction", "normalization", "softmax", "scan", "gather", "scatter", "sort",
    "gemm", "convolution", "pooling", "attention", "quantization", "loss", "backward",
]  # fmt: skip
How = Literal["sum", "max", "min"]
# What a parameter needs of its values, and what is known of a result:
# `small`, `tame`: magnitudes up to about 10, up to about 100; `keeps`: small if all operands are;
# `nonnegative`; `unit`: from 0 to 1; `shares`: rows are nonnegative and sum to one;
# `exact`: the same bits in whatever order it is computed; `rounded`: rounded to a narrow type on the way;
# `spread`: elements of a row differ; `scores`: a score for each query and key.
Property = Literal[
    "small", "tame", "keeps", "nonnegative", "unit", "shares", "exact", "rounded", "spread", "scores"
]
# `float` is the type of the graph (in float32 between kernels, unless `Operator.native`).
Element = Literal["float", "float32", "int8", "index"]
REST = "..."
_PARAMETER = re.compile(r"(!?)(\w+)\[([^\]]*)\](?::(\w+)(?:<(\w+))?)?")


@dataclass(frozen=True)
class Fold:
    """`name` = sum, max or min of `term` over the axes `over`, of type `dtype` (C).

    `term` may use the names of earlier folds. `running`: up to and including the current index of the axis
    (a scan), from the last index down if `backwards`.
    """

    name: str
    how: How
    over: tuple[str, ...]
    term: str
    dtype: Literal["float", "int"] = "float"
    running: bool = False
    backwards: bool = False


@dataclass(frozen=True)
class Parameter:
    """One operand. `axes`: names, `...` for any leading ones. `fresh`: always an input of the graph.

    `below`: the axis that values of an `index` stay below. `needs`: what its values must be.
    """

    name: str
    axes: tuple[str, ...]
    fresh: bool = False
    element: Element = "float"
    below: str | None = None
    needs: tuple[Property, ...] = ()


@dataclass(frozen=True)
class Operator:
    """One operator.

    `result`, and each fold's `term`, are expressions in Python's syntax. A bare parameter is its element at
    the current index; `x[..., k]` is another element; an axis name is its index, `size(j)` its extent, an
    attribute name its value. Functions: `kcurate.mint.scalar_text`. A conditional `a if c else b` evaluates
    only one branch, so it may guard an index.

    Each element of the result is `result` at its index; with `to` (a scatter), the thread at each index of
    `domain` writes to the index `to`, if `only` holds. `extents`: axes of no parameter, over other axes and
    attributes. Folds over an axis of the result are computed once per row. `torch`: PyTorch text with
    `{name}` for operands and attributes, in float32 for float operands; `words`: noun phrases.

    `native`: computes on operands in the graph's own type and rounds to it, as PyTorch's products do.
    `sharp`: discontinuous, so operands must be `exact`. `centers`: subtracts a mean, so that the result of a
    row of equal elements is only rounding.
    """

    name: str
    kind: Kind
    parameters: tuple[Parameter, ...]
    out: tuple[str, ...]
    torch: str
    result: str
    words: tuple[str, ...]
    folds: tuple[Fold, ...] = ()
    extents: Mapping[str, str] = field(default_factory=dict, hash=False)
    attributes: Mapping[str, tuple[int | float, ...]] = field(default_factory=dict, hash=False)
    element: Element = "float"
    gives: tuple[Property, ...] = ()
    domain: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    only: str = ""
    native: bool = False
    sharp: bool = False
    centers: bool = False
    commutes: bool = False

    @property
    def unfinished(self) -> bool:
        """Whether a result needs a further operator: masked scores, of which the masked ones outweigh all
        others."""
        return self.gives == ("scores",) and not self.native

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes over which threads and loops iterate: those of the result, unless it is scattered."""
        return self.domain or self.out

    @property
    def folded(self) -> tuple[str, ...]:
        """The axes of all folds."""
        return tuple(dict.fromkeys(axis for fold in self.folds for axis in fold.over))

    @property
    def row_axes(self) -> tuple[str, ...]:
        """The axes of the result that folds go over too: a thread of the plain side loops over these."""
        return tuple(axis for axis in self.axes if axis in self.folded)


def signature(text: str) -> tuple[tuple[Parameter, ...], tuple[str, ...]]:
    """The parameters and result axes in a text such as `x[... k], !w[k j], ids[...]:index<v -> ... j`.

    `!` marks a parameter that is always an input of the graph.
    """
    left, _, right = text.partition("->")
    parameters = tuple(
        Parameter(name, tuple(axes.split()), bool(fresh), element or "float", below or None)
        for fresh, name, axes, element, below in _PARAMETER.findall(left)
    )
    return parameters, tuple(right.split())


def _operator(name: str, entry: dict[str, Any]) -> Operator:
    """The operator of an entry: `shapes` as in `graph.signature`, `needs` by parameter."""
    needs, (parameters, out) = entry.pop("needs", {}), signature(entry.pop("shapes"))
    folds = tuple(Fold(**{**fold, "over": tuple(fold["over"].split())}) for fold in entry.pop("folds", ()))
    return Operator(
        name=name,
        parameters=tuple(replace(param, needs=tuple(needs.get(param.name, ()))) for param in parameters),
        out=out,
        words=tuple(entry.pop("words")),
        folds=folds,
        attributes={key: tuple(values) for key, values in entry.pop("attributes", {}).items()},
        gives=tuple(entry.pop("gives", ())),
        domain=tuple(entry.pop("domain", "").split()),
        to=tuple(entry.pop("to", "").split()),
        centers=any("s / " in fold.term for fold in folds),
        **entry,
    )


OPERATORS: Mapping[str, Operator] = {
    name: _operator(name, entry) for name, entry in resources.table("kcurate.mint", "operators.toml").items()
}


@dataclass(frozen=True)
class Value:
    """An array of the graph. `dtype`: of its buffer. `shape`: expressions of the sizes."""

    name: str
    dtype: str
    shape: tuple[Expr, ...]


@dataclass(frozen=True)
class Input(Value):
    """An input of the graph. `values`: a key of `problem.VALUES`, `index` or `int8`; `below`: of an index."""

    values: str = "normal"
    below: Expr | None = None


@dataclass(frozen=True)
class Node(Value):
    """One operator applied to earlier values (by name, in the order of the operator's parameters)."""

    operator: str
    operands: tuple[str, ...]
    attributes: Mapping[str, int | float] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Graph:
    """Nodes in the order they run; each uses inputs and earlier nodes. `dtype`: the graph's float type."""

    dtype: str
    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    sizes: Sizes

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """Every value by name."""
        return {value.name: value for value in (*self.inputs, *self.nodes)}

    def uses(self, name: str) -> list[Node]:
        """The nodes that use a value."""
        return [node for node in self.nodes if name in node.operands]

    @cached_property
    def key(self) -> str:
        """The canonical hash: equal for equal graphs, whatever their names, shapes and numbers."""
        return canonical_key(self)


def canonical_key(graph: Graph) -> str:
    """Hash of operators, types and wiring. Not of sizes, names, constants or the order of commuting operands.

    Two passes: commutative operands are sorted by the hash of their subgraph; then inputs are numbered in the
    order of their first use, so that `x * x` and `x * y` differ.
    """
    made_of = dict[str, str]()
    for value in graph.inputs:
        made_of[value.name] = _digest("input", value.dtype, len(value.shape))
    for node in graph.nodes:
        parts = [made_of[name] for name in node.operands]
        made_of[node.name] = _digest(
            node.operator, node.dtype, *(sorted(parts) if _commutes(node) else parts)
        )
    numbers = dict[str, int]()
    text = [
        part
        for name in sorted(graph.outputs, key=made_of.__getitem__)
        for part in _walk(graph, name, made_of, numbers)
    ]
    return _digest(graph.dtype, *text)


def _walk(graph: Graph, name: str, made_of: Mapping[str, str], numbers: dict[str, int]) -> Iterator[str]:
    if name in numbers:
        yield f"#{numbers[name]}"
        return
    value = graph.values[name]
    if isinstance(value, Node):
        order = sorted(value.operands, key=made_of.__getitem__) if _commutes(value) else value.operands
        for operand in order:
            yield from _walk(graph, operand, made_of, numbers)
    numbers[name] = len(numbers)
    yield f"{made_of[name]} = {numbers[name]}"


def _commutes(node: Node) -> bool:
    return OPERATORS[node.operator].commutes


def _digest(*parts: object) -> str:
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:24]
