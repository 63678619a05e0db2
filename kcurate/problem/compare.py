"""Whether an output equals the reference, within the rounding of its arithmetic; decided only here.

Integers must be equal. A floating-point element passes if

    |y - ref| <= KAPPA * (u_out * max(|ref|, N) + C * sqrt(K) * u_acc * S)

with K the number of accumulated terms (`tolerance.terms`), S their magnitude (default: the root mean square
of the reference; always at least |ref|), u_out and u_acc the unit roundoffs of the buffer and of the
accumulator, N the smallest normal number of the buffer's type, below which rounding no longer gets finer.
sqrt(K) is the growth of a random walk of rounding errors (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., section 2.8); KAPPA allows for a different but honest order of summation. In addition,
the whole output must pass a norm-wise bound ||y - ref|| / ||ref|| that rejects narrower arithmetic (bf16 or
tf32 passed off as fp32), scaled by sqrt(K) beyond `NORM_FREE_TERMS`. NaN and infinities must be exactly where
the reference has them.

Where the reference's own rounding is known to be small (`exact`), K counts only up to `CHAIN_TERMS` in both
bounds. Then they cover the rounding of the side on trial alone, and no honest kernel adds more than that many
terms one after the other: measured over N additions to one float32 accumulator of a growing sum, the error is
0.22 to 0.25 sqrt(N) unit roundoffs, so a chain of 2**20 reaches 256 of the 2,000 that the norm allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.problem.dtypes import SMALLEST_NORMAL, UNIT_ROUNDOFF, is_float
from kcurate.records import Tolerance

Array = npt.NDArray[Any]

KAPPA = 8.0
C = 4.0
# Norm-wise bounds by dtype before scaling: about 500 (fp32), 2 (fp16) and 1.5 (bf16, fp8) unit roundoffs.
NORM_BOUND = {
    "float64": 1e-12,
    "float32": 3e-5,
    "float16": 1e-3,
    "bfloat16": 6e-3,
    "float8_e4m3": 0.09,
    "float8_e5m2": 0.18,
}
NORM_FREE_TERMS = 1 << 16
# The longest chain of additions that a side may need, beside a reference whose own rounding is small.
CHAIN_TERMS = 1 << 20
# Elements per chunk: 64 KiB in float64, which stays in cache and in the allocator's free lists (2-core x86-64
# machine, 16M elements: 0.2 s of CPU time, against 1.2 to 3.8 s with chunks of 128 KiB to 1 MiB).
CHUNK = 1 << 13
# Reported error ratios are capped at this.
LARGEST_RATIO = 1e30


@dataclass(frozen=True)
class Comparison:
    """`ok`, the worst ratio to the bound, and a one-line explanation."""

    ok: bool
    worst: float
    detail: str = ""


@dataclass(frozen=True)
class Magnitudes:
    """Of a whole reference: the largest absolute value and the root mean square."""

    largest: float
    rms: float

    @classmethod
    def of(cls, reference: Array) -> Magnitudes:
        """Of an array of any floating type; non-finite values count as zero."""
        parts = [slice(start, start + CHUNK) for start in range(0, reference.size, CHUNK)]
        largest = max((float(np.abs(_finite(widened(reference[p]))).max()) for p in parts), default=0.0)
        if not largest:
            return cls(0.0, 0.0)
        squares = 0.0
        for p in parts:
            share = _finite(widened(reference[p])) / largest  # the square of a large number would overflow
            squares += float(np.dot(share, share))
        return cls(largest, largest * float(np.sqrt(squares / reference.size)))


@dataclass(frozen=True)
class Bound:
    """The largest allowed error of an element r: of_value max(|r|, normal) + of_scale max(|r|, scale)."""

    of_value: float
    of_scale: float
    scale: float
    normal: float = 0.0

    def of(self, magnitude: Array) -> Array:
        """The bound of each element, float64, from the elements' absolute values."""
        return np.asarray(
            self.of_value * np.maximum(magnitude, self.normal)
            + self.of_scale * np.maximum(magnitude, self.scale)
        )


def bound_of(
    dtype: str, tolerance: Tolerance, terms: int, whole: Magnitudes, *, exact: bool = False
) -> Bound:
    """How far the elements of an output may be off; `whole` describes the complete reference."""
    if tolerance.relative is not None:
        return Bound(0.0, tolerance.relative, 1e-3 * whole.largest)
    u_acc = UNIT_ROUNDOFF[tolerance.accumulate or dtype]
    walk = float(np.sqrt(_chain(terms, exact=exact)))
    scale = whole.rms
    if tolerance.scale is not None:  # terms that cancel leave a small sum with the rounding of a large one
        scale = float(np.sqrt(max(1, terms))) / walk * tolerance.scale
    return Bound(KAPPA * UNIT_ROUNDOFF[dtype], KAPPA * C * walk * u_acc, scale, SMALLEST_NORMAL[dtype])


