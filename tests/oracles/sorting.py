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


def hash_join(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The payload of the row with each probe's key; -1 where there is none."""
    of_key = np.full(2 * sizes["n"], -1, np.int64)
    of_key[arrays["keys"]] = arrays["payload"]
    return {"joined": of_key[arrays["probes"]]}


def group_by_sum(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The sum and the number of each group's values."""
    sums = np.zeros(sizes["groups"], np.int64)
    np.add.at(sums, arrays["keys"], arrays["values"].astype(np.int64))
    return {"sums": sums, "counts": np.bincount(arrays["keys"], minlength=sizes["groups"])}


def string_search(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """1 where the pattern begins in the text."""
    found = np.zeros(sizes["n"], np.int64)
    if sizes["m"] <= sizes["n"]:
        windows = np.lib.stride_tricks.sliding_window_view(arrays["text"], sizes["m"])
        found[: len(windows)] = (windows == arrays["pattern"]).all(axis=1)
    return {"found": found}


def run_length_encode(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The value and the length of each run of equal values, and how many runs there are."""
    values = arrays["values"].astype(np.int64)
    heads = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    padded = np.zeros((2, values.size), np.int64)
    padded[0, : heads.size] = values[heads]
    padded[1, : heads.size] = np.diff(heads, append=values.size)
    return {"run_values": padded[0], "run_lengths": padded[1], "count": np.array([heads.size])}


def partition_stable(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The values below the limit in order, then the others from the end backwards."""
    values = arrays["values"].astype(np.int64)
    low = values < scalars["limit"]
    return {"parted": np.concatenate([values[low], values[~low][::-1]]), "count": np.array([low.sum()])}


def lower_bound(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """How many values are below each wanted one."""
    return {"places": np.searchsorted(arrays["sorted"], arrays["wanted"], side="left")}


def sort_pairs(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The pairs by key, equal keys in their order."""
    order = np.argsort(arrays["keys"], kind="stable")
    return {name: arrays[name][order].astype(np.int64) for name in ("keys", "values")}


def histogram_wide(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """How often each value occurs."""
    return {"counts": np.bincount(arrays["values"], minlength=sizes["bins"]).astype(np.int64)}


def multi_pattern_count(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """How often each pattern begins somewhere in the text."""
    counts = np.zeros(sizes["several"], np.int64)
    if sizes["m"] <= sizes["n"]:
        windows = np.lib.stride_tricks.sliding_window_view(arrays["text"], sizes["m"])
        for p, pattern in enumerate(arrays["patterns"]):
            counts[p] = (windows == pattern).all(axis=1).sum()
    return {"counts": counts}


def segment_sort_pairs(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The pairs by segment, then by key, equal keys in their order."""
    segments = np.repeat(np.arange(sizes["segments"]), np.diff(arrays["offsets"]))
    order = np.lexsort((arrays["keys"], segments))
    return {f"sorted_{name}": arrays[name][order].astype(np.int64) for name in ("keys", "values")}


def merge_pairs(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Both lists by key, equal keys of the first before those of the second."""
    both = {name: np.concatenate([arrays[f"a_{name}"], arrays[f"b_{name}"]]) for name in ("keys", "values")}
    order = np.argsort(both["keys"], kind="stable")
    return {f"merged_{name}": both[name][order].astype(np.int64) for name in both}


def kth_element(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The value at place k in ascending order, from 0."""
    return {"answer": np.sort(arrays["values"].astype(np.int64))[sizes["k"]].reshape(1)}


ORACLES = {
    "histogram256": histogram,
    "filter-unordered": filter_unordered,
    "merge-sorted": merge_sorted,
    "bitonic-sort": sort_keys,
    "radix-sort": sort_keys,
    "segment-sort": segment_sort,
    "topk-rows": topk_rows,
    "hash-join": hash_join,
    "group-by-sum": group_by_sum,
    "string-search": string_search,
    "run-length-encode": run_length_encode,
    "partition-stable": partition_stable,
    "lower-bound": lower_bound,
    "sort-pairs": sort_pairs,
    "histogram-wide": histogram_wide,
    "multi-pattern-count": multi_pattern_count,
    "segment-sort-pairs": segment_sort_pairs,
    "merge-pairs": merge_pairs,
    "kth-element": kth_element,
}
