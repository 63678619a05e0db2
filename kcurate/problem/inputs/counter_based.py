"""Inputs in which every element depends only on its index, so that host and device generate the same bits.

The random words are counter-based (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011):
element i takes one half of the hash of i / 2 and its stream's key. All arithmetic is exact integers, or
single IEEE operations in float32. `Recipe.values` makes an array here, `kc_make` of
`kcurate.backends.cuda.helpers` on a GPU. Not covered: which buffers are made this way
(`kcurate.problem.inputs.generators`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.problem.dtypes import is_float, numpy_dtype

Array = npt.NDArray[Any]
Words = npt.NDArray[np.uint64]
Ranks = npt.NDArray[np.uint32]
Places = npt.NDArray[np.float64]
Lows = npt.NDArray[np.int64]

# Run length in thinned inputs: elements scaled to near zero together.
RUN = 64
# In uneven inputs the level of a piece (1, 16 or 256 elements) depends on its index modulo each divisor, so
# no strided sample represents the whole.
DIVISORS = (16, 3, 5, 7, 11, 13)
PERIOD, PIECES = math.prod(DIVISORS), (1, 16, 256)
# Block sizes, in elements, at which sorted values are spaced unevenly, in addition to the whole row.
SCALES = (1 << 6, 1 << 12, 1 << 18, 1 << 24, 1 << 30)
# Elements made at once: their words stay in cache.
CHUNK = 1 << 15
MASK = (1 << 64) - 1
# Stands for an infinite block size where positions are multiplied by it.
LARGEST = 2.0**62
# An odd constant that makes the two uses of a key differ.
_STEP = np.uint64(0xD1B54A32D192ED03)
FORMS = ("uniform", "normal", "integers", "table", "uneven", "sorted", "columns")
# Shapes of a buffer or of parts of it: see `Shaping`.
SHAPES = ("low", "high", "alike", "few", "strided", "ascending", "descending", "neighbours")
NEIGHBOURS = SHAPES.index("neighbours")
EQUAL = (SHAPES.index("alike"), SHAPES.index("few"))
# Patches are whole rows, and pieces of this many elements; one in 2^32 / `PATCHED` = 16 gets a shape.
PIECE = 128
PATCHED = 1 << 28
# For `neighbours`: the least log2 of the distance between two maxima of a row, and the number of distances to
# choose from. `neighbour` in `helpers.cu` repeats these numbers and those below.
LEAST_STEP_LOG2, MOST_STEPS = 2, 8
# The lowest bits that these use of a row's random word: the columns of maxima and minima, the rank within its
# band (27 bits), and the odd factor and the offset that scramble the numbers of the members.
ABOVE_BIT, BELOW_BIT, BASE_BIT = np.uint64(8), np.uint64(20), np.uint64(37)
FACTOR_BIT, OFFSET_BIT = np.uint64(32), np.uint64(40)
# Where the bands of ranks begin: minima at 1/32 of the range, the middle (3/4 wide) at 1/8, maxima at 15/16.
LOWEST_RANK, MIDDLE_RANK, HIGHEST_RANK = np.uint32(1 << 27), np.uint32(1 << 29), np.uint32(0xF0000000)
# Right shifts that map a random word to the lowest eighth, or about thousandth, of its range.
EIGHTH, THOUSANDTH = 3, 10
# By type: bits that are cleared in a share of the values, which the next narrower types then round toward
# zero (float32: bfloat16 and tf32). Each loses a quarter of that type's spacing on average, always in one
# direction, so narrower arithmetic shows in sums of any length; the bits below are random.
ROUNDED_DOWN = {"float64": 1 << 28, "float32": 0x9000, "float16": 0x40, "bfloat16": 0x8}
# The share of all values, and the odd factors by which a value's random word gives its place in the share,
# and the bits that a float64 has beyond float32.
ALL_CLEARED, PLACE_FACTOR, REST_FACTOR = 256, np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B)
# Mantissa bits below the top three, cleared in shapes with repeated values: adding one number repeatedly
# would round in one direction, whereas sums of up to 2^16 products of two such numbers are exact.
BELOW_THREE = {"float64": (1 << 49) - 1, "float32": 0xFFFFF, "float16": 0x7F, "bfloat16": 0xF}


def mix(words: Words) -> Words:
    """A bijection of 64-bit words whose output bits all depend on all input bits (splitmix64)."""
    z = words * np.uint64(0x9E3779B97F4A7C15)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def words(key: int, start: int, count: int) -> npt.NDArray[np.uint32]:
    """The random words of elements `start` (even) to `start + count`: `(count,) uint32`."""
    index = np.arange(start // 2, (start + count + 1) // 2, dtype=np.uint64)
    return _hashed(key, index).view(np.uint32)[:count]


def _hashed(key: int, index: Words) -> Words:
    """The random words of counters. The key is mixed in twice, so that a few outputs do not reveal it."""
    return mix(mix(index + np.uint64(key)) ^ mix(np.array([key], np.uint64) ^ _STEP))


@lru_cache(maxsize=1)
def quantiles() -> npt.NDArray[np.float32]:
    """Quantiles of the normal distribution, (865,) float32, between which `normal` interpolates.

    Entry j is for the upper tail (m + 1/2) / 2^32: m = j below 32, then 32 steps for each doubling of m.
    """
    starts = [*range(32), *(sub << octave for octave in range(26) for sub in range(32, 64)), 1 << 31]
    tails = (min(0.5, (m + 0.5) / 2.0**32) for m in starts)
    return np.array([-NormalDist().inv_cdf(tail) for tail in tails], np.float32)


def normal_of(random_words: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]:
    """Random words as standard normal values, float32: the top bit is the sign, the others the tail."""
    table = quantiles()
    tail = random_words & np.uint32(0x7FFFFFFF)
    length = (tail.astype(np.float64).view(np.uint64) >> np.uint64(52)).astype(np.int64) - 1022
    shift = np.maximum(length - 6, 0).astype(np.uint32)
    entry = ((tail >> shift) + 32 * shift).astype(np.int64)
    share = (tail & ((np.uint32(1) << shift) - np.uint32(1))).astype(np.float32)
    share *= np.ldexp(np.float32(1), -shift.astype(np.int32))
    low = table[entry]
    magnitude = low + share * (table[np.minimum(entry + 1, table.size - 1)] - low)
    return np.where(random_words >> np.uint32(31), -magnitude, magnitude)


def _ranked(random_words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """For each word, how many of all 2^32 words have a smaller `normal_of`."""
    return np.where(random_words >> np.uint32(31), random_words ^ np.uint32(1 << 31), ~random_words)


def _unranked(ranks: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """The word of each rank; the inverse of `_ranked`."""
    return np.where(ranks >> np.uint32(31), ~ranks, ranks ^ np.uint32(1 << 31))


def _unit(random_words: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]:
    """Uniform in [0, 1), float32; below a half the lowest 8 bits of the word add precision."""
    unit = (random_words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    unit += (random_words & np.uint32(255)).astype(np.float32) * np.float32(2.0**-32)
    return np.asarray(np.minimum(unit, np.float32(1 - 2.0**-24)))


def _spread(positions: Places, width: Places | float, row_start: Places, key: int) -> Places:
    """Warp positions in [0, width) monotonically, to uneven spacing; `row_start`: the row's first element.

    At each scale every part of a row has a knot at a random position, which is moved by 0.1 to 0.4 of the
    part.
    """
    for number, scale in enumerate((*SCALES, math.inf)):
        inside = (scale < width) | (scale == math.inf)
        if not np.any(inside):
            continue
        start = np.floor(positions / scale) * min(scale, LARGEST)
        size = np.minimum(scale, width - start)
        drawn = _of_parts(key + number, (row_start + start).astype(np.uint64))
        before, after = _knots(drawn)
        share = (positions - start) / size
        low = np.minimum(share * (after / before), after)
        high = np.minimum(after + (share - before) * ((1.0 - after) / (1.0 - before)), 1.0)
        moved = start + np.where(share < before, low, high) * size
        positions = np.where(inside, np.minimum(moved, np.nextafter(width, 0.0)), positions)
    return positions


def _of_parts(key: int, first: Words) -> Words:
    """The hashes of ascending numbers, each computed once, since most numbers are repeated."""
    at = np.flatnonzero(np.concatenate([[True], first[1:] != first[:-1]]))
    return np.repeat(_hashed(key & MASK, first[at]), np.diff(at, append=first.size))


def _knots(drawn: Words) -> tuple[Places, Places]:
    """Each knot before and after it is moved, as shares of a part: one at 0.3 to 0.45, one at 0.55 to 0.7."""
    low = 0.3 + (drawn & np.uint64(0xFFFFFFFF)).astype(np.float64) * (0.15 * 2.0**-32)
    high = 0.55 + (drawn >> np.uint64(32)).astype(np.float64) * (0.15 * 2.0**-32)
    up = (drawn & np.uint64(1)).astype(bool)
    return np.where(up, low, high), np.where(up, high, low)


@dataclass(frozen=True)
class Drawn:
    """Random words (or ranks) of elements. `equal`: the element's value is repeated many times. `lows`: what
    replaces the low bits of its value (-1: nothing)."""

    ranks: Ranks
    equal: npt.NDArray[np.bool_]
    lows: Lows

    @classmethod
    def plain(cls, ranks: Ranks) -> Drawn:
        """Elements without a shape; copies the ranks."""
        return cls(ranks.copy(), np.zeros(ranks.shape, bool), np.full(ranks.shape, -1, np.int64))

    def put(self, at: Any, number: int, ranks: Ranks, lows: Lows) -> None:
        """Store the shaped ranks of some elements; `number`: of the shape."""
        self.ranks[at], self.equal[at], self.lows[at] = ranks, number in EQUAL, lows


@dataclass(frozen=True)
class Shaping:
    """Moves the random words of a buffer within their range, by shape, and sets low bits of its values.

    `low`, `high`: in the lowest or highest 2^-`shift` of the range. `alike`: all equal. `few`: one of four
    values. `strided`: maxima at columns r (mod 2^k), which one thread of a strided loop reads. `ascending`,
    `descending`: along the row, over the upper part of the range, so that no row sum cancels to near zero.
    `neighbours`: the maxima are in columns of one remainder, the minima in those of another; the values of
    either set differ only in the low bits `near`, so that many are one unit in the last place apart. `whole`:
    the shape of all elements; None: the key chooses rows and pieces, which get one of the `allowed` shapes
    each.
    """

    key: int
    width: int
    whole: int | None
    allowed: tuple[int, ...]
    shift: int
    near: int = 0

    def apply(self, ranks: Ranks, start: int, count: int) -> Drawn:
        """Shape the ranks, `(n,)`, of the elements from `start` on of a buffer of `count` elements."""
        index = np.arange(start, start + ranks.size, dtype=np.uint64)
        width = np.uint64(self.width)
        drawn = Drawn.plain(ranks)
        if self.whole is not None:
            group = index // width if self.whole == NEIGHBOURS else np.zeros(1, np.uint64)
            group_words = _of_parts(self.key, group)
            drawn.put(
                slice(None), self.whole, *self._shaped(ranks, self.whole, group_words, index % width, width)
            )
            return drawn
        if self.width < count:
            self._patch(drawn, index // width, index % width, width, self.key + 1)
        piece = np.uint64(PIECE)
        self._patch(drawn, index // piece, index % piece, piece, self.key + 2)
        return drawn

    def _patch(self, into: Drawn, group: Words, columns: Words, width: np.uint64, key: int) -> None:
        """Shape the groups of elements that the key chooses, in place."""
        hashes = _of_parts(key, group)
        is_shaped = (hashes & np.uint64(MASK >> 32)) < PATCHED
        if not self.allowed or not is_shaped.any():
            return
        numbers = np.array(self.allowed)[
            ((hashes >> np.uint64(32)) % np.uint64(len(self.allowed))).astype(int)
        ]
        for number in self.allowed:
            at = is_shaped & (numbers == number)
            if at.any():
                shaped = self._shaped(into.ranks[at], number, mix(hashes[at]), columns[at], width)
                into.put(at, number, *shaped)

    def _shaped(
        self, ranks: Ranks, number: int, hashes: Words, columns: Words, width: np.uint64
    ) -> tuple[Ranks, Lows]:
        """Ranks in one shape, and their low bits.

        `hashes`: a random word per element, equal within a group (a row or piece). `columns`: the
        element's index in its group of `width`.
        """
        if number == NEIGHBOURS:
            return self._neighbours(ranks, hashes, columns, width)
        return self._ranks(ranks, number, hashes, columns, width), np.full(ranks.shape, -1, np.int64)

    def _neighbours(
        self, ranks: Ranks, hashes: Words, columns: Words, width: np.uint64
    ) -> tuple[Ranks, Lows]:
        """The ranks of the shape `neighbours`, and the low bits of its maxima and minima.

        Maxima are at columns `above` (mod `step`), minima at `below`; other ranks are in the middle 3/4. The
        members of a set are numbered along the row; members 2k and 2k + 1 differ only in bit 0.
        """
        length = (int(width) - 1).bit_length()
        least = max(LEAST_STEP_LOG2, length - self.near.bit_length())
        choices = np.uint64(min(max(length - 1 - least, 1), MOST_STEPS))
        shift = np.uint64(least) + (hashes & np.uint64(255)) % choices
        step = np.uint64(1) << shift
        above = (hashes >> ABOVE_BIT) % step
        below = (above + np.uint64(1) + (hashes >> BELOW_BIT) % (step - np.uint64(1))) % step
        high, low = (columns % step == remainder for remainder in (above, below))
        base = (hashes >> BASE_BIT).astype(np.uint32)
        middle = ranks - (ranks >> np.uint32(2)) + MIDDLE_RANK
        shaped = np.where(high, HIGHEST_RANK + base, np.where(low, LOWEST_RANK + base, middle))
        members = np.uint64(1) << np.maximum(length - shift.astype(np.int64), 0).astype(np.uint64)
        number, offset = columns >> shift, hashes >> OFFSET_BIT
        pair = (number >> np.uint64(1)) * (hashes >> FACTOR_BIT | np.uint64(1)) + offset
        lows = (pair << np.uint64(1) | (number ^ offset) & np.uint64(1)) & members - np.uint64(1)
        return shaped, np.where(high | low, lows.astype(np.int64), -1)

    def _ranks(self, ranks: Ranks, number: int, hashes: Words, columns: Words, width: np.uint64) -> Ranks:
        """Ranks in a shape other than `neighbours`."""
        shape, part = SHAPES[number], ranks >> np.uint32(self.shift)
        if shape in ("low", "high"):
            return part if shape == "low" else ~part
        if shape == "alike":
            return np.broadcast_to(hashes, ranks.shape).astype(np.uint32)
        if shape == "few":
            return mix(hashes + (ranks & np.uint32(3))).astype(np.uint32)
        if shape == "strided":
            stride = np.uint64(32) << (hashes & np.uint64(3))
            eighth = ranks >> np.uint32(3)
            return np.where(columns % stride == (hashes >> np.uint64(8)) % stride, ~eighth, ranks - eighth)
        rising = ((columns << np.uint64(32)) + ranks) // width
        if shape == "descending":
            rising = np.uint64(MASK >> 32) - rising
        base = np.uint64(1 << 29) + (hashes & np.uint64((1 << 30) - 1))
        return (base + (rising * (np.uint64(1 << 32) - base) >> np.uint64(32))).astype(np.uint32)


@dataclass(frozen=True)
class Thinned:
    """Which runs of `RUN` elements keep their values: those whose random word is less than `below`.

    Run number `always` is kept in any case. Elements of the other runs are uniform from 0 to `small`. Buffers
    of one size share `kept_key`, and so keep the same runs.
    """

    kept_key: int
    small_key: int
    below: int
    always: int
    small: float


@dataclass(frozen=True)
class Recipe:
    """How the elements of a buffer are made, in C order.

    uniform: `low` + `span` u. normal: mean `low`, deviation `span`. integers: `first` + 0..`extent`-1. table:
    one of the 256 values of `table`. uneven: the level depends on position; `table` holds levels per piece
    size (`PIECES`), then per 64th of the buffer; in float32 capped at `top`, with low bits set so that
    narrowing loses precision. sorted: ascending in each row of `width`, from `low` over `span`. columns:
    ascending in each row that starts at an offset in `table` (int64), from 0 to `extent`-1. Both divide the
    range into as many unequal intervals as the row has elements, and draw one value from each (`_spread`).
    """

    form: str  # one of `FORMS`
    dtype: str
    count: int  # elements
    key: int  # of the random words
    low: float = 0.0
    span: float = 1.0
    first: int = 0
    extent: int = 1
    table: Array | None = None
    thinned: Thinned | None = None  # of table
    top: float = math.inf  # of uniform and uneven
    width: int = 1  # elements of a row, of sorted
    shaping: Shaping | None = None  # of uniform, normal and integers
    # The `cleared` bits of uniform and normal are masked off in a `share` of the values (of `ALL_CLEARED`)
    # unless they would leave [least, most].
    cleared: int = 0
    share: int = 0
    least: float = -math.inf
    most: float = math.inf

    def values(self) -> Array:
        """All elements, `(count,)` of the dtype."""
        out = np.empty(self.count, numpy_dtype(self.dtype))
        for start in range(0, self.count, CHUNK):
            size = min(CHUNK, self.count - start)
            with np.errstate(over="ignore"):
                drawn = self._drawn(start, size)
                part = self._part(drawn, start, size).astype(out.dtype, copy=False)
                out[start : start + size] = self._with_bits(part, drawn)
        return out

    def _drawn(self, start: int, size: int) -> Drawn:
        """The words of elements, in the recipe's shape."""
        plain = words(self.key, start, size)
        if self.shaping is None:
            return Drawn.plain(plain)
        if self.form != "normal":
            return self.shaping.apply(plain, start, self.count)
        drawn = self.shaping.apply(_ranked(plain), start, self.count)
        return replace(drawn, ranks=_unranked(drawn.ranks))

    def _with_bits(self, values: Array, drawn: Drawn) -> Array:
        """Floats with the `cleared` bits masked off where they are, and with the low bits of `neighbours`."""
        floating = self.form in ("uniform", "normal")
        below = BELOW_THREE.get(self.dtype, 0) if floating else 0
        near = floating and (drawn.lows >= 0).any()
        if not self.cleared and not (below and drawn.equal.any()) and not near:
            return values
        bits = values.view(f"u{values.itemsize}")
        inside = drawn.ranks * PLACE_FACTOR >> np.uint32(24) < self.share
        lost = np.where(inside, bits.dtype.type(self.cleared), bits.dtype.type(0))
        lost = np.where(drawn.equal, bits.dtype.type(below), lost)
        cleared = (bits & ~lost).view(values.dtype)
        reals = cleared.astype(np.float64)
        in_range = np.where((reals >= self.least) & (reals <= self.most), cleared, values)
        return self._with_lows(in_range.view(bits.dtype), drawn.lows).view(values.dtype) if near else in_range

    def _with_lows(self, bits: Array, lows: Lows) -> Array:
        near = self.shaping.near if self.shaping else 0
        return np.where(lows >= 0, bits & ~bits.dtype.type(near) | lows.astype(bits.dtype), bits)

    def _part(self, drawn: Drawn, start: int, size: int) -> Array:
        if self.form == "integers":
            scaled = drawn.ranks.astype(np.uint64) * np.uint64(self.extent) >> np.uint64(32)
            return self._with_lows(scaled, drawn.lows).astype(np.int64) + np.int64(self.first)
        return self._reals(drawn.ranks, start)

    def _reals(self, drawn: Ranks, start: int) -> Array:
        if self.form == "table":
            assert self.table is not None
            return self._thin(self.table[drawn >> np.uint32(24)], start)
        if self.form == "sorted":
            return self._sorted(drawn, start)
        if self.form == "columns":
            return self._columns(drawn, start)
        values: Array
        if self.form == "uneven":
            return self._uneven(drawn, start)
        values = _unit(drawn) if self.form == "uniform" else normal_of(drawn)
        if self.dtype == "float64":  # a float32 value, and more bits on either side of it
            exact = values * (1.0 + ((drawn * REST_FACTOR).astype(np.float64) - 2.0**31) * 2.0**-55)
            return np.asarray(exact * self.span + self.low)
        values *= np.float32(self.span)
        values += np.float32(self.low)
        return np.minimum(values, np.float32(self.top)) if self.form == "uniform" else values

    def _thin(self, values: Array, start: int) -> Array:
        thin = self.thinned
        if thin is None:
            return values
        runs = np.arange(start // RUN, -(-(start + values.size) // RUN))
        hashes = words(thin.kept_key, int(runs[0]) & ~1, runs.size + 1)[int(runs[0]) & 1 :][: runs.size]
        kept = np.repeat((hashes.astype(np.uint64) < thin.below) | (runs == thin.always), RUN)[: values.size]
        small = _unit(words(thin.small_key, start, values.size)) * np.float32(thin.small)
        return np.where(kept, values, small.astype(values.dtype))

    def _uneven(self, drawn: npt.NDArray[np.uint32], start: int) -> Array:
        assert self.table is not None
        index = np.arange(start, start + drawn.size)
        level = _unit(drawn) * np.float32(0.1)
        for number, piece in enumerate(PIECES):
            level += np.float32(0.2) * self.table[number * PERIOD + index // piece % PERIOD]
        level += np.float32(0.3) * self.table[len(PIECES) * PERIOD + index // -(-self.count // RUN)]
        level *= np.float32(self.span)
        level += np.float32(self.low)
        if self.dtype != "float32":
            return level
        bits = level.view(np.uint32)
        bits &= np.uint32(0xFFFF3FFF)
        bits |= np.uint32(0x4000)
        return np.asarray(np.clip(level, np.float32(self.low), np.float32(self.top)))

    def _sorted(self, drawn: npt.NDArray[np.uint32], start: int) -> Array:
        index = np.arange(start, start + drawn.size)
        positions = (index % self.width).astype(np.float64)
        row_start = index - positions
        positions += drawn.astype(np.float64) * 2.0**-32
        positions = _spread(positions, float(self.width), row_start, self.key + 1)
        positions /= self.width
        positions *= self.span
        positions += self.low
        if not is_float(self.dtype):
            return np.asarray(np.floor(positions))
        return positions if self.dtype == "float64" else positions.astype(np.float32)

    def _columns(self, drawn: npt.NDArray[np.uint32], start: int) -> Array:
        assert self.table is not None
        index = np.arange(start, start + drawn.size, dtype=np.int64)
        row = np.searchsorted(self.table, index, side="right") - 1
        place, length = index - self.table[row], self.table[row + 1] - self.table[row]
        low, high = (self._edge(at, length, index - place) for at in (place, place + 1))
        return np.asarray(low + (drawn.astype(np.int64) * (high - low) >> 32))

    def _edge(self, place: Array, length: Array, first: Array) -> Array:
        """The start of an entry's interval: one column for each entry before it, plus a share of the spare
        columns."""
        wide = length.astype(np.float64)
        share = _spread(
            np.minimum(place, length - 1).astype(np.float64), wide, first.astype(np.float64), self.key + 1
        )
        share /= wide
        spare = self.extent - length
        return np.asarray(place + np.where(place == length, spare, np.floor(share * spare).astype(np.int64)))

    @property
    def on_device(self) -> bool:
        """Whether a device can make it: `sorted` in any type, indices in integer types, others in floats."""
        return self.form == "sorted" or (self.form in ("integers", "columns")) != is_float(self.dtype)
