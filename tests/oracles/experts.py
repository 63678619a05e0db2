"""References of the pairs for mixtures of experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def moe_align(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The entries of each expert in turn, each list padded to whole tiles, and the expert of each tile."""
    ids, entries, tile = arrays["ids"], sizes["entries"], sizes["tile"]
    tiles = -(-(entries + sizes["experts"] * (tile - 1)) // tile)
    order, owner = np.full(tiles * tile, entries), np.full(tiles, -1)
    at = 0
    for expert in range(sizes["experts"]):
        chosen = np.flatnonzero(ids == expert)
        order[at : at + chosen.size] = chosen
        end = at + -(-chosen.size // tile) * tile
        owner[at // tile : end // tile] = expert
        at = end
    return {"order": order, "tile_expert": owner, "total": np.array([at])}


def moe_permute(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each token's row at the places of its choices."""
    place, hidden = arrays["place"].ravel(), arrays["hidden"].astype(np.float64)
    out = np.empty((place.size, sizes["dim"]))
    out[place] = np.repeat(hidden, sizes["choices"], axis=0)
    return {"out": out}


def moe_combine(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The weighted sum of the rows that each token's choices name."""
    chosen = arrays["rows"].astype(np.float64)[arrays["place"]]
    return {"out": (arrays["weights"].astype(np.float64)[:, :, None] * chosen).sum(axis=1)}


def moe_route(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The largest logits of each row, equal ones by ascending place, and the softmax over them."""
    logits = arrays["logits"].astype(np.float64)
    ids = np.argsort(-logits, axis=1, kind="stable")[:, : sizes["choices"]]
    powers = np.exp(np.take_along_axis(logits, ids, axis=1) - logits.max(axis=1, keepdims=True))
    return {"weights": powers / powers.sum(axis=1, keepdims=True), "ids": ids}


def moe_route_grouped(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Of 8 groups of 32 experts the 4 with the best two; of those the best 8; sigmoid weights, normalised."""
    scores = 1.0 / (1.0 + np.exp(-arrays["logits"].astype(np.float64)))
    biased = scores + arrays["bias"].astype(np.float64)
    groups = biased.reshape(-1, 8, 32)
    best = np.sort(groups, axis=2)[:, :, -2:].sum(axis=2)
    kept = np.argsort(-best, axis=1, kind="stable")[:, :4]
    closed = np.ones_like(groups)
    np.put_along_axis(closed, kept[:, :, None], 0.0, axis=1)
    ids = np.argsort((1000.0 * closed - groups).reshape(biased.shape), axis=1, kind="stable")[:, :8]
    chosen = np.take_along_axis(scores, ids, axis=1)
    return {"weights": scalars["scale"] * chosen / chosen.sum(axis=1, keepdims=True), "ids": ids}


ORACLES = {
    "moe-align": moe_align,
    "moe-permute": moe_permute,
    "moe-combine": moe_combine,
    "moe-route": moe_route,
    "moe-route-grouped": moe_route_grouped,
}
