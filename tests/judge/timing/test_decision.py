"""From verification to the verdict on a simulated clock (see `timed_rig`)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import small
from timed_rig import Clock, TimedJudge

from kcurate.judge import trials, verifying
from kcurate.records import Candidate, Outcome, Verdict
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


EVENTS, CHAIN, MIXED = (120.0, 60.0), (8.0, 4.0), (400.0, 4.0)


@pytest.mark.parametrize(
    ("name", "us"),
    [(name, EVENTS) for name in sorted(small.honest())]
    + [("scale", CHAIN), ("constant", CHAIN), ("atomics", CHAIN), ("while", CHAIN), ("scale", MIXED)],
)
def test_every_form_of_plan_is_timed(rig: TimedJudge, name: str, us: tuple[float, float]) -> None:
    verdict = judged(rig, at_bench(small.honest()[name]), *us)
    assert verdict.outcome is Outcome.CONFIRMED, (verdict.outcome, verdict.detail, verdict.log)
    assert verdict.speedup is not None
    assert {"bench_outputs", "timed_outputs", "timed_outputs_compared", "physics_floor"} <= set(
        verdict.checks
    )
    if name == "scale":
        assert verdict.speedup.ratio == pytest.approx(us[0] / us[1], rel=0.02)
        assert verdict.timing_method == {EVENTS: "events", CHAIN: "chain", MIXED: "events/chain"}[us]
        assert verdict.fast is not None
        assert verdict.fast.median_us == pytest.approx(us[1], rel=0.02)
        assert len(verdict.fast.samples_us) >= 20


def test_the_reference_worker_is_kept_for_the_next_candidate(rig: TimedJudge) -> None:
    first = at_bench(small.scaled("first"), 2001)
    judged(rig, first, *EVENTS)
    kept = rig.devices["slow"]
    renamed = replace(first.fast, code=first.fast.code.replace("a * x[i]", "x[i] * a"))
    assert judged(rig, replace(first, fast=renamed), *CHAIN).outcome is Outcome.CONFIRMED
    wrong = replace(first.fast, code=first.fast.code.replace("a * x[i]", "x[i] + a"))
    assert judged(rig, replace(first, fast=wrong), *CHAIN).outcome is Outcome.MISMATCH
    assert judged(rig, first, *EVENTS).outcome is Outcome.CONFIRMED
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
        ("scale", 4.0, 40),
        ("atomics", 60.0, 40),
        ("atomics", 4.0, 40),
    ],
)
def test_a_side_that_skips_timed_runs_gets_mismatch(
    rig: TimedJudge, name: str, fast_us: float, more: int
) -> None:
    candidate = at_bench(small.honest()[name])
    assert candidate.problem is not None
    untimed = [*trials.trials(candidate.problem, 0), *trials.bench_trials(candidate.problem, 0)]
    runs = verifying.REPEATS * (len(untimed) + trials.TIMED_SETS)
    verdict = judged(rig, candidate, 120.0, fast_us, lambda side, n: side == "fast" and n > runs + more)
    assert verdict.outcome is Outcome.MISMATCH, verdict.detail
    assert verdict.side == "fast"


def test_a_side_faster_than_bandwidth_allows_gets_mismatch(
    rig: TimedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judged(rig, at_bench(small.scaled()), 60.0, 1.0).outcome is Outcome.CONFIRMED
    monkeypatch.setattr(rig, "bandwidth", 1e9)
    assert judged(rig, at_bench(small.scaled()), 60.0, 1.0).outcome is Outcome.CONFIRMED
    monkeypatch.setattr(Clock, "l2_bytes", 1000)  # 12,000 bytes of output no longer fit
    verdict = judged(rig, at_bench(small.scaled()), 60.0, 1.0)
    assert verdict.outcome is Outcome.MISMATCH
    assert "faster than memory bandwidth allows" in verdict.detail


def test_writing_to_our_memory_during_timing_gets_mismatch(rig: TimedJudge) -> None:
    def stray(side: SideName, number: int) -> bool:
        if side == "fast" and number == 60:
            device = rig.devices["fast"]
            ours = [memory for memory, _, _ in device._memories._mapped.values() if memory.size_bytes == 4096]
            device.fill(ours[0], 100, 1, b"\x00")
        return False

    verdict = judged(rig, at_bench(small.scaled()), 60.0, 30.0, stray)
    assert verdict.outcome is Outcome.MISMATCH
    assert "outside its buffers" in verdict.detail


def test_no_chain_is_used_when_free_memory_is_short(rig: TimedJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(rig, at_bench(small.scaled()), *CHAIN).timing_method == "chain"
    monkeypatch.setattr(Clock, "device_bytes", 1 << 20)
    assert judged(rig, at_bench(small.scaled()), *CHAIN).timing_method == "events"
