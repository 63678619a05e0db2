"""References of the dynamic programming pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def floyd_warshall(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The least sum of weights on any way of at least one edge between two nodes."""
    distances = arrays["distances"].astype(np.int64)
    for k in range(sizes["n"]):
        distances = np.minimum(distances, distances[:, k, None] + distances[None, k, :])
    return {"distances": distances}


ORACLES = {"floyd-warshall": floyd_warshall}
