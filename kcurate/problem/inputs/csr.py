"""Random compressed sparse rows with an exact number of entries: for sparse matrices and for graphs.

Row lengths follow a power law of exponent `skew` (0: nearly equal); columns in a row are ascending and
distinct (`Recipe`). Both arrays of a matrix use the random stream of their group, so each can be made without
the other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kcurate.errors import ProblemError

Integers = npt.NDArray[np.int64]


def row_lengths(rng: np.random.Generator, rows: int, cols: int, entries: int, skew: float) -> Integers:
    """The number of entries in each row: `(rows,) int64`, `entries` in total, none above `cols`.

    Raises:
        ProblemError: more entries than the matrix can hold.
    """
    if rows < 1 or not 0 <= entries <= rows * cols:
        raise ProblemError(f"{entries} entries do not fit {rows} rows of {cols} columns")
    weights = (1.0 + rows * rng.random(rows)) ** -skew * rng.uniform(0.5, 1.5, rows)
    ends = np.cumsum(weights)
    lengths = np.diff(np.floor(ends * (entries / ends[-1])).astype(np.int64), prepend=0)
    lengths[-1] += entries - int(lengths.sum())  # the last end may be rounded down
    np.minimum(lengths, cols, out=lengths)
    return _filled(rng, lengths, cols, entries - int(lengths.sum()))


def uneven(rng: np.random.Generator, lengths: Integers, cols: int) -> Integers:
    """As many entries in all, with one row as long as it can be, and a third of the others empty."""
    longest, *others = rng.permutation(lengths.size)
    entries = int(lengths.sum())
    moved = lengths.copy()
    moved[others[: lengths.size // 3]] = moved[longest] = 0
    rest = entries - min(cols, entries)
    moved = moved * rest // max(1, int(moved.sum()))
    np.minimum(moved, cols, out=moved)
    moved[longest] = entries - rest
    return _filled(rng, moved, cols, entries - int(moved.sum()))


def even(lengths: Integers) -> Integers:
    """As many entries in all, in rows that differ by one at most."""
    return np.diff(offsets(np.full(lengths.size, int(lengths.sum()))) // lengths.size)


def path(rng: np.random.Generator, starts: Integers, cols: int) -> Integers:
    """Columns, ascending and distinct; those of a square matrix lead from row 0 through all rows in random
    order, hardly more than one at a time: `(entries,) int64`."""
    lengths = np.diff(starts)
    count = lengths.size
    order = np.arange(max(count, cols))
    if cols == count:
        order[1:] = rng.permutation(order[1:])
    last = np.minimum((np.argsort(order)[:count] + 1) * cols // count, cols - 1)
    first = np.maximum(0, last - lengths + 1)
    columns = order[np.arange(starts[-1]) - np.repeat(starts[:-1] - first, lengths)]
    row = np.repeat(np.arange(count), lengths)
    return np.asarray(columns[np.lexsort((columns, row))], np.int64)


def _filled(rng: np.random.Generator, lengths: Integers, cols: int, missing: int) -> Integers:
    """Give rows with room so many more entries; those with none are the last to get any."""
    while missing:
        room = np.flatnonzero((lengths < cols) & (lengths > 0))
        room = room if room.size else np.flatnonzero(lengths < cols)
        chosen = rng.permutation(room)[:missing]
        lengths[chosen] += 1
        missing -= chosen.size
    return np.asarray(lengths, np.int64)


def offsets(lengths: Integers) -> Integers:
    """The start of each row, and the end: `(rows + 1,) int64`."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
