"""Whether an output equals the reference, within the rounding of its arithmetic; only this module decides.

Integers must be equal. A floating-point element r passes if

    |y - r| <= KAPPA * (u_out * max(|r|, N) + C * w * max(|r|, S)),    w = sqrt(K) * u_acc

with K the number of accumulated terms (`tolerance.terms`), S their magnitude, u_out and u_acc the unit
roundoffs of the buffer and of the accumulator, N the smallest normal number of the buffer's type, below which
rounding no longer gets finer. sqrt(K) is the growth of a random walk of rounding errors (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd ed., section 2.8); KAPPA allows for a different but honest order of
summation. In addition, the whole output must pass a norm-wise bound ||y - r|| / ||r|| that rejects narrower
arithmetic (bf16 or tf32 passed off as fp32), scaled by sqrt(K) beyond `NORM_FREE_TERMS`. NaN and infinities
must be exactly where the reference has them.

Comparison is local, so that errors in small values are not hidden by large ones. S is `tolerance.scale` where
that is declared. Otherwise it is the root mean square of the element's row (of its block, in an output of one
axis), times `room`, but no more than that of the whole output, and at least `Bound.least`: what a single
rounding of the largest value leaves behind where values cancel. Each row (the last axis), each block of
`BLOCK` elements and each of `CLASSES` classes of elements (chosen by a secret hash of the index) must pass

    ||y - r|| <= norm ||r|| + (C + KAPPA / sqrt(n)) w sqrt(||r||^2 + ||S||^2) + KAPPA u_out N sqrt(n)

where n is the number of elements of the group, and `norm` is that of the whole output, but at least
`FEW_ROUNDINGS` unit roundoffs, since a single element may dominate a group. The whole output may exceed
`norm` by that increase over sqrt(m), where m is its number of distinct values, since equal ones round alike,
and by as much as its declared `tolerance.scale` exceeds its root mean square. `room` follows from n: sums of
terms of both signs are nearly normal, and the root mean square of n such sums is less than their standard
deviation over sqrt(e) * 10**(12 / n) in at most one group of 10**12 (Chernoff bound for chi-squared).

A row (or block) that passes only because of `least` must be off by at least a rounding of the largest value:
if small values were computed in a narrower type, or left out, the error is smaller than that.

Where the reference's own rounding is known to be small (`exact`), K is at most `CHAIN_TERMS` in all bounds.
Then they cover only the rounding of the side under test, and no honest kernel adds more than that many terms
one after the other: measured over N additions to one float32 accumulator of a growing sum, the error is 0.22
to 0.25 sqrt(N) unit roundoffs, so a chain of 2**20 reaches 256 of the 2,000 that the norm allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.problem.dtypes import SMALLEST_NORMAL, UNIT_ROUNDOFF, is_float
from kcurate.problem.groups import BLOCK, Classes, Groups, chunks
from kcurate.records import Tolerance

Array = npt.NDArray[Any]

# Factors of the bound in the module's docstring.
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
# The longest chain of additions allowed for, if the reference's own rounding is small.
CHAIN_TERMS = 1 << 20
# The least bound on a group's relative error, in unit roundoffs (two adjacent numbers are up to 2 apart).
FEW_ROUNDINGS = 4.0
# Shorter rows have no separate bound.
ROW_LEAST = 8
# S of a long row is at most this times its root mean square; less where that would let a missing row pass.
ROOM = 16.0
# A row or block above this share of the output's root mean square is more than rounding errors.
LARGEST_CANCELLED = 1 / 400
# The least rms that roundings leave in a row, as a share of a unit roundoff of the largest value.
LEAST_ROUNDING = 1 / 50
# ln(10**12): one group in 10**12 may be small by chance.
RARE = 12 * float(np.log(10))
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
    """The largest absolute value and the root mean square of a whole reference."""

    largest: float
    rms: float

    @classmethod
    def of(cls, reference: Array) -> Magnitudes:
        """The magnitudes of an array of any floating type; non-finite values count as zero."""
        parts = list(chunks(reference.size))
        largest = max((float(np.abs(_finite(widened(reference[at]))).max()) for at in parts), default=0.0)
        if not largest:
            return cls(0.0, 0.0)
        squares = 0.0
        for at in parts:
            scaled = _finite(widened(reference[at])) / largest  # the square of a large number would overflow
            squares += float(np.dot(scaled, scaled))
        return cls(largest, largest * float(np.sqrt(squares / reference.size)))


@dataclass(frozen=True)
class Bound:
    """The largest allowed errors of an output's elements and of groups of them (see the module's docstring).

    `of_value` and `of_scale` are the factors of max(|r|, normal) and of max(|r|, S); S lies between `least`
    and `scale`. `norm` and `whole` are the allowed relative norms of the error, in a group and in the whole
    output; `walk` is w. `rounding`: the least error that a rounding of the largest value leaves in an
    element. `row`: elements of a row; 0: the output has no rows.
    """

    of_value: float
    of_scale: float
    scale: float
    normal: float
    least: float
    norm: float
    walk: float
    whole: float = 0.0
    rounding: float = 0.0
    row: int = 0

    def of(self, magnitude: Array, scale: Array | float | None = None) -> Array:
        """The bound of each element, float64, from absolute values and S (None: the whole output's)."""
        magnitude_of_terms = np.maximum(magnitude, self.scale if scale is None else scale)
        return np.asarray(
            self.of_value * np.maximum(magnitude, self.normal) + self.of_scale * magnitude_of_terms
        )

    @property
    def room(self) -> float:
        """The largest ratio of S to the root mean square of a long row."""
        return min(ROOM, 1 / (4 * C * self.walk)) if self.walk else ROOM

    def scales(self, count: Array, values: Array) -> Array:
        """S of each group, from its number of elements and the norm of its values."""
        return np.maximum(self.least, self._own_scales(count, values))

    def _own_scales(self, count: Array, values: Array) -> Array:
        room = np.maximum(np.exp(0.5 + RARE / count), self.room)
        return np.asarray(np.minimum(self.scale, room * values / np.sqrt(count)))

    def of_whole(self, rms: float, count: int, kinds: float | None = None) -> float:
        """The largest allowed norm of all errors, from the root mean square of `count` elements.

        `kinds`: how many distinct values there are (None: `count`), since equal ones round alike.
        """
        root = float(np.sqrt(max(1, count)))
        declared = (C + KAPPA / root) * self.walk * max(0.0, self.least - rms)
        few = (self.norm - self.whole) / float(np.sqrt(max(1.0, count if kinds is None else kinds)))
        return ((self.whole + few) * rms + declared) * root

    def of_groups(self, groups: Groups) -> Array:
        """The largest allowed norm of the errors in each group."""
        return self._norms(np.maximum(groups.count, 1), groups.norm("values"), groups.norm("scales"))

    def _norms(self, count: Array, values: Array, scales: Array) -> Array:
        root = np.sqrt(count)
        walk = (C + KAPPA / root) * self.walk * np.hypot(values, scales)
        return np.asarray(self.norm * values + walk + self.of_value * self.normal * root)

    def narrow(self, groups: Groups) -> Array:
        """Which rows (or blocks) have errors that cancellation does not explain.

        Their errors are larger than their own values allow, and smaller than a rounding of the largest value.
        """
        errors, root = groups.norm("errors"), np.sqrt(groups.count)
        return np.asarray((errors > self.own(groups)) & (errors < self.rounding * root))

    def own(self, groups: Groups) -> Array:
        """As `of_groups`, but without `least`: the errors that each group's own values allow."""
        count, values = np.maximum(groups.count, 1), groups.norm("values")
        return self._norms(count, values, self._own_scales(count, values) * np.sqrt(count))


def row_of(shape: Sequence[int]) -> int:
    """The elements of a row of an output; 0 if rows have no separate bound."""
    return shape[-1] if len(shape) > 1 and shape[-1] >= ROW_LEAST else 0


def bound_of(
    dtype: str, tolerance: Tolerance, terms: int, whole: Magnitudes, *, exact: bool = False, row: int = 0
) -> Bound:
    """How far the elements of an output may be off; `whole` describes the complete reference."""
    norm = norm_bound(dtype, tolerance, terms, exact=exact)
    if tolerance.relative is not None:
        return Bound(0.0, tolerance.relative, 1e-3 * whole.largest, 0.0, 0.0, norm, norm, norm, row=row)
    growth = float(np.sqrt(_chain(terms, exact=exact)))
    walk = growth * UNIT_ROUNDOFF[tolerance.accumulate or dtype]
    scale = whole.rms
    least = min(scale, whole.largest / (C * growth), LARGEST_CANCELLED * scale / (C * walk))
    if tolerance.scale is not None:  # a small sum of large terms that cancel has the rounding of those terms
        scale = least = float(np.sqrt(max(1, terms))) / growth * tolerance.scale
    if tolerance.order == "any":  # outputs are sorted before they are compared: some blocks are all small
        least = scale
    rounding = LEAST_ROUNDING * walk / growth * whole.largest if least < scale else 0.0
    of_value, of_scale = KAPPA * UNIT_ROUNDOFF[dtype], KAPPA * C * walk
    of_group, normal = max(norm, FEW_ROUNDINGS * UNIT_ROUNDOFF[dtype]), SMALLEST_NORMAL[dtype]
    return Bound(of_value, of_scale, scale, normal, least, of_group, walk, norm, rounding, row)


def norm_bound(dtype: str, tolerance: Tolerance, terms: int, *, exact: bool = False) -> float:
    """The largest allowed ||y - r|| / ||r||. Only the accumulator's part of it grows with the terms."""
    if tolerance.relative is not None:
        return tolerance.relative
    growth = max(1.0, float(np.sqrt(_chain(terms, exact=exact) / NORM_FREE_TERMS)))
    return NORM_BOUND[dtype] + NORM_BOUND[tolerance.accumulate or dtype] * (growth - 1.0)


def _chain(terms: int, *, exact: bool) -> int:
    """The length of the chain of additions that the bounds allow for."""
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
    `exact`: the reference's own rounding is known to be small. Outputs that may come in any order must have
    been brought into the same order already (`kcurate.judge.agreement`).
    """
    rule = tolerance or Tolerance()
    row = row_of(np.shape(reference)) if rule.order == "exact" else 0
    expected, computed = np.asarray(reference).ravel(), np.asarray(actual).ravel()
    if expected.size != computed.size:
        return Comparison(False, float("inf"), "the sizes differ")
    if valid is not None:
        if not 0 <= valid <= expected.size:
            return Comparison(False, float("inf"), f"{valid} valid elements of {expected.size}")
        expected, computed = expected[:valid], computed[:valid]
    if not is_float(dtype):
        return _report(
            expected, computed, np.where(expected == computed, np.float32(0.0), np.float32(np.inf))
        )
    with np.errstate(over="ignore"):  # an overflowing error counts as infinite
        whole = Magnitudes.of(expected)
        bound = bound_of(dtype, rule, terms, whole, exact=exact, row=row)
        return _compare_floats(expected, computed, bound, whole.largest or 1.0)


def _compare_floats(expected: Array, actual: Array, bound: Bound, unit: float) -> Comparison:
    ratio, partitions = deviation(expected, actual, bound, unit)
    comparison = _report(expected, actual, ratio)
    if not comparison.ok:
        return comparison
    whole = partitions["block"]
    size, distance = (float(np.linalg.norm(whole.norm(quantity))) for quantity in ("values", "errors"))
    rms = size / float(np.sqrt(max(1, expected.size)))
    if distance > bound.of_whole(rms, expected.size):
        allowed = bound.of_whole(rms, expected.size, _kinds(expected, unit))
        if distance > allowed:
            return _too_far("the whole output", distance, size, allowed)
    for name, groups in partitions.items():
        far = groups.norm("errors") > bound.of_groups(groups)
        if name == ("row" if bound.row else "block"):
            far |= bound.narrow(groups)
        if far.any():
            return _far_group(name, groups, bound, int(np.flatnonzero(far)[0]))
    return comparison


def _kinds(values: Array, unit: float) -> float:
    """How many different magnitudes make up the norm of some values: fewer where few outweigh others."""
    magnitudes, counts = np.unique(np.abs(_finite(widened(values))), return_counts=True)
    shares = counts * (magnitudes / unit) ** 2
    total = float(shares.sum())
    return total**2 / float(np.dot(shares, shares)) if total else 1.0


def deviation(
    expected: Array, actual: Array, bound: Bound, unit: float
) -> tuple[Array, Mapping[str, Groups]]:
    """Each element's error as a share of its bound, and sums over rows, blocks and classes of elements.

    Works in chunks that fit in cache: a whole output in float64 would take many times its size. Values are
    divided by `unit` before they are squared, since the square of a large number would overflow.
    """
    ratio, size = np.empty(expected.size, np.float32), expected.size
    rows, blocks, classes = Groups(size, bound.row, unit), Groups(size, BLOCK, unit), Classes(unit)
    partitions = {"row": rows, "block": blocks, "class": classes}
    around = rows if bound.row else blocks
    for part in chunks(size):
        around.add("values", part, _finite(widened(expected[part])))
    scales = bound.scales(around.count, around.norm("values"))
    around.squares["values"][:] = 0.0
    for part in chunks(size):
        reference, side = widened(expected[part]), widened(actual[part])
        finite = np.isfinite(reference) & np.isfinite(side)
        safe = _finite(reference)
        difference = np.where(finite, side, safe) - safe
        error, scale = np.abs(difference), scales[around.index(part)]
        allowed = bound.of(np.abs(safe), scale)
        share = np.divide(error, allowed, out=np.where(error > 0, np.inf, 0.0), where=allowed > 0)
        same = (reference == side) | (np.isnan(reference) & np.isnan(side))
        ratio[part] = np.minimum(np.where(finite, share, np.where(same, 0.0, np.inf)), LARGEST_RATIO)
        classes.draw(difference.size)
        for quantity, values in (("errors", difference), ("values", safe), ("scales", scale)):
            for groups in partitions.values():
                groups.add(quantity, part, values)
    return ratio, partitions


def _far_group(kind: str, groups: Groups, bound: Bound, at: int) -> Comparison:
    distance, size = (float(groups.norm(quantity)[at]) for quantity in ("errors", "values"))
    allowed = min(float(bound.of_groups(groups)[at]), float(bound.own(groups)[at]))
    return _too_far(f"{kind} {at}", distance, size, allowed)


def _too_far(place: str, distance: float, size: float, allowed: float) -> Comparison:
    relative, share = (part / size if size else float("inf") for part in (distance, allowed))
    worst = distance / allowed if allowed else float("inf")
    return Comparison(False, worst, f"{place} is off by {relative:.2e} of its norm, more than {share:.0e}")


def widened(values: Array) -> Array:
    """As float64; unwritten memory may hold signalling NaNs, which would make numpy warn."""
    with np.errstate(invalid="ignore"):
        return np.asarray(values.astype(np.float64))


def _finite(values: Array) -> Array:
    """The values with non-finite ones replaced by zero."""
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, 0.0)


def _report(expected: Array, actual: Array, ratio: Array) -> Comparison:
    bad = np.flatnonzero(ratio > 1.0)
    worst = float(ratio.max()) if ratio.size else 0.0
    if not bad.size:
        return Comparison(True, worst)
    shown = ", ".join(f"[{i}] {_text(actual[i])} instead of {_text(expected[i])}" for i in bad[:3])
    return Comparison(False, worst, f"{bad.size} of {ratio.size} elements are wrong: {shown}")


def _text(value: Any) -> str:
    return f"{float(value):.7g}" if isinstance(value, float | np.floating) else str(value)
