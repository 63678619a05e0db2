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


def grid_path(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The least sum of costs from the first row to each cell of the last."""
    costs = arrays["costs"].astype(np.int64)
    best = costs[0]
    for row in costs[1:]:
        padded = np.pad(best, 1, constant_values=np.iinfo(np.int64).max)
        best = row + np.minimum(best, np.minimum(padded[:-2], padded[2:]))
    return {"best": best}


def knapsack(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The greatest worth that fits each capacity, each item at most once."""
    best = np.zeros((sizes["batch"], sizes["capacity"] + 1), np.int64)
    for sack in range(sizes["batch"]):
        for weight, worth in zip(arrays["weights"][sack], arrays["worths"][sack], strict=True):
            with_item = best[sack, : sizes["capacity"] + 1 - weight] + worth
            best[sack, weight:] = np.maximum(best[sack, weight:], with_item)
    return {"best": best}


def viterbi(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The path of the greatest score and that score; of equal ones the lowest state at each step."""
    moves, emits = arrays["moves"].astype(np.int64), arrays["emits"].astype(np.int64)
    rows, symbols = np.arange(sizes["batch"]), arrays["symbols"]
    scores = emits[:, symbols[:, 0]].T
    froms = []
    for step in range(1, sizes["steps"]):
        reached = scores[:, :, None] + moves[None]
        froms.append(reached.argmax(axis=1))
        scores = reached.max(axis=1) + emits[:, symbols[:, step]].T
    path = np.empty((sizes["batch"], sizes["steps"]), np.int64)
    path[:, -1] = scores.argmax(axis=1)
    for step in range(sizes["steps"] - 1, 0, -1):
        path[:, step - 1] = froms[step - 1][rows, path[:, step]]
    return {"path": path, "score": scores.max(axis=1)}


ORACLES = {
    "floyd-warshall": floyd_warshall,
    "sequence-alignment": sequence_alignment,
    "grid-path": grid_path,
    "knapsack": knapsack,
    "viterbi": viterbi,
}
