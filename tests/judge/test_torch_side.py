"""A PyTorch reference on the emulator gets the same outcomes as device code; no other side may be PyTorch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch_modules as ours
from timed_rig import TimedJudge

from kcurate.backends.cuda.driver import NotCapturable
from kcurate.backends.torch_module import Forward
from kcurate.core import store
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.records import Call, Origin, Outcome, Side

CONFIG = JudgeConfig("emulator", spares=1, torch=True)


@pytest.fixture(scope="module")
def one() -> Iterator[Judge]:
    with contextlib.closing(Judge(CONFIG)) as made:
        yield made


def test_a_correct_answer_gets_correct(one: Judge) -> None:
    verdict = one.judge(ours.scaled_candidate())
    assert verdict.outcome is Outcome.CORRECT, (verdict.detail, verdict.log)
    assert {"outputs", "poison", "redzones", "inputs_intact", "controls"} <= set(verdict.checks)
    assert verdict.slow is not None and verdict.slow.binary_sha256


@pytest.mark.parametrize("wrong", ["x[i] + factor", "0.0f", "x[i] * weight[i % width]"])
def test_wrong_answers_get_mismatch(one: Judge, wrong: str) -> None:
    code = ours.SCALED_CODE.replace("x[i] * weight[i % width] + factor", wrong)
    verdict = one.judge(ours.scaled_candidate(replace(ours.ANSWERS["scaled"], code=code)))
    assert (verdict.outcome, verdict.side) == (Outcome.MISMATCH, "fast"), verdict.detail


def test_a_pytorch_side_needs_permission() -> None:
    with contextlib.closing(Judge(replace(CONFIG, torch=False))) as strict:
        verdict = strict.judge(ours.scaled_candidate())
    assert (verdict.outcome, verdict.side) == (Outcome.HARNESS_ERROR, "slow")
    assert not verdict.outcome.final


def test_an_answer_cannot_be_pytorch(one: Judge) -> None:
    candidate = ours.scaled_candidate()
    verdict = one.judge(replace(candidate, fast=candidate.slow))
    assert verdict.outcome is Outcome.MALFORMED
    assert "only be the reference" in verdict.detail


def test_an_answer_cannot_call_pytorch(one: Judge) -> None:
    call = Call("Model", ("x", "factor"), ("out",), {"weight": "weight"})
    answer = Side(ours.SCALED_CODE, (*ours.ANSWERS["scaled"].plan, call))
    verdict = one.judge(ours.scaled_candidate(answer))
    assert verdict.outcome is Outcome.MALFORMED
    assert "device code" in verdict.detail


def test_a_generated_side_cannot_be_pytorch(one: Judge) -> None:
    candidate = replace(ours.scaled_candidate(), origin=Origin("model", made="slow"))
    assert one.judge(candidate).outcome is Outcome.MALFORMED


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("x * self.weight", "x * self.missing", "missing"),
        ("return x * self.weight + factor", "return (x * self.weight).sum()", "the problem has"),
        ("torch.rand(width)", "torch.rand(width + 1)", "weight is"),
        ("class Model", "class Other", "Model"),
    ],
)
def test_a_reference_that_fails_makes_the_problem_malformed(
    one: Judge, old: str, new: str, says: str
) -> None:
    candidate = ours.scaled_candidate()
    broken = replace(candidate.slow, code=candidate.slow.code.replace(old, new))
    verdict = one.judge(replace(candidate, slow=broken))
    assert verdict.outcome is Outcome.MALFORMED
    assert says in verdict.detail


def test_a_reference_that_changes_its_inputs_gets_mismatch(one: Judge) -> None:
    candidate = ours.scaled_candidate()
    broken = replace(candidate.slow, code=candidate.slow.code.replace("return x *", "return x.mul_(2) *"))
    verdict = one.judge(replace(candidate, slow=broken))
    assert (verdict.outcome, verdict.side) == (Outcome.MISMATCH, "slow")
    assert "changed the input 'x'" in verdict.detail


def test_the_reference_runs_in_the_sandbox(one: Judge) -> None:
    candidate = ours.scaled_candidate()
    reading = "return [width, open('/etc/hostname').read()][:1]"
    broken = replace(candidate.slow, code=candidate.slow.code.replace("return [width]", reading))
    verdict = one.judge(replace(candidate, slow=broken))
    assert "PermissionError" in verdict.detail


def test_a_pair_folder_stores_the_pytorch_side(tmp_path: Path) -> None:
    candidate = ours.scaled_candidate()
    store.write_candidate(tmp_path / "pair", candidate)
    assert (tmp_path / "pair" / "slow.py").read_text() == candidate.slow.code
    assert store.read_candidate(tmp_path / "pair") == candidate


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[TimedJudge]:
    """A judge with a simulated clock, on which a forward pass takes 90 us."""
    with contextlib.closing(TimedJudge()) as judge:
        judge.config = replace(judge.config, torch=True)
        monkeypatch.setattr(judge.pool, "_fresh_speaking", lambda side, _: judge._local_proxy(side))
        run = Forward.run

        def timed(self: Forward) -> None:
            device = judge.devices["slow"]
            if device.tape is not None:
                raise NotCapturable("PyTorch allocates memory as it goes")
            device.now_us += 90.0
            run(self)

        monkeypatch.setattr(Forward, "run", timed)
        yield judge


def test_eager_pytorch_is_timed(rig: TimedJudge) -> None:
    rig.us = {"fast": 30.0}
    verdict = rig.judge(ours.scaled_candidate())
    assert verdict.outcome is Outcome.CONFIRMED, (verdict.detail, verdict.log)
    assert verdict.speedup is not None
    assert verdict.speedup.ratio == pytest.approx(3.0, rel=0.02)
    assert verdict.timing_method == "events"
    assert {"bench_outputs", "timed_outputs"} <= set(verdict.checks)


def test_short_answers_to_pytorch_are_timed_by_events(rig: TimedJudge) -> None:
    rig.us = {"fast": 5.0}
    verdict = rig.judge(ours.scaled_candidate())
    assert (verdict.outcome, verdict.timing_method) == (Outcome.CONFIRMED, "events"), verdict.detail


def test_an_answer_that_skips_timed_runs_gets_mismatch(rig: TimedJudge) -> None:
    rig.us = {"fast": 30.0}
    rig.skip = lambda side, number: side == "fast" and number > 60
    verdict = rig.judge(ours.scaled_candidate())
    assert (verdict.outcome, verdict.side) == (Outcome.MISMATCH, "fast"), verdict.detail


def test_a_slower_answer_gets_not_faster(rig: TimedJudge) -> None:
    rig.us = {"fast": 120.0}
    assert rig.judge(ours.scaled_candidate()).outcome is Outcome.NOT_FASTER
