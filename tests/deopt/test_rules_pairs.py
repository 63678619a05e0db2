"""Rules on fast sides of built-in pairs; `benchmarks/deopt_rules.py` judges all that they make.

A result parses, compiles, computes the same on the emulator, and no rule ever fails.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
from dataclasses import replace

import pytest
import sampling

from kcurate.backends.base import Compiled, CompileFailure
from kcurate.backends.cuda.compiler import CudaCompiler
from kcurate.core import resources, store
from kcurate.cuda_source.parse.items import tree_of
from kcurate.deopt.rules import RULES, NotApplicable, Rule
from kcurate.judge import compile_side
from kcurate.judge.checks import binary
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.records import Candidate, Origin, Outcome, Side
from kcurate.records.pair import SIDES, SideName

# Results judged, and further ones with `--run-slow`; which ones depends on names alone.
JUDGED = [slice(0, 1), pytest.param(slice(1, 5), marks=pytest.mark.slow)]
# More pairs than elsewhere, since few do not show ten rules: for 3,000 commits one in 12 always did.
ONE_IN = 8
# Rules whose results some compilers undo (the counts are in docs/deopt-rules.md).
UNDONE = ("unroll", "launch-bounds", "vector-to-scalar", "double-literals")


def order(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(scope="module")
def made(sample: sampling.Sample) -> list[tuple[Rule, Candidate]]:
    """What the rules make of the pairs: candidates against the fast side they came from."""
    found = []
    for folder in store.find_candidates(resources.pairs_dir()):
        if not sample.takes((sampling.name_of(folder),), one_in=ONE_IN):
            continue
        pair = store.read_candidate(folder)
        for rule in (one for one in RULES if one.language == "cuda"):
            slow = rule.apply(pair.fast, pair.problem)
            if isinstance(slow, NotApplicable):
                assert slow.reason
            else:
                origin = Origin("rule", made="slow", rules=(rule.name,), parent=pair.id)
                found.append((rule, replace(pair, id=f"{pair.id}/{rule.name}", slow=slow, origin=origin)))
    return found


def test_results_parse_as_well_as_what_they_came_from(made: list[tuple[Rule, Candidate]]) -> None:
    assert len({rule.name for rule, _ in made}) >= 10
    for _, candidate in made:
        before, after = (tree_of(side.code.encode()).root for side in (candidate.fast, candidate.slow))
        assert before.has_error or not after.has_error, candidate.id


@pytest.mark.slow
def test_rules_compose(made: list[tuple[Rule, Candidate]]) -> None:
    """Every rule can follow every other: it changes the side or says why not."""
    for first, candidate in made[::24]:
        for rule in RULES:
            side = rule.apply(candidate.slow, candidate.problem)
            assert isinstance(side, Side | NotApplicable), (first.name, rule.name, candidate.id)


@pytest.mark.parametrize("judged", JUDGED, ids=("few", "more"))
def test_results_compile_and_compute_the_same(made: list[tuple[Rule, Candidate]], judged: slice) -> None:
    sample = sorted(made, key=lambda one: order(one[1].id))[judged]
    with contextlib.closing(Judge(JudgeConfig(backend="emulator", timed=False))) as judge:
        for rule, candidate in sample:
            both = {side: compiled(candidate, side) for side in SIDES}
            if rule.name not in UNDONE:
                assert not binary.same(candidate, both), candidate.id
            verdict = judge.judge(candidate)
            assert verdict.outcome == Outcome.CORRECT, (candidate.id, verdict.detail)


def compiled(candidate: Candidate, side: SideName) -> Compiled:
    answer = compile_side(candidate, side, CudaCompiler())
    assert not isinstance(answer, CompileFailure), (candidate.id, answer.log)
    return answer


@pytest.mark.parametrize("seed", range(6))
def test_damaged_code_never_makes_a_rule_raise(made: list[tuple[Rule, Candidate]], seed: int) -> None:
    """Broken code gets an answer too: a side or a reason."""
    draw = random.Random(seed)
    for _, candidate in draw.sample(made, 10):
        code = candidate.fast.code
        for _ in range(3):
            at = draw.randrange(len(code))
            piece = draw.choice(
                ("", ";", "(", ")", "{", "}", "[", "]", ",", "=", "for (", "if (", "x", "*", "&")
            )
            code = code[:at] + piece + code[at + draw.choice((1, 2, 9)) :]
        for rule in RULES:
            answer = rule.apply(replace(candidate.fast, code=code), candidate.problem)
            assert isinstance(answer, Side | NotApplicable)
