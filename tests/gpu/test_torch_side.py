"""A reference in eager PyTorch on a real GPU: judged and timed by the same protocol as any other side."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch_modules as ours

from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.records import Call, Candidate, Outcome

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with contextlib.closing(Judge(JudgeConfig("cuda", calibrate=False, torch=True))) as one:
        yield one


def one_pass(candidate: Candidate) -> Candidate:
    """The same task where eager PyTorch needs one kernel only: nothing is left to win."""
    slow = replace(candidate.slow, code=candidate.slow.code.replace("x * self.weight + factor", "x * factor"))
    code = candidate.fast.code.replace("x[i] * weight[i % width] + factor", "x[i] * factor")
    call = Call("Model", ("x", "factor"), ("out",))
    slow = replace(slow, code=slow.code.replace("torch.rand(width)", "torch.zeros(1)"), plan=(call,))
    return replace(candidate, slow=slow, fast=replace(candidate.fast, code=code))


def test_a_fused_answer_beats_two_eager_kernels(judge: Judge) -> None:
    verdict = judge.judge(ours.scaled_candidate(rows=8192, width=4096))
    assert verdict.outcome is Outcome.CONFIRMED, (verdict.detail, verdict.log)
    assert verdict.speedup is not None
    assert 1.3 < verdict.speedup.ratio < 5.0
    assert verdict.timing_method == "events"


def test_the_host_s_part_of_an_eager_call_is_not_timed(judge: Judge) -> None:
    verdict = judge.judge(one_pass(ours.scaled_candidate(rows=1024, width=1024)))
    assert verdict.outcome.correct, (verdict.detail, verdict.log)
    assert verdict.slow is not None and verdict.slow.median_us is not None
    assert verdict.slow.median_us < 15.0  # 8 MiB are moved in some 3 us; Python takes longer than that alone


def test_wrong_answers_are_found_on_the_gpu_too(judge: Judge) -> None:
    for wrong in ("x[i]", "0.0f"):
        code = ours.SCALED_CODE.replace("x[i] * weight[i % width] + factor", wrong)
        verdict = judge.judge(ours.scaled_candidate(replace(ours.ANSWERS["scaled"], code=code)))
        assert (verdict.outcome, verdict.side) == (Outcome.MISMATCH, "fast"), verdict.detail
