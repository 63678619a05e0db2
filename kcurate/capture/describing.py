"""Facts about the contents of a buffer (range, order, distinct values), and a generator of similar values.

The facts cover every element; whether a distribution fits is decided on a seeded sample with a
Kolmogorov-Smirnov test. A generator is named only if it fits. Not covered: relations between buffers, such as
the columns and row starts of one matrix (`kcurate.draft.captured.from_launches`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.problem.dtypes import UNIT_ROUNDOFF, is_float, numpy_dtype
from kcurate.records import MOST_VALUE, Contents, Init

Array = npt.NDArray[Any]
# Elements per chunk, which then stays in the cache.
CHUNK = 1 << 20
# Elements of the sample, and how many of them a distribution is tested on. For 8-bit floats it is a
# sixteenth, since a larger test would detect their rounding.
SAMPLED = 1 << 16
TESTED = 1 << 12
# The largest accepted distance from a distribution, times the root of the number of tested values: refuses
# one in a thousand samples that do follow it (Kolmogorov).
LIMIT = 1.95
# Distinct integers are counted if their range is below this, in buffers of up to `COUNTED` elements.
COUNTED_RANGE = 1 << 16
COUNTED = 1 << 24
# Fewer elements are not described as ordered.
LEAST_ORDERED = 3
# From this share of zeros on, the other values are described separately.
SPARSE = 0.3
_NARROW = frozenset(name for name, unit in UNIT_ROUNDOFF.items() if unit >= 2.0**-11) | {"float8_e8m0"}
_STEPS = (1, 2, 3, 4, 5, 6, 7)


@dataclass
class _Seen:
    """Facts gathered chunk by chunk; `lowest` and `highest` are those of the finite values."""

    lowest: int | float | None = None
    highest: int | float | None = None
    zeros: int = 0
    nans: int = 0
    infinite: int = 0
    ascending: bool = True
    strictly: bool = True
    integral: bool = True
    last: Any = None

    def add(self, part: Array) -> None:
        """Add the next elements: integers, or floats of at least 32 bits."""
        low, high = part.min(), part.max()
        real = part.dtype.kind == "f"
        finite = part
        if real and not (np.isfinite(low) and np.isfinite(high)):
            self.nans += int(np.count_nonzero(part != part))
            finite = part[np.isfinite(part)]
            self.infinite += part.size - finite.size
        if finite.size:
            low, high = finite.min().item(), finite.max().item()
            self.lowest = low if self.lowest is None else min(self.lowest, low)
            self.highest = high if self.highest is None else max(self.highest, high)
        self.zeros += part.size - int(np.count_nonzero(part))
        if self.ascending:
            self._order(part)
        self.last = part[-1]
        if real and self.integral:
            self.integral = bool(np.array_equal(np.rint(finite), finite)) and finite.size == part.size

    def _order(self, part: Array) -> None:
        after, before = part[1:], part[:-1]
        joins = self.last is None or bool(self.last <= part[0])
        self.ascending = joins and bool(np.all(before <= after))
        if self.strictly:
            apart = self.last is None or bool(self.last < part[0])
            self.strictly = self.ascending and apart and bool(np.all(before < after))
        self.strictly = self.strictly and self.ascending


def described(values: Array, dtype: str, count: int | None = None) -> Contents:
    """Facts about a buffer's elements and a generator for them; equal input gives an equal result.

    `values` are the elements in order, of `numpy_dtype(dtype)` and any shape. `count`: the elements of the
    whole buffer, if `values` are only its first ones.

    Raises:
        ProblemError: no such dtype.
    """
    flat = np.ravel(values).view(numpy_dtype(dtype))
    count = flat.size if count is None else count
    if not flat.size:
        return Contents(dtype, count)
    facts_seen = _Seen()
    for part in _parts(flat, dtype):
        facts_seen.add(part)
    partial = flat.size < count
    sample = _sample(flat, dtype)
    facts: dict[str, int | float | bool] = {}
    if facts_seen.lowest is not None and facts_seen.highest is not None:
        facts |= {"lowest": facts_seen.lowest, "highest": facts_seen.highest}
    for name, value in (("first", next(_parts(flat[:1], dtype))[0]), ("last", facts_seen.last)):
        if np.isfinite(value):
            facts[name] = value.item()
    facts["zeros"] = facts_seen.zeros / flat.size
    facts |= {"nan": facts_seen.nans / flat.size} if facts_seen.nans else {}
    infinities = facts_seen.infinite - facts_seen.nans
    facts |= {"infinite": infinities / flat.size} if infinities else {}
    facts |= {"sorted": facts_seen.ascending, "strictly_sorted": facts_seen.strictly}
    facts["integral"] = facts_seen.integral
    distinct = _distinct(flat, dtype, facts_seen, sample[1])
    facts |= {"distinct": distinct} if distinct is not None else {}
    facts |= {"partial": True, "seen": flat.size} if partial else {}
    whole = not facts_seen.infinite and facts_seen.lowest is not None
    init = _fitted(flat, dtype, facts, sample, partial) if whole else None
    return Contents(dtype, count, init, facts)


def _parts(flat: Array, dtype: str) -> Iterator[Array]:
    """The elements in chunks, in types that NumPy is fast with: narrow floats as float32, bools as bytes."""
    if dtype == "bool":
        flat = flat.view(np.uint8)
    table = None
    if dtype in _NARROW and flat.itemsize == 1:
        table = np.arange(256, dtype=np.uint8).view(flat.dtype).astype(np.float32)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK]
        if table is not None:
            yield np.take(table, part.view(np.uint8))
        else:
            yield part.astype(np.float32) if dtype in _NARROW else part


def _sample(flat: Array, dtype: str) -> tuple[Array, Array]:
    """The indices and values of a seeded sample; all elements if there are few."""
    if flat.size <= SAMPLED:
        places = np.arange(flat.size)
    else:
        places = np.sort(np.random.default_rng(0).integers(0, flat.size, SAMPLED))
    (values,) = _parts(flat[places], dtype)
    return places, values


def _distinct(flat: Array, dtype: str, facts_seen: _Seen, sample: Array) -> int | None:
    """The number of distinct integers, if it can be computed quickly; None: unknown."""
    if facts_seen.strictly:
        return flat.size
    lowest, highest = facts_seen.lowest, facts_seen.highest
    if lowest is None or highest is None or facts_seen.infinite or not facts_seen.integral:
        return None
    low, high = int(lowest), int(highest)
    if high - low < COUNTED_RANGE:
        present = np.zeros(high - low + 1, np.bool_)
        present[_above(sample, low)] = True
        if not present.all() and flat.size <= COUNTED:
            for part in _parts(flat, dtype):
                present[_above(part, low)] = True
        return int(np.count_nonzero(present)) if present.all() or flat.size <= COUNTED else None
    return flat.size if (low, high) == (0, flat.size - 1) and _is_permutation(flat) else None


def _above(values: Array, low: int) -> Array:
    """Integers minus the lowest, as indices."""
    if values.dtype.kind == "i":
        return values.astype(np.int64) - low
    return np.asarray((values - values.dtype.type(low)).astype(np.int64))


def _is_permutation(flat: Array) -> bool:
    """Whether n values from 0 to n-1 are a permutation, judged by sums of squares and cubes modulo 2**64."""
    squares, cubes, n = 0, 0, flat.size
    for start in range(0, n, CHUNK):
        part = flat[start : start + CHUNK].astype(np.uint64)
        square = part * part
        squares += int(square.sum())
        cubes += int((square * part).sum())
    totals = ((n - 1) * n * (2 * n - 1) // 6, (n * (n - 1) // 2) ** 2)
    return (squares % 2**64, cubes % 2**64) == tuple(total % 2**64 for total in totals)


def _fitted(
    flat: Array, dtype: str, facts: dict[str, int | float | bool], sample: tuple[Array, Array], partial: bool
) -> Init | None:
    low, high = facts["lowest"], facts["highest"]
    if not -MOST_VALUE <= low <= high <= MOST_VALUE:
        return None
    if low == high:
        return Init("zeros") if low == 0 else Init("ones") if low == 1 else Init("constant", {"value": low})
    if flat.size >= LEAST_ORDERED:
        fitted = _ordered(flat, dtype, facts, sample, partial)
        if fitted is not None:
            return fitted
    values = np.random.default_rng(2).permutation(sample[1]).astype(np.float64)
    if facts["integral"]:
        return _of_integers(values, dtype, int(low), int(high), flat.size, float(facts["zeros"]))
    values = _spread(values, dtype)
    tested = TESTED // 16 if flat.itemsize == 1 else TESTED
    if facts["zeros"] >= SPARSE:
        others = values[values != 0]
        range_ = _neat(float(low), float(high), others.size)
        if _distance(others, _uniform(*range_), tested) <= LIMIT:
            density = round(1 - float(facts["zeros"]), 3)
            return Init("sparse", {"density": density, "low": range_[0], "high": range_[1]})
        return None
    return _of_reals(values, *_neat(float(low), float(high), flat.size), tested)


def _ordered(
    flat: Array, dtype: str, facts: dict[str, int | float | bool], sample: tuple[Array, Array], partial: bool
) -> Init | None:
    """The generator of ordered values (`arange`, `csr_offsets`, `sorted`) or of a permutation.

    None: neither.
    """
    evenly = _arange(flat, dtype, facts, sample)
    if evenly is not None:
        return evenly
    low, high, first, last = (facts[name] for name in ("lowest", "highest", "first", "last"))
    if facts.get("distinct") == flat.size and (low, high) == (0, flat.size - 1) and not partial:
        return Init("permutation")
    if not facts["sorted"]:
        return None
    if not facts["integral"] or is_float(dtype):
        return Init("sorted", {"low": low, "high": high})
    if first == 0 and not partial:
        rows = flat.size - 1
        longest = max(int(np.max(np.diff(flat[at : at + CHUNK + 1]))) for at in range(0, rows, CHUNK))
        return Init("csr_offsets", {"rows": rows, "nnz": int(last), "cols": max(rows, longest)})
    return Init("sorted", {"low": int(low), "high": int(high) + 1})


def _arange(
    flat: Array, dtype: str, facts: dict[str, int | float | bool], sample: tuple[Array, Array]
) -> Init | None:
    """`arange` if all differences are equal, else None; integers only in integer steps."""
    low, high, first, last = (facts[name] for name in ("lowest", "highest", "first", "last"))
    step = (last - first) / (flat.size - 1)
    whole = bool(facts["integral"])
    step = int(step) if whole and step == int(step) else step
    if not step or first not in (low, high) or (whole and not isinstance(step, int)):
        return None
    unit = 0 if whole else 8 * UNIT_ROUNDOFF.get(dtype, 0.0) * max(abs(low), abs(high))
    if not _is_linear(*sample, first, step, unit):
        return None
    every = (np.arange(at, at + CHUNK) for at in range(0, flat.size, CHUNK))
    parts = zip(every, _parts(flat, dtype), strict=True)
    if not all(_is_linear(places[: part.size], part, first, step, unit) for places, part in parts):
        return None
    start = {} if first == 0 else {"start": first}
    return Init("arange", start | ({} if step == 1 else {"step": step}))


def _is_linear(places: Array, values: Array, first: float, step: float, unit: float) -> bool:
    """Whether every sampled value is `first + step * index`, within `unit`."""
    return bool(np.all(np.abs(values.astype(np.float64) - (first + step * places)) <= unit))


def _of_integers(values: Array, dtype: str, low: int, high: int, count: int, zeros: float) -> Init | None:
    if (low, high) == (0, 1) and not 0.4 < zeros < 0.6:
        return Init("sparse", {"density": round(1 - zeros, 3), "low": 1, "high": 1})
    if (low, high) == (-1, 1) and not zeros:
        return Init("signs")
    top = high + 1
    if count > COUNTED_RANGE or top - low > COUNTED_RANGE:
        room = 10 * (top - low) / count
        low, top = 0 if 0 < low <= room else low, _snapped(top, room)
    spread = values + np.random.default_rng(1).random(values.size)
    if _distance(spread, _uniform(low, high + 1)) > LIMIT:
        return None
    kind = numpy_dtype(dtype)
    if kind.kind in "iu":
        top = min(top, int(np.iinfo(kind).max) + 1)
    return Init("integers", ({"low": low} if low else {}) | {"high": top})


def _snapped(top: int, room: float) -> int:
    """The power of two, else the roundest decimal number, from `top` to `top + room`; else `top`."""
    power = 1 << (top - 1).bit_length() if top > 0 else top
    if top <= power <= top + room:
        return power
    for digits in range(len(str(abs(top))), 0, -1):
        unit = int(10 ** (digits - 1))
        if -(-top // unit) * unit <= top + room:
            return -(-top // unit) * unit
    return top


def _of_reals(values: Array, low: float, high: float, tested: int) -> Init | None:
    if _distance(values, _uniform(low, high), tested) <= LIMIT:
        return Init("uniform", {"low": low, "high": high})
    if _distance(values, _normal(values), tested) <= LIMIT:
        mean, std = _moments(values)
        return Init("normal", {"mean": mean, "std": std})
    if low >= 0 and np.all(values > 0):
        logarithms = np.log(values)
        if _distance(logarithms, _normal(logarithms), tested) <= LIMIT:
            mean, sigma = _moments(logarithms)
            return Init("lognormal", {"mean": mean, "sigma": sigma})
    return None


def _moments(values: Array) -> tuple[float, float]:
    """Mean and standard deviation, with as many digits as the sample supports."""
    std = float(values.std())
    error = std / math.sqrt(values.size)
    mean = float(values.mean())
    digits = max(0, 1 - math.floor(math.log10(error))) if error else 6
    return (0.0 if abs(mean) < 4 * error else round(mean, digits)), float(f"{std:.3g}")


def _neat(low: float, high: float, count: int) -> tuple[float, float]:
    """Round bounds just outside the extremes, no further than `count` uniform values usually stay from
    theirs."""
    room = 10 * (high - low) / max(count, 10)
    return 0.0 - _below(-low, room), _below(high, room)


def _below(value: float, room: float) -> float:
    """The roundest number from `value` up to `room` above it."""
    if value == 0 or 0 <= -value <= room:
        return 0.0
    magnitude = math.floor(math.log10(abs(value)))
    for digits in _STEPS:
        decimals = digits - 1 - magnitude
        up = math.ceil(round(value * 10.0**decimals, 9)) / 10.0**decimals
        if value <= up <= value + room:
            return up
    return value


def _spread(values: Array, dtype: str) -> Array:
    """Values of a narrow type spread over their rounding intervals, so that the test does not see steps."""
    if dtype not in _NARROW:
        return values
    unit = 2 * UNIT_ROUNDOFF.get(dtype, 0.25)
    exponents = np.frexp(values)[1] - 1
    off = np.where(values == 0, 0, np.random.default_rng(1).random(values.size) - 0.5)
    return np.asarray(values + off * unit * np.exp2(exponents.astype(np.float64)))


Distribution = Callable[[Array], Array]


def _uniform(low: float, high: float) -> Distribution:
    return lambda x: np.clip((x - low) / (high - low), 0.0, 1.0)


def _normal(values: Array) -> Distribution:
    mean, std = float(values.mean()), float(values.std()) or 1.0
    scale = std * math.sqrt(2)
    return lambda x: np.array(
        [0.5 + 0.5 * math.erf(deviation) for deviation in ((x - mean) / scale).tolist()]
    )


def _distance(values: Array, below: Distribution, tested: int = TESTED) -> float:
    """The Kolmogorov-Smirnov distance of a sample from a distribution, times the root of its size."""
    if not values.size:
        return math.inf
    values = values[:tested]
    share = below(np.sort(values))
    steps = np.arange(values.size + 1) / values.size
    return float(np.max(np.maximum(share - steps[:-1], steps[1:] - share)) * math.sqrt(values.size))
