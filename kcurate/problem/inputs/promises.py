"""Whether values keep a promise. Not covered: which variations a promise excludes (`generators`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kcurate.problem.inputs.draws import Array
from kcurate.records import Promise

# In a `varied` row the largest and the smallest value differ by more than this share of the largest
# magnitude.
LEAST_SPREAD = 1e-3
# A buffer with shorter rows, such as points, counts as one row: two coordinates may be equal by chance.
SHORTEST_ROW = 8


def keeps(promise: Promise, values: Array) -> bool:
    """Whether an input, of any shape and dtype, keeps a promise, in each row of its last axis."""
    rows = values.reshape(-1, values.shape[-1] if values.ndim else 1)
    return not values.size or bool(_KEEPS[promise](rows))


def _varied(rows: Array) -> bool:
    reals = (rows if rows.shape[1] >= SHORTEST_ROW else rows.reshape(1, -1)).astype(np.float64)
    if reals.size < 2:
        return True
    least, most = reals.min(axis=1), reals.max(axis=1)
    return bool((most - least > LEAST_SPREAD * np.maximum(np.abs(least), np.abs(most))).all())


def _distinct(rows: Array) -> bool:
    ordered = np.sort(rows, axis=1)
    return bool((ordered[:, 1:] != ordered[:, :-1]).all())


_KEEPS: Mapping[Promise, Callable[[Array], bool]] = {
    "finite": lambda rows: bool(np.isfinite(rows.astype(np.float64)).all()),
    "positive": lambda rows: bool((rows > 0).all()),
    "nonnegative": lambda rows: bool((rows >= 0).all()),
    "nonzero": lambda rows: bool((rows != 0).all()),
    "sorted": lambda rows: bool((rows[:, 1:] >= rows[:, :-1]).all()),
    "distinct": _distinct,
    "varied": _varied,
}
