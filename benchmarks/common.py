"""Kernels, candidates and loops that the judge's benchmarks share."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate.core import store
from kcurate.judge.judging import JudgeConfig
from kcurate.judge.referees.batch import judge_many
from kcurate.judge.timing.a_against_a import THREADS
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
    Verdict,
)
from kcurate.verdicts.keys import verdict_key

COPY = """
extern "C" __global__ void work(const float4* x, float4* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float4 v = x[i];
        y[i] = make_float4(v.x * a, v.y * a, v.z * a, v.w * a);
    }
}
"""


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


def latest(rows: Path) -> dict[str, Verdict]:
    """The last verdict of each key."""
    return {row.key: row for row in store.read_jsonl(rows, Verdict)} if rows.exists() else {}


def judged_on_gpus(
    candidates: Mapping[str, Candidate], rows: Path, *, gpus: str, jobs: int, seconds: float
) -> Iterator[tuple[str, Verdict]]:
    """Judge candidates on `gpus` ("0,1"), and append each verdict to `rows` before it is handed out.

    No new one is asked for after `seconds`; the judging processes end then.
    """
    started = time.monotonic()
    numbers = tuple(map(int, gpus.split(",")))
    names = {verdict_key(candidate): name for name, candidate in candidates.items()}
    verdicts = judge_many(
        list(enumerate(candidates.values())), JudgeConfig("cuda", numbers[0]), gpus=numbers, jobs=jobs
    )
    with closing(verdicts):
        for _, verdict in verdicts:
            store.append_jsonl(rows, verdict)
            yield names[verdict.key], verdict
            if time.monotonic() - started > seconds:
                return
