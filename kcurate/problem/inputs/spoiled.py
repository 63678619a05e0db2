"""Inputs spoiled for a negative control: rounded to the next narrower type, or a part of one set to zero.

Neither leaves the original range of the values. `Spoiled.apply` changes an array on the host; a device does
the same in its own memory (`kcurate.backends.cuda.arrays`). `far` does leave the range, and exists on the
host only. Not covered: which changes a problem must notice (`kcurate.judge.negative_controls`), what `far`
inputs are for (`kcurate.judge.needless`).
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
# The share of an input that each change sets to zero. `half` imitates a program that sums half of the terms,
# `without` one that ignores the input.
SHARES = {"hole": 0.1, "half": 0.5, "without": 1.0}
# `far` multiplies floating inputs by this: exponentials of typical values then overflow, float16 does not.
FAR = 256.0


@dataclass(frozen=True)
class Spoiled:
    """A change of generated inputs: `narrow` rounds all floating ones, `far` multiplies them by `FAR`, `hole`
    (name, start, count) sets part of one to zero."""

    narrow: bool = False
    far: bool = False
    hole: tuple[str, int, int] | None = None

    @classmethod
    def of(cls, change: str, counts: Mapping[str, int], seed: int) -> Spoiled:
        """The change with that name; `counts`: the elements of each input.

        Raises:
            ProblemError: there is no such change.
        """
        kind, _, name = change.partition(":")
        if not change:
            return cls()
        if kind in ("narrow", "far"):
            return cls(narrow=kind == "narrow", far=kind == "far")
        if kind in SHARES and name in counts:
            count = min(counts[name], max(1, int(SHARES[kind] * counts[name])))
            rng = np.random.default_rng([seed, zlib.crc32(b"hole")])
            return cls(hole=(name, int(rng.integers(counts[name] - count + 1)), count))
        raise ProblemError(f"there is no change {change!r} of inputs")

    def apply(self, name: str, values: Array, dtype: str) -> Array:
        """The values of one input after the change; a hole is made in place."""
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
    """The value of a hole: zero, or the least value if zero is outside the range of the values."""
    return least if least > 0 or most < 0 else 0


def _narrowed(values: Array, dtype: str) -> Array:
    """Values rounded to the next narrower type, except where that would leave the range of the values."""
    if dtype not in NARROWER or not values.size:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = values.astype(numpy_dtype(NARROWER[dtype])).astype(values.dtype)
        inside = (rounded >= values.min()) & (rounded <= values.max())
    return np.where(inside, rounded, values)
