"""Kernels and helpers that the judge's benchmarks share."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate import store
from kcurate.judge import verifying
from kcurate.judge.case import Case
from kcurate.judge.judge import PROTOCOL, Judge
from kcurate.judge.timed import Stopwatch
from kcurate.records import (
    Buffer,
    Candidate,
    Init,
    Launch,
    Origin,
    Problem,
    Scalar,
    Side,
    Sizes,
    ValueArg,
)

# Full waves of one H200: 132 multiprocessors x 8 blocks of 256 threads.
BLOCKS, THREADS = 1056, 256
# `rounds` of the chain below that take about a microsecond on one H200.
ROUNDS_PER_US = 124

CHAIN = """
extern "C" __global__ void work(const float* x, float* y, float a, float b, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int r = 0; r < rounds; ++r) v = fmaf(v, a, b);
    y[i] = v;
}
"""
COPY = """
extern "C" __global__ void work(const float4* x, float4* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float4 v = x[i];
        y[i] = make_float4(v.x * a, v.y * a, v.z * a, v.w * a);
    }
}
"""


def chain(duration_us: float, planted: float = 1.0) -> Candidate:
    """Both sides run a dependent chain of multiply-adds; the slow one `planted` times as many.

    The factor 1 and the addend 0 keep the result the same whatever the length.
    """
    rounds = max(8, round(duration_us * ROUNDS_PER_US))
    problem = Problem(
        Sizes(({"n": 512, "rounds": 5},), {"n": BLOCKS * THREADS, "rounds": rounds}),
        {
            "x": Buffer("float32", ("n",), Init("normal")),
            "y": Buffer("float32", ("n",), role="out"),
        },
        {"a": Scalar("float32", 1.0), "b": Scalar("float32", 0.0)},
    )
    extra = math.ceil(rounds * (planted - 1.0))
    slow, fast = (
        Side(
            CHAIN,
            (
                Launch(
                    "work",
                    (f"n/{THREADS}",),
                    (THREADS,),
                    ("x", "y", "a", "b", ValueArg(count)),
                ),
            ),
        )
        for count in (f"rounds+{extra}", "rounds+0" if extra else "rounds")
    )
    return candidate(f"chain-{duration_us:g}us-{planted:g}", problem, slow, fast)


def copy(megabytes: float) -> Candidate:
    """Both sides scale `megabytes` MB into as many again, the same way."""
    n = int(megabytes * 1e6) // (16 * THREADS) * THREADS
    problem = Problem(
        Sizes(({"n": 1000},), {"n": max(n, THREADS)}),
        {
            "x": Buffer("float32", ("n", 4), Init("normal")),
            "y": Buffer("float32", ("n", 4), role="out"),
        },
        {"a": Scalar("float32", 1.25)},
    )
    slow, fast = (
        Side(COPY, (Launch("work", (f"ceil_div(n, {THREADS})",), (THREADS,), ("x", "y", "a", last)),))
        for last in (ValueArg("n"), "n")
    )
    return candidate(f"copy-{megabytes:g}MB", problem, slow, fast)


def candidate(name: str, problem: Problem, slow: Side, fast: Side) -> Candidate:
    """A candidate of the benchmark's own."""
    return Candidate(
        id=f"benchmark/{name}",
        family=name,
        domain="benchmark",
        license=None,
        origin=Origin("curated"),
        techniques=(),
        description="",
        problem=problem,
        slow=slow,
        fast=fast,
    )


@contextlib.contextmanager
def timed_workers(judge: Judge, one: Candidate, seed: int) -> Iterator[tuple[Case, Stopwatch]]:
    """Both sides in fresh processes, verified and ready to be timed many times."""
    case = Case(one, store.candidate_key(one, protocol=PROTOCOL), judge.environment())
    compiled = judge._compile(case)
    sides = judge._take_workers(case)
    try:
        for side, running in sides.items():
            running.load(one, compiled[side])
        verification = verifying.Verification(case, sides, "slow", seed, judge._lock)
        job = verification.prepare_timing()
        for running in sides.values():
            judge._give_helpers(running)
        yield case, Stopwatch(sides, job, judge._known_calibration(), judge._lock)
    finally:
        for running in sides.values():
            running.worker.kill()
