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


def segmented_sum(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The sum of the values between each two offsets."""
    before = np.concatenate([[0], np.cumsum(arrays["values"].astype(np.int64))])
    return {"sums": np.diff(before[arrays["offsets"]])}


def argmax(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The greatest value and its first place."""
    place = int(np.argmax(arrays["values"]))
    return {"best": arrays["values"][[place]].astype(np.int64), "place": np.array([place])}


def dot_product(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The inner product."""
    return {"dot": np.array([arrays["x"].astype(np.float64) @ arrays["y"].astype(np.float64)])}


def stream_compaction(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The values above the limit in their order, then whatever; how many they are."""
    chosen = arrays["values"][arrays["values"] > scalars["limit"]].astype(np.int64)
    kept = np.zeros(sizes["n"], np.int64)
    kept[: chosen.size] = chosen
    return {"kept": kept, "count": np.array([chosen.size])}


def row_prefix_sum(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Inclusive running sums along each row."""
    return {"sums": np.cumsum(arrays["values"].astype(np.float64), axis=1)}


def column_moments(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Mean and population variance of each column."""
    values = arrays["values"].astype(np.float64)
    return {"mean": values.mean(axis=0), "variance": values.var(axis=0)}


def row_standardize(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each row less its mean, over its population standard deviation (eps added to the variance)."""
    values = arrays["values"].astype(np.float64)
    deviation = np.sqrt(values.var(axis=1, keepdims=True) + scalars["eps"])
    return {"out": (values - values.mean(axis=1, keepdims=True)) / deviation}


def row_normalize(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each row divided by its Euclidean length."""
    rows = arrays["in"].astype(np.float64)
    return {"out": rows / np.sqrt((rows**2).sum(axis=1, keepdims=True))}


def scan_by_key(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The sum since the key last changed."""
    keys, sums = arrays["keys"], arrays["values"].astype(np.int64).cumsum()
    heads = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    before = np.concatenate([[0], sums])[heads]
    return {"sums": sums - np.repeat(before, np.diff(heads, append=keys.size))}


def reduce_by_key(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The key and the sum of each run of equal keys, and how many runs there are."""
    keys = arrays["keys"].astype(np.int64)
    heads = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    padded = np.zeros((2, keys.size), np.int64)
    padded[0, : heads.size] = keys[heads]
    padded[1, : heads.size] = np.add.reduceat(arrays["values"].astype(np.int64), heads)
    return {"group_keys": padded[0], "sums": padded[1], "count": np.array([heads.size])}


ORACLES = {
    "reduce-sum": reduce_sum,
    "count-above": count_above,
    "exclusive-scan": exclusive_scan,
    "segmented-sum": segmented_sum,
    "argmax": argmax,
    "dot-product": dot_product,
    "stream-compaction": stream_compaction,
    "row-prefix-sum": row_prefix_sum,
    "column-moments": column_moments,
    "row-standardize": row_standardize,
    "row-normalize-wide": row_normalize,
    "scan-by-key": scan_by_key,
    "reduce-by-key": reduce_by_key,
}
