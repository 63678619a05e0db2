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


def sequence_alignment(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Needleman-Wunsch scores of all of `a` with every prefix of `b`."""
    match, mismatch, gap = (int(scalars[name]) for name in ("match", "mismatch", "gap"))
    columns = np.arange(sizes["m"] + 1)
    row = -gap * columns
    for i in range(1, sizes["n"] + 1):
        across = row[:-1] + np.where(arrays["b"] == arrays["a"][i - 1], match, mismatch)
        best = np.concatenate([[-gap * i], np.maximum(across, row[1:] - gap)])
        row = np.maximum.accumulate(best + gap * columns) - gap * columns
    return {"scores": row}


ORACLES = {"floyd-warshall": floyd_warshall, "sequence-alignment": sequence_alignment}
