"""The judge from candidate to verdict on the emulator, without fakes."""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import small

from kcurate.core import time_limits
from kcurate.judge import judging as judge_module
from kcurate.judge import verifying
from kcurate.judge.judging import Judge, JudgeConfig, judge, reference_side
from kcurate.judge.referees import batch
from kcurate.judge.workers.nursery import Worker
from kcurate.judge.workers.protocol import Frame
from kcurate.judge.workers.requests import Request, Run, RunAnswer
from kcurate.records import Buffer, Init, Launch, Origin, Outcome, Problem, Side, Sizes

CONFIG = JudgeConfig("emulator", spares=1)


@pytest.fixture(scope="module")
def one() -> Iterator[Judge]:
    with contextlib.closing(Judge(CONFIG)) as made:
        yield made


@pytest.mark.parametrize("name", sorted(small.honest()))
def test_every_form_of_plan_is_judged_correct(one: Judge, name: str) -> None:
    verdict = one.judge(small.honest()[name])
    assert verdict.outcome is Outcome.CORRECT, (verdict.detail, verdict.log)
    assert {"plan", "compile", "outputs", "poison", "redzones", "inputs_intact", "controls"} <= set(
        verdict.checks
    )
    assert verdict.slow is not None and verdict.slow.binary_sha256
    assert len(set(verdict.seeds)) == len(verdict.seeds) > 3


@pytest.mark.parametrize("name", sorted(small.wrong()))
def test_wrong_sides_are_refused_and_named(one: Judge, name: str) -> None:
    candidate, outcomes = small.wrong()[name]
    verdict = one.judge(candidate)
    assert verdict.outcome in outcomes, (verdict.detail, verdict.log)
    assert verdict.side == "fast"
    assert verdict.detail


@pytest.mark.slow
def test_seeds_are_fresh_unless_fixed(one: Judge) -> None:
    candidate = small.scaled()
    assert one.judge(candidate).seeds != one.judge(candidate).seeds
    fixed = replace(CONFIG, seed=5)
    assert judge(candidate, fixed).seeds == judge(candidate, fixed).seeds


def test_the_side_that_was_not_generated_is_the_reference() -> None:
    candidate = small.scaled()
    assert reference_side(candidate) == "slow"
    for made, reference in (("slow", "fast"), ("fast", "slow")):
        origin = Origin("model", made=made)  # type: ignore[arg-type]
        assert reference_side(replace(candidate, origin=origin)) == reference


def test_elements_that_neither_side_writes_are_found(one: Judge) -> None:
    lazy = small.SCALE.replace("if (i < n)", "if (i < n && i != 3)")
    lazy_chunks = small.SCALE_STRIDED.replace("y[i] = a * x[i];", "if (i != 3) y[i] = a * x[i];")
    both = small.candidate(
        "lazy", small.problem(), Side(lazy_chunks, (small.CHUNKED,)), Side(lazy, (small.EACH,))
    )
    assert one.judge(both).outcome in (Outcome.MISMATCH, Outcome.NONDETERMINISTIC)


def test_a_problem_that_accepts_zeros_is_too_weak(one: Judge) -> None:
    nothing = """extern "C" __global__ void find(const float* x, int* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] > 100.0f ? 1 : 0; }"""
    problem = Problem(
        Sizes(({"n": 300}, {"n": 7}), {"n": 1000}),
        {"x": Buffer("float32", ("n",), Init("uniform")), "y": Buffer("int32", ("n",), role="out")},
    )
    plan = (Launch("find", ("ceil_div(n, 64)",), (64,), ("x", "y", "n")),)
    verdict = one.judge(small.candidate("weak", problem, Side(nothing, plan), Side(nothing + "\n", plan)))
    assert verdict.outcome is Outcome.MALFORMED
    assert "zeros" in verdict.detail


