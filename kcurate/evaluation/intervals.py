"""95% intervals of a mean over tasks, by a bootstrap that resamples whole families.

Tasks of a family succeed and fail together, so the family is the unit. The coverage of the plain percentile
bootstrap is too low for few families (docs/evaluation.md has the simulation), and for shares near 0 or 1 also
for many. So values with bounds get `PSEUDO` pseudo-families at the bounds' centre + 0.5 and `PSEUDO` at
centre - 0.5 (Agresti and Coull's rule, for families); the interval is the mean with these, +- 1.96 bootstrap
standard deviations, cut at the bounds and widened to the plain mean if that lies outside. Values without
bounds get a symmetric studentised interval about the plain mean. Not covered: what is averaged (`scores`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEAST_FAMILIES = 10
RESAMPLES = 2000
PSEUDO = 2
# Two-sided 95%, and one-sided 80%, of the normal distribution.
Z, Z_POWER = 1.959964, 0.841621
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval; no interval below `LEAST_FAMILIES` families."""

    value: float
    low: float | None = None
    high: float | None = None

    def shown(self, form: str = ".3f") -> str:
        """The number and its interval, such as `0.120 [0.050, 0.210]`."""
        if self.low is None or self.high is None:
            return f"{self.value:{form}}"
        return f"{self.value:{form}} [{self.low:{form}}, {self.high:{form}}]"


def mean(
    values: Sequence[float], families: Sequence[str], bounds: tuple[float, float] | None = None, seed: int = 0
) -> Estimate:
    """The mean of one value per task. `bounds`: the smallest and the largest possible value.

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("no task to average over")
    sums, counts = _by_family(values, families)
    value = float(sums.sum() / counts.sum())
    if len(sums) < LEAST_FAMILIES:
        return Estimate(value)
    rng = np.random.default_rng(seed)
    if bounds is None:
        half = _studentised(sums, counts, rng) * float(_error(sums, counts))
        return Estimate(value, value - half, value + half)
    size, centre = counts.mean(), (bounds[0] + bounds[1]) / 2
    pseudo_sums = np.repeat(np.array([centre - 0.5, centre + 0.5]) * size, PSEUDO)
    sums, counts = np.append(sums, pseudo_sums), np.append(counts, [size] * len(pseudo_sums))
    shrunk, half = sums.sum() / counts.sum(), Z * _resampled(sums, counts, rng)[0].std(ddof=1)
    low, high = max(bounds[0], shrunk - half), min(bounds[1], shrunk + half)
    return Estimate(value, min(value, float(low)), max(value, float(high)))


def detectable(values: Sequence[float], families: Sequence[str]) -> float | None:
    """The smallest difference that would be found with 80% power, from the spread of these differences.

    None below `LEAST_FAMILIES` families, which get no interval, and if the differences do not vary.
    """
    sums, counts = _by_family(values, families)
    if len(sums) < LEAST_FAMILIES:
        return None
    return (Z + Z_POWER) * float(_error(sums, counts)) or None


def _by_family(values: Sequence[float], families: Sequence[str]) -> tuple[Array, Array]:
    """Sum and number of values of each family."""
    names, family_index = np.unique(np.array(families), return_inverse=True)
    sums = np.bincount(family_index, np.array(values, dtype=float), len(names))
    return sums.astype(float), np.bincount(family_index, minlength=len(names)).astype(float)


def _error(sums: Array, counts: Array) -> Array:
    """The standard error of the ratio of sums, with independent families; over the last axis."""
    total = counts.sum(-1, keepdims=True)
    residuals = sums - sums.sum(-1, keepdims=True) / total * counts
    families = sums.shape[-1]
    error: Array = np.sqrt(families / (families - 1) * (residuals**2).sum(-1)) / total[..., 0]
    return error


def _resampled(sums: Array, counts: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """The means over families sampled with replacement, and their standard errors."""
    drawn = rng.integers(0, len(sums), (RESAMPLES, len(sums)))
    sums, counts = sums[drawn], counts[drawn]
    return sums.sum(1) / counts.sum(1), _error(sums, counts)


def _studentised(sums: Array, counts: Array, rng: np.random.Generator) -> float:
    """The interval's half width in standard errors; as for the normal distribution if nothing varies."""
    means, errors = _resampled(sums, counts, rng)
    deviations = np.abs(means - sums.sum() / counts.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(errors > 0, deviations / errors, 0.0)
    reach = float(np.quantile(ratios, 0.95))
    return reach if math.isfinite(reach) and reach > 0 else Z
