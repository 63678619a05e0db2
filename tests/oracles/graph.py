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
    rank: Array = np.ones(nodes)
    for _ in range(6):
        shares = (rank / degrees)[sources]
        rank = (1.0 - damping) + damping * np.bincount(targets, weights=shares, minlength=nodes)
    return {"rank": rank}


def shortest_paths(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The least sum of weights from the source, 2**31 - 1 where no path leads."""
    starts, targets = edge_starts(arrays["offsets"]), arrays["targets"].astype(np.int64)
    unreached = 2**31 - 1
    distances = np.full(sizes["nodes"], unreached, np.int64)
    distances[int(scalars["source"])] = 0
    while True:
        through = np.where(
            distances[starts] == unreached, unreached, distances[starts] + arrays["weights"].astype(np.int64)
        )
        nearer = distances.copy()
        np.minimum.at(nearer, targets, through)
        if np.array_equal(nearer, distances):
            return {"distances": distances}
        distances = nearer


def connected_components(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The least node that edges, taken both ways, connect each node to."""
    starts, targets = edge_starts(arrays["offsets"]), arrays["targets"].astype(np.int64)
    labels = np.arange(sizes["nodes"])
    while True:
        least = labels.copy()
        np.minimum.at(least, targets, labels[starts])
        np.minimum.at(least, starts, labels[targets])
        if np.array_equal(least, labels):
            return {"labels": labels}
        labels = least


def triangle_count(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Over all edges u-v, how many w both u and v lead to."""
    adjacent = np.zeros((sizes["nodes"], sizes["nodes"]), np.int64)
    adjacent[edge_starts(arrays["offsets"]), arrays["targets"]] = 1
    return {"triangles": np.array([np.sum(adjacent * (adjacent @ adjacent.T))])}


ORACLES = {
    "bfs": bfs,
    "pagerank": pagerank,
    "shortest-paths": shortest_paths,
    "connected-components": connected_components,
    "triangle-count": triangle_count,
}