def element_bound(
    reference: Array,
    dtype: str,
    tolerance: Tolerance,
    terms: int,
    whole: Magnitudes | None = None,
    *,
    exact: bool = False,
) -> Array:
    """The largest allowed |y - ref| of each element, float64, in the shape of the reference.

    `whole` describes the complete output if `reference` is only a part of it (None: it is complete).
    """
    whole = whole or Magnitudes.of(np.ravel(reference))
    return bound_of(dtype, tolerance, terms, whole, exact=exact).of(np.abs(reference))


def norm_bound(dtype: str, tolerance: Tolerance, terms: int, *, exact: bool = False) -> float:
    """The largest allowed ||y - ref|| / ||ref||. Only the accumulator's share grows with the terms."""
    if tolerance.relative is not None:
        return tolerance.relative
    growth = max(1.0, float(np.sqrt(_chain(terms, exact=exact) / NORM_FREE_TERMS)))
    return NORM_BOUND[dtype] + NORM_BOUND[tolerance.accumulate or dtype] * (growth - 1.0)


def _chain(terms: int, *, exact: bool) -> int:
    """How many additions one after the other the bounds allow for."""
    return min(max(1, terms), CHAIN_TERMS) if exact else max(1, terms)


def compare(
    reference: Array,
    actual: Array,
    dtype: str,
    tolerance: Tolerance | None,
    *,
    terms: int = 1,
    valid: int | None = None,
    exact: bool = False,
) -> Comparison:
    """Compare an output with its reference; both have the same shape and the buffer's own dtype.

    `terms` is `tolerance.terms` evaluated; `valid` the number of leading elements to compare (None: all);
    `exact`: the reference's own rounding is known to be small.
    """
    rule = tolerance or Tolerance()
    expected, got = np.asarray(reference).ravel(), np.asarray(actual).ravel()
    if expected.size != got.size:
        return Comparison(False, float("inf"), "the sizes differ")
    if valid is not None:
        if not 0 <= valid <= expected.size:
            return Comparison(False, float("inf"), f"{valid} valid elements of {expected.size}")
        expected, got = expected[:valid], got[:valid]
    if rule.order == "any":
        expected, got = np.sort(expected), np.sort(got)
    if not is_float(dtype):
        return _report(expected, got, np.where(expected == got, np.float32(0.0), np.float32(np.inf)))
    with np.errstate(over="ignore"):  # an overflowing error counts as infinite
        return _compare_floats(expected, got, dtype, rule, terms, exact=exact)


def _compare_floats(
    expected: Array, got: Array, dtype: str, rule: Tolerance, terms: int, *, exact: bool
) -> Comparison:
    """Compare in chunks that fit in cache: a whole output in float64 would take many times its size."""
    whole = Magnitudes.of(expected)
    ratio = np.empty(expected.size, np.float32)
    squares, distances, unit = 0.0, 0.0, whole.largest or 1.0
    for start in range(0, expected.size, CHUNK):
        part = slice(start, start + CHUNK)
        wanted, seen = widened(expected[part]), widened(got[part])
        finite = np.isfinite(wanted) & np.isfinite(seen)
        safe = _finite(wanted)
        off = np.where(finite, seen, safe) - safe
        error = np.abs(off)
        bound = element_bound(safe, dtype, rule, terms, whole, exact=exact)
        share = np.divide(error, bound, out=np.where(error > 0, np.inf, 0.0), where=bound > 0)
        same = (wanted == seen) | (np.isnan(wanted) & np.isnan(seen))
        ratio[part] = np.minimum(np.where(finite, share, np.where(same, 0.0, np.inf)), LARGEST_RATIO)
        squares += float(np.dot(safe / unit, safe / unit))
        distances += float(np.dot(off / unit, off / unit))
    comparison = _report(expected, got, ratio)
    if not comparison.ok:
        return comparison
    size, distance = float(np.sqrt(squares)), float(np.sqrt(distances))
    allowed = norm_bound(dtype, rule, terms, exact=exact)
    if distance > allowed * size:
        relative = distance / size if size else float("inf")
        detail = f"the whole output is off by {relative:.2e} of its norm, more than {allowed:.0e}"
        return Comparison(False, relative / allowed, detail)
    return comparison


def widened(values: Array) -> Array:
    """As float64; unwritten memory may hold signalling NaNs, about which numpy would warn."""
    with np.errstate(invalid="ignore"):
        return np.asarray(values.astype(np.float64))


def _finite(values: Array) -> Array:
    """The values with non-finite ones replaced by zero."""
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, 0.0)


def _report(expected: Array, got: Array, ratio: Array) -> Comparison:
    bad = np.flatnonzero(ratio > 1.0)
    worst = float(ratio.max()) if ratio.size else 0.0
    if not bad.size:
        return Comparison(True, worst)
    shown = ", ".join(f"[{i}] {_text(got[i])} instead of {_text(expected[i])}" for i in bad[:3])
    return Comparison(False, worst, f"{bad.size} of {ratio.size} elements are wrong: {shown}")


def _text(value: Any) -> str:
    return f"{float(value):.7g}" if isinstance(value, float | np.floating) else str(value)