def test_a_weak_problem_is_refused_after_a_strong_one_with_the_same_buffers(one: Judge) -> None:
    plan = (small.EACH,)
    always = small.SCALE.replace("a * x[i]", "a")
    assert one.judge(small.twice("scaled", small.problem(), small.SCALE, plan)).outcome is Outcome.CORRECT
    verdict = one.judge(small.twice("always", small.problem(), always, plan))
    assert verdict.outcome is Outcome.MALFORMED, verdict.detail
    assert "too weak for a constant" in verdict.detail


def test_a_copy_is_a_right_answer_but_an_output_left_alone_is_none(one: Judge) -> None:
    started = small.problem(y=Buffer("float32", ("n",), Init("uniform"), "inout"))
    for name, value, outcome in (
        ("copied", "x[i]", Outcome.CORRECT),
        ("left", "x[i] > 100.0f ? x[i] : y[i]", Outcome.MALFORMED),
    ):
        code = small.SCALE.replace("a * x[i]", value)
        verdict = one.judge(small.twice(name, started, code, (small.EACH,)))
        assert verdict.outcome is outcome, verdict.detail
    assert "outputs left as they were" in verdict.detail
    added = small.SCALE.replace("y[i] = a", "y[i] += a")
    assert one.judge(small.twice("added", started, added, (small.EACH,))).outcome is Outcome.CORRECT


