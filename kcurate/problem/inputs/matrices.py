"""Generators for properties that computations rely on: symmetry, triangles, signs, rows that sum to one.

A kernel may exploit such a property, so its inputs must have it. Not covered: `dominant` matrices
(`kcurate.problem.inputs.structured`).
"""

from __future__ import annotations

import numpy as np

from kcurate.errors import ProblemError
from kcurate.problem.inputs.draws import REAL, TEXT, Array, Draw, generator


def _uniform(draw: Draw, low: float, high: float) -> Array:
    values = draw.rng.random(draw.count, np.float32)
    values *= draw.real("high", high) - draw.real("low", low)
    values += draw.real("low", low)
    return values


def _squares(draw: Draw) -> Array:
    if len(draw.shape) < 2 or draw.shape[-1] != draw.shape[-2]:
        raise ProblemError(f"the last two extents of {draw.shape} are not equal")
    return _uniform(draw, -1.0, 1.0).reshape(-1, *draw.shape[-2:])


@generator(low=REAL, high=REAL)
def symmetric(draw: Draw) -> Array:
    """Square matrices, uniform from `low` to `high` (default -1, 1), each equal to its transpose."""
    upper = np.triu(_squares(draw))
    return np.asarray(upper + np.swapaxes(np.triu(upper, 1), 1, 2))


@generator(low=REAL, high=REAL, part=TEXT)
def triangle(draw: Draw) -> Array:
    """Square matrices, uniform in the triangle `part` (upper, the default, or lower) and zero elsewhere."""
    part = str(draw.params.get("part", "upper"))
    if part not in ("upper", "lower"):
        raise ProblemError(f"unknown part {part!r}", hint="upper or lower")
    values = _squares(draw)
    return np.asarray(np.triu(values) if part == "upper" else np.tril(values))


@generator()
def signs(draw: Draw) -> Array:
    """-1 or 1."""
    return 2 * draw.rng.integers(0, 2, draw.count, np.int8) - 1


@generator(low=REAL, high=REAL)
def rescaled(draw: Draw) -> Array:
    """Uniform from `low` to `high` (default 0, 1), scaled by one random factor between 0 and 1."""
    factor = draw.rng.random(dtype=np.float32)
    return np.asarray(factor * _uniform(draw, 0.0, 1.0))


@generator()
def shares(draw: Draw) -> Array:
    """Positive values that sum to one along the last axis: the softmax of `rescaled` values."""
    rows = rescaled(draw).reshape(-1, draw.shape[-1])
    powers = np.exp(rows)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
