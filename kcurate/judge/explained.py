"""How long what a side was counted to do takes on a GPU at most, by itself and beside the fast side.

By itself it is a sum of what each count takes alone. The model is generous: nothing overlaps, nothing is
cached, each access of a chain waits for the one before. So a side that takes much longer than the model says
does something that its code does not show: it waits, sleeps, spills registers or behaves otherwise on the
emulator. Beside the fast side, whose time is known, only what the two do differently explains more than a few
times that. Not covered: counting (`counting.h` of the emulator).
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
# How many times longer than explained a side may take, and how many times longer than the fast side one that
# does the same as far as counts show: they do not show conflicts of banks, functions of maths, caches.
EXPLAINED, ALIKE = 2.0, 4.0
# A multiprocessor holds 64 warps of this many registers a thread.
FREE_REGISTERS = 32


def explained_us(counts: Counts, registers: int = FREE_REGISTERS) -> float:
    """The time in us that the counts of a side explain; `registers`: the most of its kernels, a thread."""
    return sum(_of_each(counts, registers).values())


def beside_fast_us(slow: tuple[Counts, int], fast: tuple[Counts, int], fast_us: float) -> float:
    """The most us that a slow side may take beside a fast side that takes `fast_us`.

    `slow`, `fast`: counts and registers as in `explained_us`. Where the slow side does less of a kind, that
    counts like more of it: a kind may be cheap in one side and dear in the other. Atomics in shared memory
    count like those in global memory, so none of the fast side's are taken to be like the slow side's.
    """
    alike = {name: us for name, us in _of_each(*fast).items() if name not in ("atomics", "contended")}
    different_us = sum(abs(us - alike.get(name, 0.0)) for name, us in _of_each(*slow).items())
    return ALIKE * fast_us + EXPLAINED * different_us


def _of_each(counts: Counts, registers: int) -> dict[str, float]:
    """What each of the counts takes alone, in us."""
    held = max(1.0, registers / FREE_REGISTERS)
    return {
        name: us * getattr(counts, name) * (held if name.startswith("held") else 1.0)
        for name, us in COSTS_US.items()
    }
