"""The bandwidth floor: the least time that writing the outputs takes at the measured copy bandwidth.

A faster side cannot have done its work. Every `out` buffer is poisoned before each run and compared after it,
so all of it must be written, except that what fits in L2 need not reach DRAM before the kernel ends. Inputs
are not counted, since a correct side may not need all of them. Not covered: measuring the bandwidth
(`kcurate.judge.timing.calibration`).
"""

from __future__ import annotations

from collections.abc import Mapping

from kcurate.records.pair import SideName

# Writes alone are a little faster than the copy that the bandwidth is measured with.
ALLOWANCE = 0.7


def floor_us(written_bytes: int, l2_bytes: int, copy_bytes_per_s: float) -> float:
    """The floor in microseconds for `written_bytes` of outputs; 0 if the bandwidth is unknown.

    `copy_bytes_per_s` counts bytes read plus bytes written.
    """
    if copy_bytes_per_s <= 0:
        return 0.0
    return ALLOWANCE * max(0, written_bytes - l2_bytes) / copy_bytes_per_s * 1e6


def copy_fraction(all_bytes: int, median_us: float, copy_bytes_per_s: float) -> float | None:
    """The fraction of the copy bandwidth that a side reaches if it moves every buffer once."""
    if median_us <= 0 or copy_bytes_per_s <= 0:
        return None
    return all_bytes / (median_us * 1e-6) / copy_bytes_per_s


def describe(sides: Mapping[SideName, float], floor: float) -> str | None:
    """The first side below the floor, in words; None if there is none."""
    for side, median_us in sides.items():
        if median_us < floor:
            return f"{side} takes {median_us:.2f} us, but writing its outputs takes at least {floor:.2f} us"
    return None
