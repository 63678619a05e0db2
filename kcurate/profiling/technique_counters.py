"""The counters that a technique changes, and in which direction, to check labels against profiles.

A label is supported if one of its counters changes in the right direction by `LEAST` or more. A counter that
should fall is ignored if it is already near zero on the slow side: with one thread per row, for example,
there is no exchange that shuffles could replace. `schemas/techniques.json` defines the techniques; those
whose effect no counter shows have no entry here. Not covered: the gain of a technique on a pair (its
ablation).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcurate.core import resources
from kcurate.profiling.counters import shown
from kcurate.records import Profile

LEAST = 0.05
# A percentage must change by at least this many points, since small ones fluctuate.
LEAST_POINTS = 1.0
# A counter is near zero on the slow side if it is below this many stall cycles per instruction, or below this
# part of its value on the fast side. For passes of shared memory the part is larger, since a fast side uses
# shared memory for more than one label.
LEAST_CYCLES, LEAST_PART, LEAST_SHARED_PART = 0.5, 0.01, 0.3
# The percentage of shared-memory passes caused by bank conflicts, which padding keeps below `FEW_CONFLICTS`.
CONFLICTS, FEW_CONFLICTS = "conflict_pct", 5.0
# Sectors per access of a warp that reads 8 to 16 bytes per thread; 5% are for unaligned ends.
WIDE = (7.6, 16.8)
LAUNCHES = "launches"
# By technique, the counters with the signs of their changes.
EXPECTED: Mapping[str, tuple[str, ...]] = {
    technique: tuple(signed.split())
    for technique, signed in resources.table("kcurate.profiling", "technique_counters.toml").items()
}


@dataclass(frozen=True)
class Move:
    """A counter on both sides; `right`: it changes as the technique predicts."""

    counter: str
    slow: float
    fast: float
    right: bool

    def __str__(self) -> str:
        """The counter with both values, as text."""
        return f"{self.counter} {shown(self.counter, self.slow)} -> {shown(self.counter, self.fast)}"


def moves(technique: str, slow: Profile, fast: Profile) -> list[Move]:
    """The technique's counters that both sides have and that could change as it predicts."""
    return [
        Move(signed[1:], before, after, right=_right(signed, before, after))
        for signed in EXPECTED.get(technique, ())
        if (before := value(slow, signed[1:])) is not None
        and (after := value(fast, signed[1:])) is not None
        and (signed[0] != "-" or _could_fall(signed[1:], before, after))
    ]


def _right(expected: str, before: float, after: float) -> bool:
    if expected[0] == "=":
        return after < FEW_CONFLICTS if expected[1:] == CONFLICTS else WIDE[0] <= after <= WIDE[1]
    return moved(expected[1:], before, after) == (1 if expected[0] == "+" else -1)


def _could_fall(counter: str, before: float, after: float) -> bool:
    """Whether a counter is large enough on the slow side that it could fall."""
    if counter == LAUNCHES:
        return before > 1
    if counter.startswith("stall_"):
        return before >= LEAST_CYCLES
    if counter.endswith("_pct"):
        return before >= LEAST_POINTS
    return before > (LEAST_SHARED_PART if counter.startswith("shared_") else LEAST_PART) * after


def value(profile: Profile, counter: str) -> float | None:
    """A counter of a profile; launches and the percentage of conflicts are counters too."""
    if counter == CONFLICTS:
        passes, conflicts = (
            profile.counters.get(f"shared_{counter}") for counter in ("wavefronts", "conflicts")
        )
        return 100 * conflicts / passes if passes and conflicts is not None else None
    return float(profile.launches) if counter == LAUNCHES else profile.counters.get(counter)


def moved(counter: str, before: float, after: float) -> int:
    """1 if the counter rises by `LEAST` or more, -1 if it falls by as much, else 0."""
    if counter.endswith("_pct") and abs(after - before) < LEAST_POINTS:
        return 0
    if after >= before * (1 + LEAST) and after > before:
        return 1
    return -1 if before > after and before >= after * (1 + LEAST) else 0
