"""Finds a generator for each input and parameter of a module, from samples of its values.

Inputs that are uniform in [0, 1) are replaced by harder ones if the result stays finite: for positive numbers
many activations are the identity, and including zero padding in a maximum has no effect. Not covered: shapes
(`kernelbench.meta_shapes`), whether a problem is strong enough (`kernelbench.strength`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.records import Init

Array = npt.NDArray[Any]

UNIFORM = Init("uniform")
# Both signs, and beyond the thresholds of clipped activations (1 and 3).
HARDER = Init("normal", {"std": 2})
# If those overflow, for example in the exponential of a sum.
BOTH_SIGNS = Init("normal")
# If sums of those nearly cancel.
FEW_NEGATIVE = Init("uniform", {"low": -1, "high": 2})
# At most this many generators are tried for an input (`harder`).
CHOICES = 4
# Long products of these neither vanish nor overflow.
NEAR_ONE = Init("uniform", {"low": 0.9, "high": 1.1})
# For weights that are all one or all zero, with which errors would go unnoticed.
AROUND_ONE = Init("uniform", {"low": 0.5, "high": 1.5})
AROUND_ZERO = Init("uniform", {"low": -0.5, "high": 0.5})
# Tolerance for float32 sums.
CLOSE = 1e-4
# Fewest values from which a distribution is recognised.
ENOUGH = 200
# The largest of n uniform values is below 1 - FEW/n with probability e**-FEW.
FEW = 12


def input_init(samples: Sequence[Array], bounds: tuple[int, int | str] | None) -> Init | None:
    """The generator of an input, from samples of different seeds; None if none fits.

    `bounds` are low and high of integers (high may be an expression).
    """
    sample = samples[0]
    if sample.dtype == bool:
        return Init("integers", {"low": 0, "high": 2})
    if sample.dtype.kind in "iu":
        if bounds is None:
            return None
        return Init("integers", {"low": bounds[0], "high": bounds[1]})
    if sample.dtype.kind != "f" or sum(array.size for array in samples) < ENOUGH:
        return None
    return _structured(samples) or _random(samples)


def _structured(samples: Sequence[Array]) -> Init | None:
    if all(set(np.unique(array)) <= {-1.0, 1.0} for array in samples):
        return Init("signs")
    if all(array.ndim and array.shape[-1] > 1 for array in samples):
        sums = [array.sum(axis=-1, dtype=np.float64) for array in samples]
        positive = all((array > 0).all() for array in samples)
        if positive and all(np.abs(total - 1).max() < CLOSE for total in sums):
            return Init("shares")
    if not all(array.ndim >= 2 and array.shape[-1] == array.shape[-2] > 1 for array in samples):
        return None
    if all(np.array_equal(array, np.swapaxes(array, -1, -2)) for array in samples):
        return Init("symmetric")
    if all(not np.tril(array, -1).any() for array in samples):
        return Init("triangle", {"part": "upper"})
    if all(not np.triu(array, 1).any() for array in samples):
        return Init("triangle", {"part": "lower"})
    return None


def _random(samples: Sequence[Array]) -> Init | None:
    """Uniform from 0, with a fixed upper end or one that depends on the seed; or normal."""
    heights = [float(array.max()) for array in samples]
    if all(float(array.min()) >= 0 for array in samples) and max(heights) <= 1.0:
        if not all(_looks_uniform(array, height) for array, height in zip(samples, heights, strict=True)):
            return None
        lowest = min(height + FEW / array.size for height, array in zip(heights, samples, strict=True))
        return UNIFORM if lowest > 1.0 else Init("rescaled")
    values = np.concatenate([array.ravel() for array in samples]).astype(np.float64)
    mean, std = float(values.mean()), float(values.std())
    if abs(mean) < 0.2 and abs(std - 1) < 0.2 and np.abs(values).max() > 2:
        return Init("normal")
    return None


def _looks_uniform(values: Array, height: float) -> bool:
    shares = values.astype(np.float64).ravel() / (height or 1.0)
    spread = 4.0 / np.sqrt(values.size)
    return bool(abs(shares.mean() - 0.5) < 0.05 + spread and abs(shares.std() - 0.2887) < 0.05 + spread)


def harder(init: Init, product: bool) -> tuple[Init, ...]:
    """Generators to try, the hardest inputs first; the last is `init` itself."""
    if init != UNIFORM:
        return (init,)
    return (NEAR_ONE, init) if product else (HARDER, BOTH_SIGNS, FEW_NEGATIVE, init)


def state_init(values: Array) -> Init | None:
    """The generator for a parameter or registered buffer with such values; None if none fits."""
    if values.dtype.kind != "f":
        return None
    low, high = float(values.min()), float(values.max())
    if low == high:
        return {0.0: AROUND_ZERO, 1.0: AROUND_ONE}.get(low)
    if values.size < 2 or not np.isfinite(values).all():
        return None
    if low < 0 < high:
        low, high = -max(-low, high), max(-low, high)
    return Init("uniform", {"low": _rounded(low), "high": _rounded(high)})


def _rounded(value: float) -> float:
    """To two digits, for readability."""
    return float(f"{value:.2g}")
