"""Rules for Triton on the fast sides of the built-in pairs: what they make is allowed and right."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from kcurate.core import resources, store
from kcurate.core.workspace import Workspace
from kcurate.deopt.rules import RULES, NotApplicable
from kcurate.deopt.stage import DeoptConfig, run
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.problem.check import check
from kcurate.records import Candidate, Origin, Outcome, Side
from kcurate.triton_source import refusals

IN_TRITON = [rule for rule in RULES if rule.language == "triton"]


def made() -> list[Candidate]:
    """What each rule makes of each built-in pair, against the fast side."""
    found = []
    for folder in sorted(resources.pairs_dir().glob("*/*-triton")):
        pair = store.read_candidate(folder)
        for rule in IN_TRITON:
            slow = rule.apply(pair.fast, pair.problem)
            if isinstance(slow, NotApplicable):
                assert slow.reason
                continue
            origin = Origin("rule", made="slow", rules=(rule.name,), parent=pair.id)
            found.append(replace(pair, id=f"{pair.id}/{rule.name}", slow=slow, origin=origin))
    return found


def test_what_rules_make_is_allowed_and_fits_its_problem() -> None:
    found = made()
    for one in found:
        assert not list(refusals(one.slow.code)), one.id
        assert not check(one), one.id
    applied = {rule for one in found for rule in one.origin.rules}
    assert {rule.name for rule in IN_TRITON} == applied


@pytest.mark.slow
@pytest.mark.parametrize("rule", [rule.name for rule in IN_TRITON])
def test_what_a_rule_makes_computes_the_same(rule: str) -> None:
    """For two of the built-in pairs that it applies to."""
    some = [one for one in made() if one.origin.rules == (rule,)]
    with contextlib.closing(Judge(JudgeConfig(backend="emulator", timed=False))) as judge:
        for one in (some[0], some[-1]):
            verdict = judge.judge(one)
            assert verdict.outcome is Outcome.CORRECT, f"{one.id}: {verdict.outcome}: {verdict.detail}"


def test_a_side_in_triton_is_deoptimised_as_any_other(tmp_path: pytest.TempPathFactory) -> None:
    folder = resources.pairs_dir() / "deep-learning" / "softmax-triton"
    workspace = Workspace(tmp_path)  # type: ignore[arg-type]
    summary = run(DeoptConfig(workspace.root, (folder,)))
    assert summary.items["kernels"] == {"deoptimised": 1}
    rungs = sorted(path.name for path in (workspace.pairs / "deep-learning/softmax-triton").iterdir())
    assert {"deopt-all", "deopt-triton-unfused", "deopt-triton-one-warp"} <= set(rungs)
    for path in store.find_candidates(workspace.pairs):
        candidate = store.read_candidate(path)
        assert (candidate.slow.language, candidate.fast.language) == ("triton", "triton")
        assert not check(candidate)


def test_a_rule_refuses_what_it_cannot_prove() -> None:
    head = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
    # A constant that divides is part of the result.
    code = head + "def f(x, B: tl.constexpr):\n    at = tl.arange(0, B)\n    tl.store(x + at, at // B)\n"
    folder = resources.pairs_dir() / "deep-learning" / "adam-triton"
    fast = store.read_candidate(folder).fast
    by_name = {rule.name: rule for rule in IN_TRITON}
    made = by_name["triton-small-tiles"].apply(replace(fast, code=code))
    assert isinstance(made, NotApplicable)
    for rule in IN_TRITON:
        assert isinstance(rule.apply(Side("def (", (), language="triton")), NotApplicable)
        assert isinstance(rule.apply(Side(code, (), language="triton")), NotApplicable), rule.name
