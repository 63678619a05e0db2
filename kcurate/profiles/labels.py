"""Which counters a technique moves, and in which direction: a label held against profiles of both sides.

A label is supported if one of its counters moves the right way by `LEAST` or more. What a technique means is
in `schemas/techniques.json`; techniques whose effect no counter shows have no entry here. Not covered: what a
technique gains on a pair (its ablation).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcurate.profiles.counters import shown
from kcurate.records import Profile

LEAST = 0.05
# A share that is close to zero on both sides moves by so many points at least.
LEAST_POINTS = 1.0
LAUNCHES = "launches"
_TRAFFIC = ("-dram_read_bytes", "-dram_write_bytes", "-l2_bytes")
_LESS_WORK = ("-instructions", *_TRAFFIC)
_LATENCY = ("-stall_memory", "-stall_barrier", "-stall_shared", "+issue_pct")

# By technique: counters with the sign of their change from the slow side to the fast one.
EXPECTED: Mapping[str, tuple[str, ...]] = {
    "algorithmic-improvement": (*_LESS_WORK, "-launches"),
    "async-copy": (*_LATENCY, "-instructions"),
    "atomics-reduction": ("-atomics",),
    "bank-conflict-padding": ("-shared_conflicts",),
    "coalesced-access": ("-load_sectors", "-store_sectors"),
    "constant-memory": ("-stall_memory", "-l2_bytes", "-instructions"),
    "decoupled-look-back": (*_TRAFFIC, "-launches"),
    "double-buffering": _LATENCY,
    "fast-math-intrinsics": ("-instructions",),
    "grid-stride-loop": ("-instructions", "-atomics", "-stall_barrier"),
    "hierarchical-reduction": ("-atomics", "-stall_barrier", "-shared_wavefronts", "-dram_write_bytes"),
    "kernel-fusion": ("-launches", *_TRAFFIC),
    "launch-bounds": ("+occupancy_pct", "-local_bytes"),
    "load-balancing": ("+issue_pct", "+occupancy_pct"),
    "loop-unrolling": ("-instructions", "+issue_pct", "-stall_memory"),
    "merge-path": ("+issue_pct", "+occupancy_pct"),
    "mixed-precision": ("+tensor_pct", "-fp32_pct", "-fp64_pct", *_TRAFFIC),
    "occupancy": ("+occupancy_pct",),
    "online-softmax": _TRAFFIC,
    "privatization": ("-atomics", "-stall_memory"),
    "read-only-cache": ("-l2_bytes", "-stall_memory"),
    "register-blocking": ("-l2_bytes", "-shared_wavefronts", "-instructions"),
    "restrict-pointers": ("-l2_bytes", "-instructions", "-stall_memory"),
    "shared-memory-tiling": ("-l2_bytes", "-dram_read_bytes", "-stall_memory"),
    "strength-reduction": ("-instructions", "-fp64_pct", "-stall_math"),
    "structure-of-arrays": ("-load_sectors", "-store_sectors", *_TRAFFIC),
    "temporal-blocking": (*_TRAFFIC, "-launches"),
    "tensor-cores": ("+tensor_pct",),
    "texture-memory": ("-l2_bytes", "-stall_memory"),
    "thread-coarsening": ("-instructions", "-l2_bytes", "-shared_wavefronts"),
    "vectorized-access": ("-instructions", "+load_sectors", "+store_sectors"),
    "warp-aggregation": ("-atomics",),
    "warp-shuffle": ("-shared_wavefronts", "-stall_barrier", "-stall_shared", "-l2_bytes"),
    "warp-vote": ("-instructions", "-shared_wavefronts", "-atomics"),
    "wavefront-parallelism": ("+issue_pct", "+occupancy_pct"),
}


@dataclass(frozen=True)
class Move:
    """A counter on both sides; `right`: it moves as the technique says."""

    counter: str
    slow: float
    fast: float
    right: bool

    def __str__(self) -> str:
        """Both values."""
        return f"{self.counter} {shown(self.counter, self.slow)} -> {shown(self.counter, self.fast)}"


def moves(technique: str, slow: Profile, fast: Profile) -> list[Move]:
    """The technique's counters that both sides have."""
    return [
        Move(one[1:], before, after, right=moved(one[1:], before, after) == (1 if one[0] == "+" else -1))
        for one in EXPECTED.get(technique, ())
        if (before := value(slow, one[1:])) is not None and (after := value(fast, one[1:])) is not None
    ]


def value(profile: Profile, counter: str) -> float | None:
    """A counter of a profile; launches count as one."""
    return float(profile.launches) if counter == LAUNCHES else profile.counters.get(counter)


def moved(counter: str, before: float, after: float) -> int:
    """1 if it rises by `LEAST` or more, -1 if it falls so, else 0."""
    if counter.endswith("_pct") and abs(after - before) < LEAST_POINTS:
        return 0
    if after >= before * (1 + LEAST) and after > before:
        return 1
    return -1 if before > after and before >= after * (1 + LEAST) else 0
