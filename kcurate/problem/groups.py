"""Groups of an output's elements (rows, blocks, a random partition), and the error of each group.

Not covered: the largest allowed errors (`kcurate.problem.compare`).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Elements of a block.
BLOCK = 256
# Classes of the random partition. Each class has one of every `CLASSES` consecutive elements.
CLASSES = 32
# Elements per chunk: 64 KiB in float64, which stays in cache and in the allocator's free lists (2-core x86-64
# machine, 16M elements: 0.2 s of CPU time, against 1.2 to 3.8 s with chunks of 128 KiB to 1 MiB).
CHUNK = 1 << 13


class Groups:
    """Groups of `width` consecutive elements (0: no groups).

    `count`: the elements of each group; `squares`: sums of squares of its errors, values and S, each divided
    by `unit` first.
    """

    def __init__(self, size: int, width: int, unit: float) -> None:
        self.width, self._unit = width, unit
        edges = np.r_[0:size:width, size] if width else np.zeros(1, np.int64)
        self.count = np.diff(edges)
        self.squares = {quantity: np.zeros(self.count.size) for quantity in ("errors", "values", "scales")}

    def index(self, part: slice) -> Array:
        """The group of each element of a part."""
        return np.arange(part.start, part.stop) // self.width

    def add(self, quantity: str, part: slice, values: Array) -> None:
        """Add the squares of a part's values."""
        if self.width:
            index = self.index(part)
            sums = np.bincount(index - index[0], (values / self._unit) ** 2)
            self.squares[quantity][index[0] : index[-1] + 1] += sums

    def norm(self, quantity: str) -> Array:
        """The norm of each group's errors, values or S."""
        return np.asarray(self._unit * np.sqrt(self.squares[quantity]))


class Classes(Groups):
    """A random partition: every class has one of each `CLASSES` consecutive elements."""

    def __init__(self, unit: float) -> None:
        super().__init__(CLASSES, 1, unit)
        self.count[:] = 0
        self._rng = np.random.default_rng(secrets.randbits(64))
        self._drawn = np.zeros(0, np.int64)

    def draw(self, size: int) -> None:
        """Choose the classes of the next `size` elements."""
        turns = self._rng.integers(CLASSES, size=-(-size // CLASSES)).repeat(CLASSES)[:size]
        self._drawn = (np.arange(size) + turns) % CLASSES
        self.count += np.bincount(self._drawn, minlength=CLASSES)

    def add(self, quantity: str, part: slice, values: Array) -> None:
        """See `Groups.add`."""
        self.squares[quantity] += np.bincount(self._drawn, (values / self._unit) ** 2, CLASSES)


def chunks(size: int) -> Iterator[slice]:
    """Slices of at most `CHUNK` elements that cover an array of `size` elements."""
    return (slice(start, min(size, start + CHUNK)) for start in range(0, size, CHUNK))
