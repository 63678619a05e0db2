"""A reference in PyTorch on the emulator: the same judge, the same outcomes; no other code becomes one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch_modules as ours

from kcurate import store
from kcurate.judge.judge import Judge, JudgeConfig
from kcurate.records import Call, Origin, Outcome, Side

CONFIG = JudgeConfig("emulator", spares=1, torch=True)


@pytest.fixture(scope="module")
def one() -> Iterator[Judge]:
    with contextlib.closing(Judge(CONFIG)) as made:
        yield made


def test_a_right_answer_is_correct(one: Judge) -> None:
    verdict = one.judge(ours.scaled_candidate())
    assert verdict.outcome is Outcome.CORRECT, (verdict.detail, verdict.log)
    assert {"outputs", "poison", "redzones", "inputs_intact", "controls"} <= set(verdict.checks)
    assert verdict.slow is not None and verdict.slow.binary_sha256


@pytest.mark.parametrize("wrong", ["x[i] + factor", "0.0f", "x[i] * weight[i % width]"])
def test_wrong_answers_are_found(one: Judge, wrong: str) -> None:
    code = ours.SCALED_CODE.replace("x[i] * weight[i % width] + factor", wrong)
    verdict = one.judge(ours.scaled_candidate(replace(ours.ANSWERS["scaled"], code=code)))
    assert (verdict.outcome, verdict.side) == (Outcome.MISMATCH, "fast"), verdict.detail


def test_python_does_not_run_unless_allowed() -> None:
    with contextlib.closing(Judge(replace(CONFIG, torch=False))) as strict:
        verdict = strict.judge(ours.scaled_candidate())
    assert (verdict.outcome, verdict.side) == (Outcome.HARNESS_ERROR, "slow")
    assert not verdict.outcome.final


def test_an_answer_cannot_be_python(one: Judge) -> None:
    candidate = ours.scaled_candidate()
    verdict = one.judge(replace(candidate, fast=candidate.slow))
    assert verdict.outcome is Outcome.MALFORMED
    assert "only be the reference" in verdict.detail


def test_an_answer_cannot_call_python(one: Judge) -> None:
    call = Call("Model", ("x", "factor"), ("out",), {"weight": "weight"})
    answer = Side(ours.SCALED_CODE, (*ours.ANSWERS["scaled"].plan, call))
    verdict = one.judge(ours.scaled_candidate(answer))
    assert verdict.outcome is Outcome.MALFORMED
    assert "device code" in verdict.detail


def test_a_made_side_is_never_the_python_one(one: Judge) -> None:
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
def test_a_reference_that_does_not_run_spoils_the_problem(one: Judge, old: str, new: str, says: str) -> None:
    candidate = ours.scaled_candidate()
    broken = replace(candidate.slow, code=candidate.slow.code.replace(old, new))
    verdict = one.judge(replace(candidate, slow=broken))
    assert verdict.outcome is Outcome.MALFORMED
    assert says in verdict.detail


def test_a_reference_that_changes_its_inputs_is_found(one: Judge) -> None:
    candidate = ours.scaled_candidate()
    broken = replace(candidate.slow, code=candidate.slow.code.replace("return x *", "return x.mul_(2) *"))
    verdict = one.judge(replace(candidate, slow=broken))
    assert (verdict.outcome, verdict.side) == (Outcome.MISMATCH, "slow")
    assert "changed the input 'x'" in verdict.detail


def test_the_reference_is_shut_in_like_any_code(one: Judge) -> None:
    candidate = ours.scaled_candidate()
    reading = "return [width, open('/etc/hostname').read()][:1]"
    broken = replace(candidate.slow, code=candidate.slow.code.replace("return [width]", reading))
    verdict = one.judge(replace(candidate, slow=broken))
    assert "PermissionError" in verdict.detail


def test_a_pair_folder_keeps_the_language(tmp_path: Path) -> None:
    candidate = ours.scaled_candidate()
    store.write_candidate(tmp_path / "pair", candidate)
    assert (tmp_path / "pair" / "slow.py").read_text() == candidate.slow.code
    assert store.read_candidate(tmp_path / "pair") == candidate
