"""Axes of the plots: map values to positions, and choose ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LogScale:
    """Maps values from `low` to `high` (both above 0) to positions from `start` to `end`, logarithmically."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The position of a value; values outside are clipped."""
        clipped = min(max(value, self.low), self.high)
        share = math.log(clipped / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """1, 2 and 5 times every power of ten; only the powers if there are many decades."""
        steps = (1, 2, 5) if self.high / self.low < 1000 else (1,)
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = [step * 10.0**decade for decade in decades for step in steps]
        return [value for value in values if self.low <= value <= self.high]


def log_scale(values: Sequence[float], start: float, end: float) -> LogScale:
    """A scale with a margin around all values; 1 to 10 if there are none."""
    low, high = (min(values) / 1.1, max(values) * 1.1) if values else (1.0, 10.0)
    return LogScale(low, max(high, low * 1.5), start, end)
