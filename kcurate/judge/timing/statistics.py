"""From raw samples to a confidence interval of the speedup, and from the interval to an outcome.

A block has samples of both sides taken close together, so that clock drift cancels in its ratio. Each block
gives the log of the ratio of medians. The estimate is the median over blocks; its interval is the percentile
interval of a bootstrap over blocks (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter
13). Blocks of a long side hold one sample, from each input set in turn: then the sets are strata. Not
covered: taking the samples (`kcurate.judge.timing.blocks`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from kcurate.records import Speedup

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.98
RESAMPLES = 2000
# With eight blocks, the true median lies outside their whole range once in 128 times.
MIN_BLOCKS = 8
MAX_BLOCKS = 100
# The relative half-width at which the interval is tight enough: a fiftieth of the ratio's logarithm, but at
# least `HALF_WIDTH` and at most `MOST_HALF_WIDTH`; twice that for sides whose times vary so much that it took
# `LONG_S`.
HALF_WIDTH, MOST_HALF_WIDTH = 0.0075, 0.02
SHARE_OF_LOG = 0.02
LONG_S = 0.2
# The smallest margin, however quiet the machine.
MIN_MARGIN = 0.02


def log_ratios(slow: Sequence[Sequence[float]], fast: Sequence[Sequence[float]]) -> Floats:
    """log(slow/fast) of each block's medians, shape (blocks,) float64.

    Both arguments are lists of blocks of samples in microseconds. Blocks without positive medians are left
    out.
    """
    pairs = [
        (float(np.median(a)), float(np.median(b)))
        for a, b in zip(slow, fast, strict=True)
        if len(a) and len(b)
    ]
    return np.array([np.log(a / b) for a, b in pairs if a > 0 and b > 0], np.float64)


def bootstrap_medians(values: Floats, seed: int, resamples: int = RESAMPLES) -> Floats:
    """Medians of `resamples` bootstrap samples of `values` (n,); shape (resamples,).

    Drawn from their known distribution, since the GPU waits while they are computed.
    """
    medians, chances = median_distribution(values)
    return np.random.default_rng(seed).choice(medians, resamples, p=chances)


def median_distribution(values: Floats) -> tuple[Floats, Floats]:
    """What medians a bootstrap sample of `values` (n,) may have, and how likely each is; shapes (m,), (m,).

    The order statistics k and k + 1 of a sample lie at ranks i < j of the values if k of it are at most rank
    i, one of these is rank i, the others are at least rank j, and one of these is rank j.
    """
    ordered, n = np.sort(values), values.size
    at_most = np.arange(n + 1) / n
    middle = (n + 1) // 2
    counts = np.array([math.comb(n, k) for k in range(n + 1)], np.float64)
    powers = np.arange(n + 1)
    below = (counts * at_most[:, None] ** powers * (1 - at_most[:, None]) ** (n - powers))[:, middle:].sum(
        axis=1
    )
    lower = np.diff(below)
    if n % 2:
        return ordered, lower / lower.sum()
    ends = np.diff(at_most**middle)
    joint = np.triu(counts[middle] * np.outer(ends, ends[::-1]), 1)
    joint[np.diag_indices(n)] = np.maximum(0.0, lower - joint.sum(axis=1))
    first, second = np.triu_indices(n)
    chances = joint[first, second]
    return (ordered[first] + ordered[second]) / 2, chances / chances.sum()


def interval(
    values: Floats, seed: int, confidence: float = CONFIDENCE, strata: int = 1
) -> tuple[float, float, float]:
    """(estimate, low, high) of the log ratios, with the bootstrap's percentile interval.

    The estimate is the median; with `strata`, the mean of the medians of every so manieth block, each
    resampled by itself.

    Raises:
        ValueError: a stratum has no blocks.
    """
    parts = [values[at::strata] for at in range(strata)]
    if not all(part.size for part in parts):
        raise ValueError("no blocks to estimate from")
    medians = np.mean([bootstrap_medians(part, seed + at) for at, part in enumerate(parts)], axis=0)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(medians, (tail, 1.0 - tail))
    return float(np.mean([np.median(part) for part in parts])), float(low), float(high)


def speedup(
    slow: Sequence[Sequence[float]],
    fast: Sequence[Sequence[float]],
    *,
    margin: float,
    seed: int,
    strata: int = 1,
) -> Speedup:
    """The speedup and its interval from blocks of raw samples in microseconds; `strata` as in `interval`.

    Raises:
        ValueError: too few blocks have positive times on both sides.
    """
    values = log_ratios(slow, fast)
    middle, low, high = interval(values, seed, strata=strata)
    return Speedup(
        ratio=float(np.exp(middle)),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        confidence=CONFIDENCE,
        blocks=int(values.size),
        margin=margin,
    )


def tight(estimate: Speedup, wall_s: float = 0.0) -> bool:
    """Whether the interval is tight enough after so much time of sampling."""
    half = (np.log(estimate.high) - np.log(estimate.low)) / 2.0
    allowed = max(HALF_WIDTH, min(MOST_HALF_WIDTH, SHARE_OF_LOG * abs(np.log(estimate.ratio))))
    return bool(half <= allowed * (1 if wall_s < LONG_S else 2))


def decide(estimate: Speedup) -> Literal["confirmed", "ambiguous_timing", "not_faster"]:
    """The outcome of an interval: above 1 + margin, at most 1 + margin, or across it."""
    if estimate.low > 1.0 + estimate.margin:
        return "confirmed"
    if estimate.high <= 1.0 + estimate.margin:
        return "not_faster"
    return "ambiguous_timing"


def median_us(blocks: Sequence[Sequence[float]]) -> float:
    """The median of all samples of one side, in microseconds."""
    return float(np.median(np.concatenate([np.asarray(block, np.float64) for block in blocks])))
