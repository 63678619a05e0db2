"""The judge's own control: a kernel timed against its copy, which must come out as no difference.

A chain of dependent multiply-adds that fills the GPU, one length a duration class, both sides the same in
processes of their own. How far the ratios stray from 1 is what a claimed difference must exceed on this
machine (`kcurate.judge.timing.calibration`). Not covered: many such judgements (`benchmarks/judge_aa.py`).
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Protocol

from kcurate.judge.timing.calibration import CLASSES_US, Calibration
from kcurate.judge.timing.decision import Stopwatch
from kcurate.records import Buffer, Candidate, Init, Launch, Origin, Problem, Scalar, Side, Sizes, ValueArg

# One duration a class of `calibration.CLASSES_US`, the last for what is longer.
DURATIONS_US = (5.0, 20.0, 60.0, 300.0, 1500.0)
REPEATS = 8
# Full waves of one H200: 132 multiprocessors x 8 blocks of 256 threads.
BLOCKS, THREADS = 1056, 256
# `rounds` of the chain that take about a microsecond on one H200 (November 2026).
ROUNDS_PER_US = 124

CHAIN = """
extern "C" __global__ void work(const float* x, float* y, float a, float b, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int r = 0; r < rounds; ++r) v = fmaf(v, a, b);
    y[i] = v;
}
"""


class Timer(Protocol):
    """What this needs of a judge."""

    def stopwatch(self, candidate: Candidate, seed: int) -> contextlib.AbstractContextManager[Stopwatch]:
        """Both sides in fresh processes, ready to be timed."""


def with_strays(judge: Timer, known: Calibration) -> Calibration:
    """`known` with the largest |ratio - 1| of `REPEATS` timings of A against A in each duration class.

    Raises:
        KcurateError: this machine cannot be timed.
    """
    assert len(DURATIONS_US) == len(CLASSES_US) + 1, "one duration a class"
    strays = []
    for seed, duration_us in enumerate(DURATIONS_US):
        with judge.stopwatch(chain(duration_us), seed) as watch:
            found = [watch.measure(1000 * seed + repeat).estimate for repeat in range(REPEATS)]
        strays.append(max((abs(one.ratio - 1.0) for one in found if one is not None), default=0.0))
    return replace(known, strays=tuple(strays))


def chain(duration_us: float) -> Candidate:
    """Both sides run the same chain, about this long."""
    return chain_of(max(8, round(duration_us * ROUNDS_PER_US)))


def chain_of(rounds: int, extra: int = 0) -> Candidate:
    """Both sides run a dependent chain of multiply-adds; the slow one `extra` more of them.

    The factor 1 and the addend 0 keep the result the same whatever the length.
    """
    problem = Problem(
        Sizes(({"n": 512, "rounds": 5},), {"n": BLOCKS * THREADS, "rounds": rounds}),
        {"x": Buffer("float32", ("n",), Init("normal")), "y": Buffer("float32", ("n",), role="out")},
        {"a": Scalar("float32", 1.0), "b": Scalar("float32", 0.0)},
    )
    slow, fast = (
        Side(
            CHAIN,
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