def test_a_reference_that_never_ends_without_an_input_is_still_controlled(
    one: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the runs without an input are left out when the judgement starts over."""
    monkeypatch.setattr(time_limits, "WITHOUT_INPUT_S", 1.0)
    count = "int zeros = 0; for (int j = 0; j < n; ++j) zeros += x[j] == 0.0f;"
    loop = f"{count} while (zeros == n) __threadfence();"
    waits = small.SCALE.replace("if (i < n) y[i] = a * x[i];", f"if (i < n) {{ {loop} y[i] = a * x[i]; }}")
    assert waits != small.SCALE
    x = Buffer("float32", ("n",), Init("uniform", {"low": -1.0, "high": 1.0}))
    problem = small.problem(x=x)
    verdict = one.judge(small.twice("waits", problem, waits, (small.EACH,)))
    assert verdict.outcome is Outcome.CORRECT, verdict.detail
    assert {"controls", "spoiled_inputs"} <= set(verdict.checks)
    assert {what for _, what in one._failed_runs} == {"without"}


def test_negative_controls_run_once_per_reference(one: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def weakness(what: Problem, *_: object) -> None:
        tried.append("once")

    monkeypatch.setattr(judge_module.negative_controls, "weakness", weakness)
    reference = Side(small.SCALE_STRIDED + "// tried once\n", (small.CHUNKED,))
    for name in ("one", "another"):
        fast = Side(small.SCALE + f"// {name}\n", (small.EACH,))
        verdict = one.judge(small.candidate(name, small.problem(), reference, fast))
        assert verdict.outcome is Outcome.CORRECT, verdict.detail
    assert tried == ["once"]


def test_inputs_that_cannot_be_generated_make_the_problem_malformed(one: Judge) -> None:
    candidate = small.scaled()
    assert candidate.problem is not None
    captured = Buffer("float32", ("n",), Init("file", {"path": "/nowhere/values.npz"}))
    problem = replace(candidate.problem, buffers={**candidate.problem.buffers, "x": captured})
    verdict = one.judge(replace(candidate, problem=problem))
    assert verdict.outcome is Outcome.MALFORMED, (verdict.outcome, verdict.detail, verdict.log)


def test_a_crash_names_its_side_and_the_next_candidate_is_judged(one: Judge) -> None:
    wild = small.SCALE.replace("y[i] =", "y[(long long)i * 100000000000LL + 4000000000000LL] =")
    verdict = one.judge(small.scaled("wild", wild))
    assert verdict.outcome in (Outcome.LAUNCH_ERROR, Outcome.MISMATCH)
    assert verdict.side == "fast"
    assert one.judge(small.scaled()).outcome is Outcome.CORRECT


def test_the_reference_time_sets_the_trial_limit(one: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def trial_limit_s(backend: str, reference_s: float) -> float:
        assert backend == "emulator"
        waited.append(reference_s)
        return 0.8

    monkeypatch.setattr(verifying, "trial_limit_s", trial_limit_s)
    spin = small.SCALE.replace("if (i < n)", "while (*(volatile const float*)x != 1e30f) ; if (i < n)")
    verdict = one.judge(small.scaled("spin", spin))
    assert (verdict.outcome, verdict.side) == (Outcome.TIMEOUT, "fast"), verdict.detail
    assert verdict.detail == "no answer within 1 s"
    assert waited and waited[0] < 20
    assert one.judge(small.scaled()).outcome is Outcome.CORRECT


def test_the_trial_limit_has_a_minimum_and_applies_to_gpus_only() -> None:
    assert verifying.trial_limit_s("cuda", 0.002) == time_limits.TRIAL_S
    assert verifying.trial_limit_s("cuda", 0.05) == pytest.approx(15.0)
    assert verifying.trial_limit_s("emulator", 0.05) == math.inf


def test_the_judge_retries_when_a_worker_is_killed(one: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request[Any]] = []
    original = Worker.ask

    def ask(self: Worker, request: Request[Any], blobs: Any = None) -> None:
        original(self, request, blobs)
        if isinstance(request, Run) and not asked:
            asked.append(request)
            os.kill(self.pid, signal.SIGKILL)

    monkeypatch.setattr(Worker, "ask", ask)
    verdict = one.judge(small.scaled())
    assert asked
    assert verdict.outcome is Outcome.CORRECT, verdict.detail


@pytest.mark.parametrize("times", [1, 3])
def test_full_memory_is_not_the_candidates_fault(
    one: Judge, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    full: list[Any] = []
    original = Worker.answer

    def answer(self: Worker, *limits: Any) -> Any:
        found = original(self, *limits)
        if isinstance(found.body, RunAnswer) and len(full) < times:
            full.append(found)
            told = Frame({"fault": "out_of_memory", "what": "out of memory"}, {})
            monkeypatch.setattr(self.channel, "receive", lambda *_, **__: told)
            self._frame(1.0)
        return found

    monkeypatch.setattr(Worker, "answer", answer)
    verdict = one.judge(small.scaled())
    assert len(full) == times
    assert verdict.outcome is (Outcome.CORRECT if times == 1 else Outcome.HARNESS_ERROR), verdict.detail


def test_a_judge_with_a_dead_nursery_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    nurseries: list[int] = []
    original = Judge._decide

    def decide(self: Judge, case: object) -> object:
        if not nurseries:
            nurseries.append(self._nursery._process.pid)
            os.kill(nurseries[0], signal.SIGKILL)
            self._nursery._process.wait()
        return original(self, case)  # type: ignore[arg-type]

    monkeypatch.setattr(judge_module.Judge, "_decide", decide)
    todo = [(i, small.scaled(f"s{i}")) for i in range(2)]
    done = dict(batch.judge_many(todo, CONFIG, gpus=(0,), jobs=1))
    assert nurseries
    assert [done[i].outcome for i in range(2)] == [Outcome.CORRECT] * 2


def test_a_judge_with_a_dead_nursery_returns_harness_error() -> None:
    with contextlib.closing(Judge(CONFIG)) as judge:
        judge.judge(small.scaled())  # so that the pool wants another worker
        os.kill(judge._nursery._process.pid, signal.SIGKILL)
        judge._nursery._process.wait()
        found = [judge.judge(small.scaled()).outcome for _ in range(3)]  # living workers may still answer
        assert found[-1] is Outcome.HARNESS_ERROR
        assert not judge.usable


@pytest.mark.slow
def test_several_referees_judge_many_candidates() -> None:
    todo = [(i, small.scaled(f"s{i}")) for i in range(4)]
    todo.append((4, small.wrong()["wrong_everywhere"][0]))
    done = dict(batch.judge_many(todo, CONFIG, gpus=(0,), jobs=2))
    assert [done[i].outcome for i in range(5)] == [Outcome.CORRECT] * 4 + [Outcome.MISMATCH]
