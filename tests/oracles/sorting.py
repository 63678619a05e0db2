"""References of the sorting and histogram pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def histogram(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """How often each byte value occurs."""
    return {"counts": np.bincount(arrays["bytes"], minlength=256).astype(np.int64)}


def filter_unordered(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The values above the limit in some order, then whatever; how many they are."""
    chosen = arrays["values"][arrays["values"] > scalars["limit"]].astype(np.int64)
    kept = np.zeros(sizes["n"], np.int64)
    kept[: chosen.size] = chosen
    return {"kept": kept, "count": np.array([chosen.size])}


def merge_sorted(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Both arrays as one, ascending."""
    return {"merged": np.sort(np.concatenate([arrays["a"], arrays["b"]]).astype(np.int64))}


def sort_keys(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The keys, ascending."""
    return {"keys": np.sort(arrays["keys"].astype(np.int64))}


def segment_sort(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The keys of each row, ascending."""
    return {"ordered": np.sort(arrays["keys"].astype(np.int64), axis=1)}


def topk_rows(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The 32 greatest values of each row, descending."""
    return {"best": -np.sort(-arrays["values"].astype(np.float64), axis=1)[:, :32]}


ORACLES = {
    "histogram256": histogram,
    "filter-unordered": filter_unordered,
    "merge-sorted": merge_sorted,
    "bitonic-sort": sort_keys,
    "radix-sort": sort_keys,
    "segment-sort": segment_sort,
    "topk-rows": topk_rows,
}
