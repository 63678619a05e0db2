"""How long what a side was counted to do takes on a GPU at most: a sum of what each count takes alone.

The model is generous: nothing overlaps, nothing is cached, each access of a chain waits for the one before.
So a side that takes much longer than the model says does something that its code does not show: it waits,
sleeps, spills registers or behaves otherwise on the emulator. Not covered: counting (`counting.h` of the
emulator).
"""

from __future__ import annotations

from collections.abc import Mapping

from kcurate.backends.base import Counts

# Microseconds for one of each count, on an H100 or H200 (132 multiprocessors).
COSTS_US: Mapping[str, float] = {
    "launches": 6.0,
    "chain_bytes": 1e-3,
    "chain_accesses": 0.6,
    "held_bytes": 1e-3 / 132,
    "held_accesses": 0.6 / 132,
    "warp_bytes": 0.5e-3 / (132 * 4),
    "sectors": 32 / 0.75e6,  # at scattered places: 0.75 TB/s
    "shared_accesses": 0.6e-3 / 132,
    "atomics": 0.6e-3,
    "contended": 3e-3,
}
# How many times longer than explained a side may take.
EXPLAINED = 2.0
# A multiprocessor holds 64 warps of this many registers a thread.
FREE_REGISTERS = 32


def explained_us(counts: Counts, registers: int = FREE_REGISTERS) -> float:
    """The time in us that the counts of a side explain; `registers`: the most of its kernels, a thread."""
    held = max(1.0, registers / FREE_REGISTERS)
    total_us = 0.0
    for name, us in COSTS_US.items():
        total_us += us * getattr(counts, name) * (held if name.startswith("held") else 1.0)
    return total_us
