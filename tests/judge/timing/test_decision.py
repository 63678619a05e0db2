"""From verification to the verdict on a simulated clock (see `timed_rig`)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import small
from timed_rig import Clock, TimedJudge

from kcurate.judge import trials
from kcurate.judge.workers.inside.bench_slots import BenchSlots
from kcurate.judge.workers.requests import Hide, HideAnswer, Reply
from kcurate.problem.inputs.contents import generate
from kcurate.problem.inputs.counter_based import quantiles
from kcurate.records import (
    BenchSize,
    Buffer,
    Candidate,
    Fill,
    Init,
    Launch,
    Outcome,
    Problem,
    Side,
    Sizes,
    Tolerance,
    Verdict,
)
from kcurate.records.pair import SideName


def at_bench(candidate: Candidate, n: int = 3000) -> Candidate:
    assert candidate.problem is not None
    sizes = replace(candidate.problem.sizes, bench={"n": n})
    return replace(candidate, problem=replace(candidate.problem, sizes=sizes))


@pytest.fixture(scope="module")
def rig() -> Iterator[TimedJudge]:
    with contextlib.closing(TimedJudge()) as one:
        yield one


def judged(
    rig: TimedJudge,
    candidate: Candidate,
    slow_us: float,
    fast_us: float,
    skip: Callable[[SideName, int], bool] = lambda side, number: False,
) -> Verdict:
    rig.us, rig.skip = {"slow": slow_us, "fast": fast_us}, skip
    return rig.judge(candidate)


def verified_runs(candidate: Candidate) -> int:
    """How often a side runs before it is timed."""
    problem = candidate.problem
    assert problem is not None
    small = list(trials.trials(problem, 0))
    at_bench = [*trials.bench_trials(problem, 0), *trials.timed_trials(problem, 0)]
    literals = trials.literal_trials(problem, (candidate.slow, candidate.fast), 0)
    # Once more for each trial that runs several times, with a few elements of its inputs changed, and where
    # there is an earlier one of the same sizes also on its inputs.
    sizes = [tuple(trial.sizes.items()) for trial in small]
    several = [number for number, trial in enumerate(small) if trial.runs > 1]
    again = len(several) + sum(sizes[number] in sizes[:number] for number in several)
    return sum(trial.runs for trial in (*small, *literals, *at_bench)) + again


TIMES, SHORT = (120.0, 60.0), (12.0, 6.0)


@pytest.mark.parametrize(
    ("name", "us"),
    [(name, TIMES) for name in sorted(small.honest())] + [("scale", SHORT), ("atomics", SHORT)],
)
def test_every_form_of_plan_is_timed(rig: TimedJudge, name: str, us: tuple[float, float]) -> None:
    verdict = judged(rig, at_bench(small.honest()[name]), *us)
    assert verdict.outcome is Outcome.CONFIRMED, (verdict.outcome, verdict.detail, verdict.log)
    assert verdict.speedup is not None
    assert {"bench_outputs", "timed_outputs", "physics_floor"} <= set(verdict.checks)
    if name == "scale":
        assert verdict.speedup.ratio == pytest.approx(us[0] / us[1], rel=0.02)
        assert verdict.fast is not None
        assert verdict.fast.median_us == pytest.approx(us[1], rel=0.02)
        assert len(verdict.fast.samples_us) >= 8
        details = verdict.environment.details
        moved = 2 * 4 * 3000 / (us[1] * 1e-6) / 1e12
        assert details["fast_copy_fraction"] == pytest.approx(moved, rel=0.05)
        assert isinstance(details["timed_runs"], int) and details["timed_runs"] >= 40


def test_what_our_kernels_say_is_held_against_copies_by_the_driver(
    rig: TimedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A side that could change our kernels in its memory would have them say that everything is as it was."""
    monkeypatch.setattr(Clock, "fingerprint", lambda *_: None)
    one = at_bench(small.scaled())
    assert one.problem is not None
    assert judged(rig, one, *TIMES).outcome is Outcome.CONFIRMED
    at_bench_size = [*trials.bench_trials(one.problem, 0), *trials.timed_trials(one.problem, 0)]
    in_tests = verified_runs(one) - sum(trial.runs for trial in at_bench_size)
    for first, what in ((in_tests, "not what was compared"), (verified_runs(one), "timed run")):
        verdict = judged(rig, one, *TIMES, lambda side, n, at=first: side == "fast" and n > at)
        assert verdict.outcome is Outcome.MISMATCH
        assert what in verdict.detail


