"""Sizes of a graph: names for new axes, small settings for tests, weighted settings for timing.

Timed settings are shapes that models use, some of them ragged (no multiple of a block or a vector). They are
halved until a graph's arrays and its work fit a judgement.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcurate.core import resources
from kcurate.mint.axes import binding_of, product
from kcurate.mint.graph import OPERATORS, Graph
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.problem.expressions import names_in as expression_names
from kcurate.records import BenchSize, Expr, Sizes

# The most that a graph's arrays may take, and terms added by all its threads, when it is timed and tested.
BENCH_BYTES = 64 << 20
BENCH_WORK = 1 << 30
# The least that they take at the headline size, unless that is too much work.
LEAST_BYTES = 8 << 20
TEST_WORK = 1 << 19


@dataclass(frozen=True)
class Extent:
    """The choices for one size: `tests` from the smallest to a long one; `bench` as models use it."""

    tests: tuple[int, ...]
    bench: tuple[int, ...]

    @property
    def least(self) -> int:
        """The smallest value."""
        return min(self.tests)


EXTENTS: Mapping[str, Extent] = {
    name: Extent(**{setting: tuple(values) for setting, values in extent.items()})
    for name, extent in resources.table("kcurate.mint", "sizes.toml").items()
}
# The name of a size that only fresh inputs of an operator have, by its axis.
NEW = {
    "j": "features", "k": "depth", "i": "rows", "d": "features", "o": "filters", "t": "picks", "v": "classes",
    "b": "batch", "n": "batch", "c": "channels", "h": "heads", "y": "height", "x_": "width", "r": "width",
    "s": "width",
}  # fmt: skip


def fresh_name(axis: str, kind: str, taken: Sequence[str]) -> str:
    """A new size for an axis of an operator: `features`, or `features2` if that is taken."""
    base = "keys" if kind == "attention" and axis == "j" else NEW[axis]
    return next(name for name in (base, *(f"{base}{n}" for n in range(2, 9))) if name not in taken)


def extent_of(name: str) -> Extent:
    """The choices for the size `name`."""
    return EXTENTS[name.rstrip("0123456789")]


def names_in(shape: Sequence[Expr]) -> set[str]:
    """The sizes that a shape depends on."""
    return {name for extent in shape for name in expression_names(extent)}


def least(extent: Expr, names: Sequence[str]) -> int:
    """The smallest value of an extent at any setting, for expressions that grow with every size."""
    return evaluate(extent, {name: extent_of(name).least for name in names})


def choose(graph: Graph, names: Sequence[str], rng: random.Random) -> Sizes:
    """Four test settings and one to three weighted bench settings."""
    tests = [
        {name: extent_of(name).tests[min(index, len(extent_of(name).tests) - 1)] for name in names}
        for index in rng.sample(range(4), 4)
    ]
    return Sizes(
        tuple(_fitting(graph, sizes, 1 << 22, TEST_WORK) for sizes in tests), _bench(graph, names, rng)
    )


def _bench(graph: Graph, names: Sequence[str], rng: random.Random) -> tuple[BenchSize, ...]:
    settings: list[Mapping[str, int]] = []
    for _ in range(rng.choice((2, 2, 3))):
        sizes = {name: rng.choice(extent_of(name).bench) for name in names}
        fitted = _fitting(graph, sizes, BENCH_BYTES, BENCH_WORK)
        if not settings:
            fitted = _grown(graph, fitted)
        if fitted not in settings:
            settings.append(fitted)
    weights = (1.0, *(rng.choice((0.25, 0.5)) for _ in settings[1:]))
    return tuple(
        BenchSize(f"s{number + 1}", sizes, headline=number == 0, weight=weight)
        for number, (sizes, weight) in enumerate(zip(settings, weights, strict=True))
    )


def _fitting(graph: Graph, sizes: Mapping[str, int], most_bytes: int, most_work: int) -> dict[str, int]:
    """The sizes, with the largest halved until bytes and work are within the limits."""
    fitted = dict(sizes)
    while array_bytes(graph, fitted) > most_bytes or work(graph, fitted) > most_work:
        movable = [name for name in fitted if fitted[name] // 2 >= extent_of(name).least]
        if not movable:
            return fitted
        name = max(movable, key=lambda key: fitted[key] / extent_of(key).least)
        fitted[name] //= 2
    return fitted


def _grown(graph: Graph, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes, the first doubled until a launch takes longer than its overhead."""
    grown, first = dict(sizes), next(iter(sizes))
    while array_bytes(graph, grown) < LEAST_BYTES and 2 * work(graph, grown) <= BENCH_WORK:
        grown[first] *= 2
    return grown


def array_bytes(graph: Graph, sizes: Mapping[str, int]) -> int:
    """The bytes of all arrays, including intermediate ones."""
    return sum(
        evaluate(product(value.shape), sizes) * numpy_dtype(value.dtype).itemsize
        for value in graph.values.values()
    )


def work(graph: Graph, sizes: Mapping[str, int]) -> int:
    """How many terms the folds of all nodes combine, at least one per element."""
    total = 0
    for node in graph.nodes:
        operator = OPERATORS[node.operator]
        binding = binding_of(graph, node, operator)
        axes = (*operator.axes, *(axis for axis in operator.folded if axis not in operator.axes))
        elements = math.prod(evaluate(binding.extent(axis), sizes) for axis in axes)
        total += elements * max(1, len(operator.folds))
    return total
