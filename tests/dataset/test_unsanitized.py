"""What a confirmed row needs: clean runs of the sanitizers, a search for needless parts that ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kcurate.core import resources, store
from kcurate.dataset.gates import UNSANITIZED, UNSEARCHED, lacking
from kcurate.records import SIDES, Candidate, Environment, Origin, Outcome, Sanitized, Verdict
from kcurate.verdicts.standing import minimal_templates

PAIR = store.read_candidate(Path(resources.pairs_dir()) / "reduction-scan" / "reduce-sum-shuffle")
VERDICT = Verdict("a", "key", Outcome.CONFIRMED, Environment("cuda", "a GPU"))
CLEAN = tuple(
    Sanitized(tool, "2025.3.1", side, {"n": 5}, clean=True)
    for tool in ("memcheck", "racecheck")
    for side in SIDES
)


def test_a_row_of_ours_needs_none() -> None:
    assert lacking(PAIR, VERDICT) is None


@pytest.mark.parametrize("kind", ["model", "imported", "history"])
def test_a_row_of_others_needs_clean_runs_of_both_sides(kind: str) -> None:
    theirs = replace(PAIR, origin=Origin(kind))  # type: ignore[arg-type]
    assert _lacks(theirs, VERDICT) == UNSANITIZED
    assert _lacks(theirs, replace(VERDICT, sanitizers=CLEAN[:3])) == UNSANITIZED
    unclean = (*CLEAN[:3], replace(CLEAN[3], clean=False))
    assert _lacks(theirs, replace(VERDICT, sanitizers=unclean)) == UNSANITIZED
    assert lacking(theirs, replace(VERDICT, sanitizers=CLEAN)) is None


def test_a_pair_without_times_may_be_published_as_it_was() -> None:
    theirs = replace(PAIR, origin=Origin("imported"))
    assert lacking(theirs, replace(VERDICT, outcome=Outcome.CORRECT)) is None


def _lacks(pair: Candidate, verdict: Verdict) -> str:
    return (lacking(pair, verdict) or ("",))[0]


UNTRIED = Environment("cuda", "a GPU", details={"untried_parts": 0})
CUT_OFF = replace(VERDICT, sanitizers=CLEAN, environment=UNTRIED)


@pytest.mark.parametrize("kind", ["model", "rule"])
def test_a_made_slow_side_needs_a_search_that_ended(kind: str) -> None:
    made = replace(PAIR, origin=Origin(kind, made="slow", rules=("untile",)))  # type: ignore[arg-type]
    assert _lacks(made, CUT_OFF) == UNSEARCHED
    assert lacking(made, replace(VERDICT, sanitizers=CLEAN, checks=("minimal",))) is None
    assert lacking(replace(made, origin=Origin(kind)), CUT_OFF) is None  # type: ignore[arg-type]


def test_of_sides_by_one_rule_of_ours_one_is_searched() -> None:
    made = Origin("rule", made="slow", rules=("untile",))
    assert lacking(replace(PAIR, origin=made), VERDICT) is None
    theirs = replace(PAIR, origin=Origin("model", made="slow"))
    assert _lacks(theirs, replace(VERDICT, sanitizers=CLEAN)) == UNSEARCHED


def test_a_cut_off_search_counts_if_each_rule_was_searched_to_the_end_elsewhere() -> None:
    def by(*rules: str) -> Candidate:
        return replace(PAIR, origin=Origin("rule", made="slow", rules=rules))

    ended = replace(VERDICT, checks=("minimal",))
    minimal = minimal_templates([(by("untile", "unroll"), ended), (by("one-thread"), CUT_OFF)])
    assert lacking(by("unroll"), CUT_OFF, minimal) is None
    assert (lacking(by("unroll", "one-thread"), CUT_OFF, minimal) or ("",))[0] == UNSEARCHED
    theirs = replace(PAIR, origin=Origin("model", made="slow", rules=("untile",)))
    searched_text = replace(CUT_OFF, sanitizers=CLEAN)
    assert (lacking(theirs, searched_text, minimal) or ("",))[0] == UNSEARCHED
