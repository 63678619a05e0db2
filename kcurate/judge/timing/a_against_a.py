"""The self-test of timing: a kernel against its own copy, whose true ratio is 1.

The kernel is a chain of dependent FMAs that fills the GPU, once per duration class, each side in its own
process. A speedup must exceed 1 by more than these ratios deviate from it
(`kcurate.judge.timing.calibration`). Not covered: the A-against-A benchmark (`benchmarks/judge_aa.py`).
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Protocol

from kcurate.judge.timing.calibration import CLASSES_US, Calibration
from kcurate.judge.timing.decision import PairTimer
from kcurate.records import Buffer, Candidate, Init, Launch, Origin, Problem, Scalar, Side, Sizes, ValueArg

# One duration per class of `calibration.CLASSES_US`; the last is above all of them.
DURATIONS_US = (8.0, 20.0, 60.0, 300.0, 1500.0)
REPEATS = 8
# One full wave on an H200: 132 SMs x 8 blocks of 256 threads.
BLOCKS, THREADS = 1056, 256
# `rounds` that take about a microsecond (our measurement, H200, November 2026).
ROUNDS_PER_US = 124

KERNEL = """
extern "C" __global__ void work(const float* x, float* y, float a, float b, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int r = 0; r < rounds; ++r) v = fmaf(v, a, b);
    y[i] = v;
}
"""


class OpensPairTimers(Protocol):
    """The part of a judge that the self-test needs."""

    def pair_timer(self, candidate: Candidate, seed: int) -> contextlib.AbstractContextManager[PairTimer]:
        """Both sides in fresh workers, ready to be timed."""


def with_strays(judge: OpensPairTimers, measured: Calibration) -> Calibration:
    """`measured`, plus the largest |ratio - 1| of `REPEATS` A-against-A timings per duration class.

    Raises:
        KcurateError: this machine cannot be timed.
    """
    assert len(DURATIONS_US) == len(CLASSES_US) + 1, "one duration per class"
    strays = []
    for seed, duration_us in enumerate(DURATIONS_US):
        with judge.pair_timer(fma_pair_lasting(duration_us), seed) as timer:
            estimates = [timer.measure(1000 * seed + repeat).estimate for repeat in range(REPEATS)]
        strays.append(
            max((abs(estimate.ratio - 1.0) for estimate in estimates if estimate is not None), default=0.0)
        )
    return replace(measured, strays=tuple(strays))


def fma_pair_lasting(duration_us: float) -> Candidate:
    """Two identical sides that take about `duration_us`."""
    return fma_pair(max(8, round(duration_us * ROUNDS_PER_US)))


def fma_pair(rounds: int, extra: int = 0) -> Candidate:
    """Both sides run `rounds` dependent FMAs, the slow side `extra` more.

    The factor 1 and the addend 0 make the result independent of the count.
    """
    problem = Problem(
        Sizes(({"n": 512, "rounds": 5},), {"n": BLOCKS * THREADS, "rounds": rounds}),
        {"x": Buffer("float32", ("n",), Init("normal")), "y": Buffer("float32", ("n",), role="out")},
        {"a": Scalar("float32", 1.0), "b": Scalar("float32", 0.0)},
    )
    slow, fast = (
        Side(
            KERNEL,
            (Launch("work", (f"n/{THREADS}",), (THREADS,), ("x", "y", "a", "b", ValueArg(count))),),
        )
        for count in (f"rounds+{extra}", "rounds")
    )
    return Candidate(
        id=f"self-test/chain-{rounds}-{extra}",
        family="chain",
        domain="self-test",
        license=None,
        origin=Origin("curated"),
        techniques=(),
        description="",
        problem=problem,
        slow=slow,
        fast=fast,
    )
