"""What physics allows: the time that bytes which must be moved take at the measured copy bandwidth.

Only what a correct side cannot avoid counts: every `out` buffer is poisoned before each run and compared
afterwards, so all of it must be written; what fits in the L2 cache need not have reached memory when the
kernel ends. Inputs do not count: a correct side may not need all of them. A side that is faster than this
did not do its work, whatever its outputs look like. Not covered: measuring the bandwidth
(`kcurate.judge.timing.calibration`).
"""

from __future__ import annotations

from collections.abc import Mapping

from kcurate.records.pair import SideName

# Writes alone go a little faster than the copy that the bandwidth is measured with.
ALLOWANCE = 0.7


def floor_us(written_bytes: int, l2_bytes: int, copy_bytes_per_s: float) -> float:
    """The least time in microseconds for `written_bytes` of outputs; 0 when nothing is known.

    `copy_bytes_per_s` counts bytes read plus bytes written.
    """
    if copy_bytes_per_s <= 0:
        return 0.0
    return ALLOWANCE * max(0, written_bytes - l2_bytes) / copy_bytes_per_s * 1e6


def copy_fraction(all_bytes: int, median_us: float, copy_bytes_per_s: float) -> float | None:
    """The share of the copy bandwidth that a side reaches if it moves every buffer once; for the record."""
    if median_us <= 0 or copy_bytes_per_s <= 0:
        return None
    return all_bytes / (median_us * 1e-6) / copy_bytes_per_s


def describe(sides: Mapping[SideName, float], floor: float) -> str | None:
    """The first side that beats the floor, in words; None when none does."""
    for side, median_us in sides.items():
        if median_us < floor:
            return f"{side} takes {median_us:.2f} us, moving its outputs takes {floor:.2f} us"
    return None
