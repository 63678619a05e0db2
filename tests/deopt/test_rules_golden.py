"""Each rule on a kernel of our own: the slow side word for word, and that it still computes the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kcurate.backends.base import Compiled, CompileFailure
from kcurate.backends.cuda.compiler import CudaCompiler
from kcurate.core import store
from kcurate.deopt.rules import RULES, NotApplicable, Rule
from kcurate.judge import compile_side
from kcurate.judge.checks import binary
from kcurate.judge.checks.lexer import Source
from kcurate.judge.checks.sham_work import label_leaks
from kcurate.judge.checks.static import check_source
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.records import Candidate, Outcome, Side
from kcurate.records.pair import SIDES, SideName

GOLDEN = Path(__file__).parent / "golden"
IN_CUDA = [rule for rule in RULES if rule.language == "cuda"]
by_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
by_cuda_rule = pytest.mark.parametrize("rule", IN_CUDA, ids=lambda rule: rule.name)


def golden(rule: Rule) -> Candidate:
    return store.read_candidate(GOLDEN / rule.name)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with contextlib.closing(Judge(JudgeConfig(backend="emulator", timed=False))) as one:
        yield one


def compiled(candidate: Candidate, side: SideName) -> Compiled:
    made = compile_side(candidate, side, CudaCompiler())
    assert not isinstance(made, CompileFailure), made.log
    return made


def test_every_golden_belongs_to_a_rule() -> None:
    assert {folder.name for folder in GOLDEN.iterdir()} == {rule.name for rule in RULES}


@by_rule
def test_makes_the_slow_side_word_for_word(rule: Rule) -> None:
    expected = golden(rule)
    made = rule.apply(expected.fast, expected.problem)
    assert isinstance(made, Side)
    assert made.code == expected.slow.code
    assert made == expected.slow


@by_rule
def test_has_nothing_left_to_do_after_itself(rule: Rule) -> None:
    expected = golden(rule)
    again = rule.apply(expected.slow, expected.problem)
    if rule.name == "swap-axes":  # the exchange of two roles undoes itself
        assert again == expected.fast
    else:
        assert isinstance(again, NotApplicable)


@by_rule
def test_slow_side_passes_static_checks_and_has_no_label_leak(rule: Rule) -> None:
    slow = golden(rule).slow
    assert not check_source(slow)
    assert slow.language == "triton" or not list(label_leaks(Source(slow.code)))


@by_cuda_rule
def test_machine_code_differs(rule: Rule) -> None:
    candidate = golden(rule)
    both = {side: compiled(candidate, side) for side in SIDES}
    assert not binary.same(candidate, both)


@by_cuda_rule
def test_both_sides_compute_the_same(rule: Rule, judge: Judge) -> None:
    verdict = judge.judge(golden(rule))
    assert verdict.outcome == Outcome.CORRECT, verdict.detail


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", [one for one in RULES if one.language == "triton"], ids=lambda rule: rule.name
)
def test_both_sides_in_triton_compute_the_same(rule: Rule) -> None:
    with contextlib.closing(Judge(JudgeConfig(backend="emulator", timed=False))) as alone:
        verdict = alone.judge(golden(rule))
    assert verdict.outcome == Outcome.CORRECT, verdict.detail


def test_without_a_plan_only_code_is_rewritten() -> None:
    """What depends on how a kernel is launched refuses when that is not known."""
    for name in ("swap-axes", "small-blocks", "tree-to-atomics", "launch-bounds", "padding"):
        rule = next(rule for rule in RULES if rule.name == name)
        candidate = golden(rule)
        assert isinstance(rule.apply(replace(candidate.fast, plan=())), NotApplicable), name
        assert isinstance(rule.apply(Side(candidate.fast.code, ())), NotApplicable), name
