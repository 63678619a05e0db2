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


def smith_waterman_affine(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The best score of any local alignment of each pair; a gap costs `open` and `extend` for each letter."""
    match, mismatch, first, more = (int(scalars[name]) for name in ("match", "mismatch", "open", "extend"))
    pairs, m = arrays["queries"].shape
    h, f = np.zeros((pairs, m + 1), np.int64), np.full((pairs, m + 1), -first, np.int64)
    best = np.zeros(pairs, np.int64)
    for letters in arrays["targets"].T:
        across = h[:, :-1] + np.where(arrays["queries"] == letters[:, None], match, mismatch)
        f = np.maximum(f, h - first) - more
        row = np.zeros_like(h)
        e = np.full(pairs, -first, np.int64)
        for j in range(1, m + 1):
            e = np.maximum(e, row[:, j - 1] - first) - more
            row[:, j] = np.maximum(np.maximum(across[:, j - 1], 0), np.maximum(e, f[:, j]))
        h = row
        best = np.maximum(best, h.max(axis=1))
    return {"best": best}


def needleman_wunsch_banded(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Global alignment scores of prefixes of each pair, over cells (i, j) with -32 <= j - i < 32."""
    match, mismatch, gap = (int(scalars[name]) for name in ("match", "mismatch", "gap"))
    scores = []
    for a, b, (n, m) in zip(arrays["a"], arrays["b"], arrays["lengths"], strict=True):
        table = np.full((n + 1, m + 1), -(10**9))
        for i in range(n + 1):
            for j in range(max(0, i - 32), min(m, i + 31) + 1):
                if i == 0 or j == 0:
                    table[i, j] = -gap * (i + j)
                else:
                    across = table[i - 1, j - 1] + (match if a[i - 1] == b[j - 1] else mismatch)
                    table[i, j] = max(across, table[i - 1, j] - gap, table[i, j - 1] - gap)
        scores.append(table[n, m])
    return {"scores": np.array(scores)}


def levenshtein(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The least number of letters to change, insert or delete."""
    steps = np.arange(sizes["m"] + 1)
    row = np.tile(steps, (sizes["pairs"], 1))
    for letters in arrays["b"].T:
        changed = row[:, :-1] + (arrays["a"] != letters[:, None])
        best = np.concatenate([row[:, :1] + 1, np.minimum(changed, row[:, 1:] + 1)], axis=1)
        row = np.minimum.accumulate(best - steps, axis=1) + steps
    return {"distances": row[:, -1]}


def lcs_batch(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The length of the longest common subsequence of each pair."""
    row = np.zeros((sizes["pairs"], sizes["m"] + 1), np.int64)
    for letters in arrays["b"].T:
        same = arrays["a"] == letters[:, None]
        longer = np.where(same, row[:, :-1] + 1, row[:, 1:])
        row[:, 1:] = np.maximum.accumulate(longer, axis=1)
    return {"lengths": row[:, -1]}


def dtw_batch(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The least sum of |a - b| along any monotone way through all of both series."""
    a, b = arrays["a"].astype(np.float64), arrays["b"].astype(np.float64)
    row = np.full((sizes["pairs"], sizes["m"] + 1), np.inf)
    row[:, 0] = 0.0
    for values in b.T:
        costs, left = np.abs(a - values[:, None]), np.full(sizes["pairs"], np.inf)
        next_row = np.full_like(row, np.inf)
        for j in range(sizes["m"]):
            left = costs[:, j] + np.minimum(np.minimum(row[:, j], row[:, j + 1]), left)
            next_row[:, j + 1] = left
        row = next_row
    return {"costs": row[:, -1]}


ORACLES = {
    "floyd-warshall": floyd_warshall,
    "sequence-alignment": sequence_alignment,
    "grid-path": grid_path,
    "knapsack": knapsack,
    "viterbi": viterbi,
    "smith-waterman-affine": smith_waterman_affine,
    "needleman-wunsch-banded": needleman_wunsch_banded,
    "levenshtein": levenshtein,
    "lcs-batch": lcs_batch,
    "dtw-batch": dtw_batch,
}
