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
    """The number of entries in each row: `(rows,) int64`, in total `entries`, each at most `cols`.

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
    """The same number of entries, with one row as long as possible and a third of the others empty."""
    longest, *others = rng.permutation(lengths.size)
    entries = int(lengths.sum())
    in_longest = min(cols, entries)
    changed = lengths.copy()
    changed[others[: lengths.size // 3]] = changed[longest] = 0
    changed = changed * (entries - in_longest) // max(1, int(changed.sum()))
    np.minimum(changed, cols, out=changed)
    changed[longest] = in_longest
    return _filled(rng, changed, cols, entries - int(changed.sum()))


def even(lengths: Integers) -> Integers:
    """The same number of entries, in rows whose lengths differ by at most one."""
    return np.diff(np.arange(lengths.size + 1) * int(lengths.sum()) // lengths.size)


def path(rng: np.random.Generator, starts: Integers, cols: int) -> Integers:
    """Columns, ascending and distinct in each row: `(entries,) int64`. Of a square matrix they form a graph
    in which a breadth-first search from row 0 takes the rows in random order, about one at each step."""
    lengths = np.diff(starts)
    rows = lengths.size
    order = np.arange(max(rows, cols))
    if cols == rows:
        order[1:] = rng.permutation(order[1:])
    last = np.minimum((np.argsort(order)[:rows] + 1) * cols // rows, cols - 1)  # one place after the row's
    first = np.maximum(0, last - lengths + 1)
    columns = order[np.arange(starts[-1]) - np.repeat(starts[:-1] - first, lengths)]
    row_of_entry = np.repeat(np.arange(rows), lengths)
    return np.asarray(columns[np.lexsort((columns, row_of_entry))], np.int64)


def _filled(rng: np.random.Generator, lengths: Integers, cols: int, missing: int) -> Integers:
    """Add `missing` entries to rows that have room, to empty rows last."""
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
