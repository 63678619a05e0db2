"""What real kernels do that a naive harness trips over, on small kernels of our own, judged on the emulator.

Pointers in memory are tried in `tests/judge/workers/test_pointer_tables.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.records import (
    Buffer,
    Candidate,
    For,
    Init,
    Launch,
    Origin,
    Outcome,
    Problem,
    Side,
    Sizes,
    Step,
    Tolerance,
    Upload,
)

SIZES = Sizes(({"n": 200}, {"n": 64}), {"n": 4096})


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    one = Judge(JudgeConfig(backend="emulator"))
    yield one
    one.close()


def itself(problem: Problem, code: str, *plan: Step) -> Candidate:
    side = Side(code, plan)
    return Candidate("trap", "trap", "trap", None, Origin("curated"), (), "", problem, side, side)


# The last step sums what other threads may not have written yet; `twice` does not depend on it.
RACE = """
__global__ void race(const float* x, float* twice, float* sums, int n) {
    int at = blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) twice[at + i] = 2.0f * x[at + i];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 7) sum += twice[at + i];
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


def test_a_race_in_the_original_refuses_only_what_depends_on_it(judge: Judge) -> None:
    problem = Problem(
        SIZES,
        {
            "x": Buffer("float32", (3, "n"), Init("normal", {"mean": 1})),
            "twice": Buffer("float32", (3, "n"), role="out"),
            "sums": Buffer("float32", (3, 32), role="out", tolerance=Tolerance("n")),
        },
    )
    launch = Launch("race", (3,), (32,), ("x", "twice", "sums", "n"))
    verdict = judge.judge(itself(problem, RACE, launch))
    assert verdict.outcome in (Outcome.NONDETERMINISTIC, Outcome.MISMATCH)
    assert "sums" in verdict.detail
    apart = {**problem.buffers, "sums": replace(problem.buffers["sums"], role="scratch", tolerance=None)}
    assert judge.judge(itself(replace(problem, buffers=apart), RACE, launch)).outcome is Outcome.CORRECT


HALO = """
__global__ void slope(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float before = x[i - 1], after = x[i + 1];
    if (i == 0) before = x[0];
    if (i == n - 1) after = x[n - 1];
    y[i] = after - before;
}
"""


def test_reads_beside_a_buffer_are_allowed_where_it_has_a_pad(judge: Judge) -> None:
    problem = Problem(
        SIZES,
        {
            "x": Buffer("float32", ("n",), Init("normal"), pad=(1, 1)),
            "y": Buffer("float32", ("n",), role="out", tolerance=Tolerance(2)),
        },
    )
    launch = Launch("slope", ("ceil_div(n, 64)",), (64,), ("x", "y", "n"))
    assert judge.judge(itself(problem, HALO, launch)).outcome is Outcome.CORRECT
    used = HALO.replace("if (i == n - 1)", "if (false)")
    wrong = replace(itself(problem, HALO, launch), fast=Side(used, (launch,)))
    assert judge.judge(wrong).outcome is Outcome.MISMATCH


TILED = """
__constant__ float tile[16];
__global__ void weigh(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) for (int k = 0; k < 16; ++k) y[i] += tile[k] * x[i];
}
"""


def test_constants_may_be_uploaded_again_in_a_loop(judge: Judge) -> None:
    problem = Problem(
        SIZES,
        {
            "weights": Buffer("float32", (4, 16), Init("uniform", {"low": 1, "high": 2})),
            "x": Buffer("float32", ("n",), Init("normal", {"mean": 1})),
            "y": Buffer("float32", ("n",), role="inout", tolerance=Tolerance(64)),
        },
    )
    launch = Launch("weigh", ("ceil_div(n, 64)",), (64,), ("x", "y", "n"))
    plan = For("t", 4, (Upload("tile", "weights", "16*t", 0, 16), launch))
    assert judge.judge(itself(problem, TILED, plan)).outcome is Outcome.CORRECT
    stale = (Upload("tile", "weights", 0, 0, 16), For("t", 4, (launch,)))
    wrong = replace(itself(problem, TILED, plan), fast=Side(TILED, stale))
    assert judge.judge(wrong).outcome is Outcome.MISMATCH


# Blocks wait for each other on a counter that is never set back: a second run must start from zero again.
COUNTED = """
__device__ volatile int arrived;
__global__ void stages(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1.0f;
    if (threadIdx.x == 0) atomicAdd((int*)&arrived, 1);
    if (i == 0) x[0] += arrived > (int)gridDim.x ? 100.0f : 0.0f;
}
"""


def test_a_counter_that_is_never_reset_starts_at_its_initial_value_in_each_run(judge: Judge) -> None:
    problem = Problem(
        SIZES,
        {
            "x": Buffer("float32", ("n",), Init("normal"), role="inout"),
            "zero": Buffer("int32", (1,), Init("zeros")),
        },
    )
    launch = Launch("stages", ("ceil_div(n, 64)",), (64,), ("x", "n"))
    assert judge.judge(itself(problem, COUNTED, launch)).outcome is Outcome.STATIC_REJECT
    verdict = judge.judge(itself(problem, COUNTED, Upload("arrived", "zero"), launch))
    assert verdict.outcome is Outcome.CORRECT, verdict.detail
