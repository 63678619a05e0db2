"""Inputs spoiled for a negative control: rounded to the next narrower type, or a part of one set to zero.

Neither leaves the range of the values before it. `Spoiled.apply` changes an array here; a device does the
same to its own memory (`kcurate.backends.cuda.arrays`). `far` does leave it, and is applied here only. Not
covered: which changes a problem must notice (`kcurate.judge.negative_controls`), what far inputs are for
(`kcurate.judge.needless`).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kcurate.errors import ProblemError
from kcurate.problem.dtypes import is_float, numpy_dtype
from kcurate.problem.inputs.draws import Array

# The next narrower type that an input may be rounded to.
NARROWER = {"float64": "float32", "float32": "bfloat16", "float16": "float8_e4m3", "bfloat16": "float8_e4m3"}
# The share of an input that each change sets to zero. `half` stands for a program that sums half of the
# terms, `without` for one that ignores the input.
SHARES = {"hole": 0.1, "half": 0.5, "without": 1.0}
# What `far` multiplies floating inputs by: exponentials of usual values overflow then, float16 does not.
FAR = 256.0


@dataclass(frozen=True)
class Spoiled:
    """What happens to generated inputs: `narrow` rounds all floating ones, `far` multiplies them by `FAR`;
    `hole` is (name, start, count)."""

    narrow: bool = False
    far: bool = False
    hole: tuple[str, int, int] | None = None

    @classmethod
    def of(cls, change: str, counts: Mapping[str, int], seed: int) -> Spoiled:
        """The change of that name; `counts` are the elements of each input.

        Raises:
            ProblemError: there is no such change.
        """
        what, _, name = change.partition(":")
        if not change:
            return cls()
        if what in ("narrow", "far"):
            return cls(narrow=what == "narrow", far=what == "far")
        if what in SHARES and name in counts:
            count = min(counts[name], max(1, int(SHARES[what] * counts[name])))
            rng = np.random.default_rng([seed, zlib.crc32(b"hole")])
            return cls(hole=(name, int(rng.integers(counts[name] - count + 1)), count))
        raise ProblemError(f"there is no change {change!r} of inputs")

    def apply(self, name: str, values: Array, dtype: str) -> Array:
        """The values of one input after the change (in the same memory, where that is possible)."""
        if self.narrow:
            return _narrowed(values, dtype)
        if self.far and is_float(dtype) and values.dtype.itemsize > 1:
            return np.asarray(values * values.dtype.type(FAR))
        if self.hole is not None and self.hole[0] == name:
            _, start, count = self.hole
            flat = values.reshape(-1)
            if count:
                flat[start : start + count] = hole_value(flat.min(), flat.max())
        return values


def hole_value(least: float, most: float) -> float:
    """What a hole is filled with: zero, or the least value where zero is below all of them or above."""
    return least if least > 0 or most < 0 else 0


def _narrowed(values: Array, dtype: str) -> Array:
    """Values rounded to the next narrower type; those that would leave the range of all stay."""
    if dtype not in NARROWER or not values.size:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = values.astype(numpy_dtype(NARROWER[dtype])).astype(values.dtype)
        inside = (rounded >= values.min()) & (rounded <= values.max())
    return np.where(inside, rounded, values)
