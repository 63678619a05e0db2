"""References of the reduction and scan pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def reduce_sum(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The sum of all values."""
    return {"total": arrays["values"].astype(np.float64).sum(keepdims=True)}


def count_above(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """How many values exceed the threshold."""
    hits = arrays["values"] > np.float32(scalars["threshold"])
    return {"count": hits.sum(dtype=np.int64, keepdims=True)}


def exclusive_scan(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The sum of all values before each place."""
    values = arrays["values"].astype(np.int64)
    return {"sums": np.cumsum(values) - values}


ORACLES = {"reduce-sum": reduce_sum, "count-above": count_above, "exclusive-scan": exclusive_scan}
