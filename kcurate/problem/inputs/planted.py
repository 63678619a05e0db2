"""Values planted at secret indices of an input: literals of a side's text, and extremes that random values
rarely reach.

Not covered: which inputs may hold them (`kcurate.problem.inputs.contents`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from kcurate.problem.dtypes import is_float
from kcurate.problem.inputs.draws import Array
from kcurate.records import Promise

# The share of an input's elements that are literals at most, and at least; and of the largest value the least
# literal beside zero: a denormal number is no fair input.
MOST_LITERALS, LEAST_LITERALS, SMALLEST_LITERAL = 1 / 4, 1 / 16, 2.0**-12
# The share of the elements that get one of the extreme values.
EXTREME_SHARE = 1 / 32
# By what a tiny row is scaled. Types with a narrow exponent have none: there it would lose its mantissas.
TINY, WITH_TINY_ROWS = 2.0**-20, ("float32", "float64", "bfloat16")
# Types of one whole number an element.
WHOLE = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
# Rows and columns that a buffer has at least if whole rows are changed.
LEAST_ROWS, LEAST_COLUMNS = 4, 4
# Promises under which two rows must not be hardly different.
_APART = {"varied", "distinct"}


def plant_extremes(
    values: Array,
    dtype: str,
    ends: tuple[float | None, float | None],
    promises: Collection[Promise],
    rng: np.random.Generator,
) -> None:
    """Put the ends of the range at random indices, and both zeros if the range has them; make one row tiny,
    one zero, and one a copy of its neighbour except for the last element. Some integers get the value before
    them with one bit changed, so that code that drops bits takes them for equal.

    `values`: C order; changed in place. `ends`: of the range (None: the least or the largest value).
    """
    flat: Array = values.reshape(-1)
    if not flat.size:
        return
    drawn = float(values.min()), float(values.max())
    least, most = (end if end is not None else value for end, value in zip(ends, drawn, strict=True))
    extremes: list[float] = [least, most]
    has_zero = least <= 0 <= most and not {"nonzero", "positive"} & set(promises)
    extremes += [0.0, -0.0] if has_zero and is_float(dtype) else []
    count = max(len(extremes), int(flat.size * EXTREME_SHARE))
    places = rng.choice(flat.size, min(count, flat.size), replace=False)
    flat[places] = np.resize(np.array(extremes).astype(values.dtype), places.size)
    width = values.shape[-1] if values.ndim else 1
    rows = values.reshape(-1, width)
    if rows.shape[0] >= LEAST_ROWS and width >= LEAST_COLUMNS and not _APART & set(promises):
        copied, tiny, empty = (int(rng.integers(rows.shape[0])) + np.arange(3)) % rows.shape[0]
        rows[copied, :-1] = rows[copied - 1, :-1]
        if dtype in WHOLE:
            _leave_one_bit(rows[copied], rows[copied - 1], np.array([width - 1]), (least, most), rng)
        if has_zero and dtype in WITH_TINY_ROWS:
            rows[tiny] = (rows[tiny].astype(np.float64) * TINY).astype(values.dtype)
        if has_zero:
            rows[empty] = 0
    if dtype in WHOLE and flat.size > 1 and not _APART & set(promises):
        places = 1 + rng.choice(flat.size - 1, max(1, int((flat.size - 1) * EXTREME_SHARE)), replace=False)
        _leave_one_bit(flat, np.roll(flat, 1), places, (least, most), rng)


def _leave_one_bit(
    values: Array, others: Array, places: Array, ends: tuple[float, float], rng: np.random.Generator
) -> None:
    """Make integers at some indices equal to those at others except for one bit, if that is in the range."""
    least, most = map(int, ends)
    bits = rng.integers(max(1, (most - least).bit_length()), size=places.size)
    near = others[places] ^ (values.dtype.type(1) << bits.astype(values.dtype))
    inside = (near >= least) & (near <= most)
    values[places[inside]] = near[inside]


def exchange_few(values: Array, rng: np.random.Generator) -> Array:
    """A copy in which some elements are exchanged: from one to a sixteenth of them, log-uniformly."""
    changed = values.copy()
    flat = changed.reshape(-1)
    if flat.size:
        most = max(1, flat.size >> 4)
        count = min(most, 1 << int(rng.integers(most.bit_length())))
        flat[rng.choice(flat.size, count, replace=False)] = rng.choice(flat, count)
    return changed


def plant_literals(values: Array, dtype: str, literals: str, rng: np.random.Generator) -> None:
    """Put the literals that lie between the least and the largest value at random indices."""
    flat = values.reshape(-1)
    wanted = [float(text) if set(text) & set(".einf") else int(text) for text in literals.split(";")]
    near = _near_reals(wanted, flat.dtype) if is_float(dtype) else _near_integers(wanted, flat.dtype)
    inside = (near >= flat.min()) & (near <= flat.max())
    if is_float(dtype):
        sizes, largest = np.abs(near.astype(np.float64)), float(np.abs(flat).max())
        inside &= (sizes == 0) | (sizes >= SMALLEST_LITERAL * largest)
    near = rng.permutation(near[inside])
    count = min(int(flat.size * MOST_LITERALS), max(near.size, int(flat.size * LEAST_LITERALS)))
    if near.size:
        flat[rng.choice(flat.size, count, replace=False)] = np.resize(near, count)


def _near_integers(wanted: Sequence[int | float], dtype: np.dtype[Any]) -> Array:
    """Integers near the literals, of either sign, that the type can hold."""
    held, whole = np.iinfo(dtype), {int(value) for value in wanted if value == int(value)}
    near = {sign * value + step for value in whole for sign in (1, -1) for step in (-1, 0, 1)}
    return np.array(sorted(value for value in near if held.min <= value <= held.max), dtype)


def _near_reals(wanted: Sequence[int | float], dtype: np.dtype[Any]) -> Array:
    """Numbers near the literals, and near the floats whose bit patterns they are, of either sign."""
    bits = np.dtype(f"u{dtype.itemsize}")
    with np.errstate(over="ignore"):
        numbers = np.array([float(value) for value in wanted]).astype(dtype).view(bits)
    mask = (1 << 8 * dtype.itemsize) - 1
    patterns = np.array([value for value in wanted if isinstance(value, int) and 0 <= value <= mask], bits)
    exact = np.concatenate([numbers, patterns])
    steps = bits.type(1)
    near = np.unique(np.concatenate([exact - steps, exact, exact + steps]))
    either = np.concatenate([near, near ^ bits.type(mask - (mask >> 1))]).view(dtype)
    with np.errstate(invalid="ignore"):  # bit patterns of signalling NaNs
        return either[np.isfinite(either.astype(np.float64))]
