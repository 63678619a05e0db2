"""An upper bound on the GPU time of a side, from the counts of the emulator.

`explained_us` bounds a side alone: it adds the times of all counted operations. The model is pessimistic:
nothing overlaps, nothing is cached, each access of a dependent chain waits for the previous one. A side that
takes much longer does something that its counts do not show: it sleeps, spins, spills registers or detects
the emulator. `beside_fast_us` bounds it by the measured time of the fast side: beyond a few times that, only
operations that the two do differently explain more. Example: a slow side with the counts of the fast side,
which takes 10 us, may take 4 * 10 us. Not covered: counting (`counting.h` of the emulator).
"""

from __future__ import annotations

from collections.abc import Mapping

from kcurate.backends.base import Counts

# Microseconds per unit of each count of `Counts`, on an H100 or H200 (132 multiprocessors).
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
# How many times longer than explained a side may take, and how many times longer than the fast side if their
# counts are equal: counts do not show bank conflicts, math functions and cache misses.
EXPLAINED, ALIKE = 2.0, 4.0
# Up to so many registers per thread, a multiprocessor holds 64 warps, its maximum.
FREE_REGISTERS = 32


def explained_us(counts: Counts, registers: int = FREE_REGISTERS) -> float:
    """The time in us that the counts of a side explain; `registers`: the most per thread of its kernels."""
    return sum(_us_by_kind(counts, registers).values())


def beside_fast_us(slow: tuple[Counts, int], fast: tuple[Counts, int], fast_us: float) -> float:
    """The most us that a slow side may take, given a fast side that takes `fast_us`.

    `slow`, `fast`: counts and registers as in `explained_us`. A kind of operation that the slow side does
    less often adds as much as one that it does more often, since its cost may differ between the sides.
    Counts do not distinguish shared from global atomics, so the fast side's atomics are not subtracted.
    """
    fast_us_by_kind = {
        name: us for name, us in _us_by_kind(*fast).items() if name not in ("atomics", "contended")
    }
    different_us = sum(abs(us - fast_us_by_kind.get(name, 0.0)) for name, us in _us_by_kind(*slow).items())
    return ALIKE * fast_us + EXPLAINED * different_us


def _us_by_kind(counts: Counts, registers: int) -> dict[str, float]:
    """The time of each kind of operation, in us."""
    occupancy_factor = max(1.0, registers / FREE_REGISTERS)
    return {
        name: us * getattr(counts, name) * (occupancy_factor if name.startswith("held") else 1.0)
        for name, us in COSTS_US.items()
    }
