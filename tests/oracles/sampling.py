"""References of the sampling pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.oracles.normalisation import doubles

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def drawn(masses: Array, uniform: Array) -> Array:
    """Of each row the first place where the running sum of masses exceeds its share of the whole."""
    running = masses.cumsum(axis=1)
    return np.asarray((running > uniform[:, None] * running[:, -1:]).argmax(axis=1))


def sample_top_k(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """A token among those whose logit reaches the k-th largest."""
    logits, uniform = doubles(arrays, "logits uniform")
    kth = np.sort(logits, axis=1)[:, -sizes["k"], None]
    masses = np.exp((logits - logits.max(axis=1, keepdims=True)) / scalars["temperature"])
    return {"token": drawn(np.where(logits >= kth, masses, 0.0), uniform)}


def gumbel_argmax(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The place of the largest of logit / temperature - log(-log(uniform))."""
    logits, uniform = doubles(arrays, "logits uniform")
    return {"token": (logits * scalars["inverse"] - np.log(-np.log(uniform))).argmax(axis=1)}


def penalize_repeats(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Logits of tokens in the history: scaled toward less likely, less a share a time, less a constant."""
    (logits,) = doubles(arrays, "logits")
    for row, length in enumerate(arrays["lengths"]):
        counts = np.bincount(arrays["history"][row, :length], minlength=sizes["vocab"])
        x = logits[row]
        scaled = np.where(x > 0, x / scalars["repetition"], x * scalars["repetition"])
        penal = scaled - scalars["frequency"] * counts - scalars["presence"]
        logits[row] = np.where(counts > 0, penal, x)
    return {"logits": logits}


def sample_min_p(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """A token among those whose share reaches the given fraction of the largest one."""
    logits, uniform = doubles(arrays, "logits uniform")
    masses = np.exp((logits - logits.max(axis=1, keepdims=True)) / scalars["temperature"])
    return {"token": drawn(np.where(masses >= scalars["least"], masses, 0.0), uniform)}


def sample_top_p(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """A token among the most likely ones that together hold the given share; equal ones stay together."""
    logits, uniform = doubles(arrays, "logits uniform")
    masses = np.exp((logits - logits.max(axis=1, keepdims=True)) / scalars["temperature"])
    ordered = -np.sort(-masses, axis=1)
    running = ordered.cumsum(axis=1)
    last = (running >= scalars["share"] * running[:, -1:]).argmax(axis=1)
    least = np.take_along_axis(ordered, last[:, None], axis=1)
    return {"token": drawn(np.where(masses >= least, masses, 0.0), uniform)}


ORACLES = {
    "sample-top-k": sample_top_k,
    "gumbel-argmax": gumbel_argmax,
    "penalize-repeats": penalize_repeats,
    "sample-min-p": sample_min_p,
    "sample-top-p": sample_top_p,
}
