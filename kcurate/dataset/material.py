"""Which counters change enough between two sides to be told of: by a tenth of a whole, for all of them.

Not covered: which counters a technique moves, and from where on a move is one
(`kcurate.profiling.technique_counters`).
"""

from __future__ import annotations

from kcurate.problem.outputs import logical_bytes
from kcurate.profiling import technique_counters
from kcurate.records import Candidate, Profile

# The part of its whole by which a counter changes at least.
LEAST = 0.1
DRAM = ("dram_read_bytes", "dram_write_bytes")
STALLS = ("stall_memory", "stall_shared", "stall_barrier", "stall_math")
# What one counts as in issued instructions: a pass of shared memory takes a cycle, in which the four
# schedulers of a multiprocessor issue; an atomic is an operation of each of a warp's 32 threads.
ISSUED = {"shared_wavefronts": 4.0, "shared_conflicts": 4.0, "atomics": 32.0}
_SECTORS = {"load_sectors": ("in", "inout", "scratch"), "store_sectors": ("out", "inout", "scratch")}


def material(counter: str, pair: Candidate, both: tuple[Profile, Profile]) -> bool:
    """Whether a counter changes by `LEAST` of its whole from the given side to the other.

    The whole is: of device memory's traffic the reads and writes of the given side; of a stall all of its
    stalls that are counted; of shared memory's passes and of atomics its instructions (`ISSUED`); of local
    memory its traffic through L2; of a percentage 100; of launches, instructions, L2 traffic and sectors the
    larger of both sides' values. A change in sectors counts by the part that what is loaded, or stored, has
    in the bytes of the problem's buffers.
    """
    slow, fast = (technique_counters.value(side, counter) for side in both)
    if slow is None or fast is None:
        return False
    counters = both[0].counters
    if counter.endswith("_pct"):
        whole = 100.0
    elif counter in DRAM or counter in STALLS:
        whole = sum(counters.get(name, 0.0) for name in (DRAM if counter in DRAM else STALLS))
    elif counter in ISSUED:
        whole = counters.get("instructions", 0.0) / ISSUED[counter]
    elif counter == "local_bytes":
        whole = counters.get("l2_bytes", 0.0)
    else:
        whole = max(slow, fast)
    change = abs(fast - slow) * _part(counter, pair)
    return change > 0 and change >= LEAST * whole


def _part(counter: str, pair: Candidate) -> float:
    """The part of buffers' bytes that a sector counter is about; 1 for other counters."""
    if counter not in _SECTORS or pair.problem is None:
        return 1.0
    problem = pair.problem
    buffers = [*problem.buffers.values(), *pair.slow.buffers.values()]
    sizes = [(buffer.role, logical_bytes(buffer, problem.sizes.headline)) for buffer in buffers]
    every = sum(size for _, size in sizes)
    return sum(size for role, size in sizes if role in _SECTORS[counter]) / every if every else 0.0