def test_every_named_bench_size_is_verified_and_timed(rig: TimedJudge) -> None:
    one = small.scaled()
    assert one.problem is not None
    named = (BenchSize("large", {"n": 3000}, headline=True), BenchSize("one", {"n": 1}))
    sized = replace(one, problem=replace(one.problem, sizes=replace(one.problem.sizes, bench=named)))
    verdict = judged(rig, sized, *TIMES)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.detail
    (other,) = verdict.sizes
    assert (other.name, other.outcome) == ("one", Outcome.CONFIRMED)
    assert other.slow_us == pytest.approx(TIMES[0], rel=0.02)
    assert other.speedup is not None
    assert other.speedup.ratio == pytest.approx(2.0, rel=0.02)
    wrong = replace(sized.fast, code=sized.fast.code.replace("a * x[i]", "n == 1 ? 0.0f : a * x[i]"))
    verdict = judged(rig, replace(sized, fast=wrong), *TIMES)
    assert (verdict.outcome, verdict.side) == (Outcome.MISMATCH, "fast")
    assert "n=1" in verdict.detail


def test_the_reference_worker_is_kept_for_the_next_candidate(rig: TimedJudge) -> None:
    first = at_bench(small.scaled("first"), 2001)
    judged(rig, first, *TIMES)
    kept = rig.devices["slow"]
    renamed = replace(first.fast, code=first.fast.code.replace("a * x[i]", "x[i] * a"))
    assert judged(rig, replace(first, fast=renamed), *SHORT).outcome is Outcome.CONFIRMED
    wrong = replace(first.fast, code=first.fast.code.replace("a * x[i]", "x[i] + a"))
    assert judged(rig, replace(first, fast=wrong), *SHORT).outcome is Outcome.MISMATCH
    assert judged(rig, first, *TIMES).outcome is Outcome.CONFIRMED
    assert rig.devices["slow"] is kept
    assert len(kept._memories._mapped) < 20  # earlier candidates' memory has been freed


def test_equal_times_get_not_faster(rig: TimedJudge) -> None:
    for slow_us in (50.0, 50.5, 30.0):
        assert judged(rig, at_bench(small.scaled()), slow_us, 50.0).outcome is Outcome.NOT_FASTER


@pytest.mark.parametrize(
    ("name", "fast_us", "more"),
    [
        ("scale", 60.0, 0),
        ("scale", 60.0, 40),
        ("atomics", 60.0, 40),
    ],
)
def test_a_side_that_skips_timed_runs_gets_mismatch(
    rig: TimedJudge, name: str, fast_us: float, more: int
) -> None:
    candidate = at_bench(small.honest()[name])
    assert candidate.problem is not None
    runs = verified_runs(candidate)
    verdict = judged(rig, candidate, 120.0, fast_us, lambda side, n: side == "fast" and n > runs + more)
    assert verdict.outcome is Outcome.MISMATCH, verdict.detail
    assert verdict.side == "fast"


