"""References of the graph pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def edge_starts(offsets: Array) -> Array:
    """The row of each entry of a CSR structure: `(entries,) int64`."""
    return np.repeat(np.arange(offsets.size - 1), np.diff(offsets))


def bfs(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The least number of edges from the source, -1 where none leads."""
    levels = np.full(sizes["nodes"], -1, np.int64)
    frontier = np.array([int(scalars["source"])])
    level = 0
    while frontier.size:
        levels[frontier] = level
        reached = [
            arrays["targets"][arrays["offsets"][node] : arrays["offsets"][node + 1]] for node in frontier
        ]
        found = np.unique(np.concatenate(reached))
        frontier = found[levels[found] < 0]
        level += 1
    return {"levels": levels}


def pagerank(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Six rounds from ones; what nodes without outgoing edges hold is lost."""
    nodes, sources = sizes["nodes"], arrays["sources"].astype(np.int64)
    targets = edge_starts(arrays["offsets"])
    degrees = np.maximum(np.bincount(sources, minlength=nodes), 1)
    damping = float(np.float32(scalars["damping"]))
    rank = np.ones(nodes)
    for _ in range(6):
        shares = (rank / degrees)[sources]
        rank = (1.0 - damping) + damping * np.bincount(targets, weights=shares, minlength=nodes)
    return {"rank": rank}


ORACLES = {"bfs": bfs, "pagerank": pagerank}
