"""From raw samples to an interval of the speedup, and from the interval to an outcome.

Samples come in blocks; each block holds samples of both sides taken close together in time, so a drift of
the clock moves both and cancels in the block's ratio. One number a block (the log of the ratio of
medians), the median over blocks as the estimate, and a bootstrap over blocks for the interval (Efron and
Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13: percentile intervals). Pure NumPy, seeded.
Not covered: taking the samples (`kcurate.judge.timing.blocks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from kcurate.records import Speedup

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.98
RESAMPLES = 2000
MIN_BLOCKS = 20
MAX_BLOCKS = 100
# The interval is tight enough when it reaches at most this far (relative) to either side.
HALF_WIDTH = 0.0075
# A claimed difference is never smaller than this, however quiet the machine.
MIN_MARGIN = 0.02


def log_ratios(slow: Sequence[Sequence[float]], fast: Sequence[Sequence[float]]) -> Floats:
    """One log(slow/fast) a block, from the medians of its samples.

    Both are lists of blocks of samples in microseconds; returns shape (blocks,) float64. A block with a
    time that is not positive carries no ratio and is left out.
    """
    pairs = [
        (float(np.median(a)), float(np.median(b)))
        for a, b in zip(slow, fast, strict=True)
        if len(a) and len(b)
    ]
    return np.array([np.log(a / b) for a, b in pairs if a > 0 and b > 0], np.float64)


def bootstrap_medians(values: Floats, seed: int, resamples: int = RESAMPLES) -> Floats:
    """Medians of `resamples` draws with replacement from `values` (n,); returns (resamples,)."""
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, values.size, (resamples, values.size))
    medians: Floats = np.median(values[picks], axis=1)
    return medians


def interval(values: Floats, seed: int, confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """(median, low, high) of the blocks' log ratios; the percentile interval of the bootstrap.

    Raises:
        ValueError: there are no blocks.
    """
    if not values.size:
        raise ValueError("no blocks to estimate from")
    medians = bootstrap_medians(values, seed)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(medians, (tail, 1.0 - tail))
    return float(np.median(values)), float(low), float(high)


def speedup(
    slow: Sequence[Sequence[float]], fast: Sequence[Sequence[float]], *, margin: float, seed: int
) -> Speedup:
    """The speedup and its interval from blocks of raw samples (microseconds).

    Raises:
        ValueError: no block has positive times on both sides.
    """
    values = log_ratios(slow, fast)
    middle, low, high = interval(values, seed)
    return Speedup(
        ratio=float(np.exp(middle)),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        confidence=CONFIDENCE,
        blocks=int(values.size),
        margin=margin,
    )


def tight(estimate: Speedup) -> bool:
    """Whether the interval reaches at most `HALF_WIDTH` to either side of the estimate."""
    half = (np.log(estimate.high) - np.log(estimate.low)) / 2.0
    return bool(half <= HALF_WIDTH)


def decide(estimate: Speedup) -> Literal["confirmed", "ambiguous_timing", "not_faster"]:
    """What an interval proves: faster by more than the margin, not so, or nothing yet."""
    if estimate.low > 1.0 + estimate.margin:
        return "confirmed"
    if estimate.high <= 1.0 + estimate.margin:
        return "not_faster"
    return "ambiguous_timing"


def median_us(blocks: Sequence[Sequence[float]]) -> float:
    """The median of all samples of one side, in microseconds."""
    return float(np.median(np.concatenate([np.asarray(block, np.float64) for block in blocks])))