def test_a_side_faster_than_bandwidth_allows_gets_mismatch(
    rig: TimedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judged(rig, at_bench(small.scaled()), 60.0, 6.0).outcome is Outcome.CONFIRMED
    monkeypatch.setattr(rig, "bandwidth", 1e9)
    assert judged(rig, at_bench(small.scaled()), 60.0, 6.0).outcome is Outcome.CONFIRMED
    monkeypatch.setattr(Clock, "l2_bytes", 1000)  # 12,000 bytes of output no longer fit
    verdict = judged(rig, at_bench(small.scaled()), 60.0, 6.0)
    assert verdict.outcome is Outcome.MISMATCH
    assert "faster than memory bandwidth allows" in verdict.detail


@pytest.mark.parametrize(("later", "size_bytes"), [(0, 4 * 3000), (20, quantiles().nbytes)])
def test_writing_to_our_memory_gets_mismatch(rig: TimedJudge, later: int, size_bytes: int) -> None:
    """To the copies of inputs before any run is timed, and to a table while runs are timed."""
    candidate = at_bench(small.scaled())
    number = verified_runs(candidate) + later

    def stray(side: SideName, launched: int) -> bool:
        if side == "fast" and launched == number:
            device = rig.devices["fast"]
            ours = [one for one, _, _ in device._memories._mapped.values() if one.size_bytes == size_bytes]
            assert ours
            for memory in ours:
                device.fill(memory, 100, 1, b"\x00")
        return False

    verdict = judged(rig, candidate, 60.0, 30.0, stray)
    assert verdict.outcome is Outcome.MISMATCH
    assert "outside its buffers" in verdict.detail


def test_writing_between_buffers_gets_mismatch(rig: TimedJudge) -> None:
    """Far from any buffer; two places, since one may lie in an output."""
    candidate = at_bench(small.scaled())

    def stray(side: SideName, launched: int) -> bool:
        if side == "fast" and launched == verified_runs(candidate):
            device = rig.devices["fast"]
            arena = max(
                (memory for memory, _, _ in device._memories._mapped.values()), key=lambda m: m.size_bytes
            )
            device.fill(arena, arena.size_bytes - 8, 8, b"\x00")
            device.fill(arena, 0, 8, b"\x00")
        return False

    verdict = judged(rig, candidate, 60.0, 30.0, stray)
    assert verdict.outcome is Outcome.MISMATCH
    assert "outside its buffers" in verdict.detail


@pytest.mark.parametrize("order", ["exact", "any"])
def test_outputs_whose_rounding_may_differ_are_compared_in_every_run(rig: TimedJudge, order: str) -> None:
    one = at_bench(small.honest()["atomics"])
    assert one.problem is not None
    buffers = {
        name: replace(buffer, tolerance=replace(buffer.tolerance or Tolerance(), order=order))
        if buffer.role == "out"
        else buffer
        for name, buffer in one.problem.buffers.items()
    }
    one = replace(one, problem=replace(one.problem, buffers=buffers))
    runs = verified_runs(one)
    assert judged(rig, one, 120.0, 60.0).outcome is Outcome.CONFIRMED
    for skipped in (1, 17, 40):
        verdict = judged(rig, one, 120.0, 60.0, lambda side, n, at=skipped: side == "fast" and n == runs + at)
        assert verdict.outcome is Outcome.MISMATCH, (skipped, verdict.detail)
        assert "timed run's outputs differ" in verdict.detail


def test_eight_blocks_are_enough_for_long_sides(rig: TimedJudge) -> None:
    verdict = judged(rig, at_bench(small.scaled()), 200_000.0, 100_000.0)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.detail
    assert verdict.speedup is not None
    assert verdict.speedup.blocks == 8


def test_no_two_hidden_copies_have_the_same_key(rig: TimedJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them would show the xor of two outputs."""
    used: list[tuple[int, int]] = []
    hide = BenchSlots.hide

    def noted(self: BenchSlots, asked: Hide, blobs: dict[str, Any]) -> Reply[HideAnswer]:
        used.extend(asked.hiding.values())
        return hide(self, asked, blobs)

    monkeypatch.setattr(BenchSlots, "hide", noted)
    judged(rig, at_bench(small.honest()["atomics"]), *TIMES)
    assert len(used) > 1
    assert len(set(used)) == len(used)


COUNT = """
__global__ void count(const int* x, int* counts, int n) {
    __shared__ unsigned NARROW counted[8];
    if (threadIdx.x < 8) counted[threadIdx.x] = 0;
    __syncthreads();
    int part = n / gridDim.x, first = blockIdx.x * part;
    int last = blockIdx.x + 1 == gridDim.x ? n : first + part;
    if (threadIdx.x < 8) for (int i = first; i < last; ++i) counted[threadIdx.x] += x[i] == threadIdx.x;
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(counts + threadIdx.x, (int)counted[threadIdx.x]);
}
"""


@pytest.mark.parametrize(("narrow", "outcome"), [("char", Outcome.MISMATCH), ("short", Outcome.CONFIRMED)])
def test_narrow_counters_of_long_parts_overflow_at_the_bench_size(
    rig: TimedJudge, narrow: str, outcome: Outcome
) -> None:
    """None of 256 elements a block overflows at a test size, nor of the nominal inputs of the bench size."""
    problem = Problem(
        Sizes(({"n": 300}, {"n": 777}), {"n": 4096}),
        {
            "x": Buffer("int32", ("n",), Init("integers", {"high": 8})),
            "counts": Buffer("int32", (8,), role="out"),
        },
    )
    plan = (Fill("counts"), Launch("count", (4,), (32,), ("x", "counts", "n")))
    slow, fast = (Side(COUNT.replace("NARROW", kind), plan) for kind in ("int", narrow))
    verdict = judged(rig, small.candidate("count", problem, slow, fast), *TIMES)
    assert verdict.outcome is outcome, verdict.detail
    if outcome is Outcome.MISMATCH:
        assert "integers-high inputs" in verdict.detail


def test_floats_beside_integers_stay_nominal_at_the_bench_size() -> None:
    sizes = {"n": 500}
    x, y = (
        Buffer("int32", ("n",), Init("integers", {"high": 900})),
        Buffer("float32", ("n",), Init("uniform")),
    )
    problem = Problem(Sizes((sizes,), sizes), {"x": x, "y": y})
    named = [trial.variation for trial in trials.bench_trials(problem, 1)]
    assert named == ["integers-high", "integers-alike", "structured"]
    nominal, alike = (generate(problem, None, sizes, 1, name) for name in ("nominal", "integers-alike"))
    assert len(set(alike["x"].tolist())) == 1
    assert (nominal["y"] == alike["y"]).all()
    only = replace(problem, buffers={"x": replace(x, promises=("distinct",)), "y": y})
    assert [trial.variation for trial in trials.bench_trials(only, 1)] == ["integers-high", "structured"]
    assert len(trials.bench_trials(problem, 1, BenchSize("other", sizes))) == 1
