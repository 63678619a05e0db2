"""Rows whose sides a model or a stranger wrote need clean runs of memcheck and racecheck."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kcurate.core import resources, store
from kcurate.dataset.gates import unsanitized
from kcurate.records import SIDES, Environment, Origin, Outcome, Sanitized, Verdict

PAIR = store.read_candidate(Path(resources.pairs_dir()) / "reduction-scan" / "reduce-sum-shuffle")
VERDICT = Verdict("a", "key", Outcome.CONFIRMED, Environment("cuda", "a GPU"))
CLEAN = tuple(
    Sanitized(tool, "2025.3.1", side, {"n": 5}, clean=True)
    for tool in ("memcheck", "racecheck")
    for side in SIDES
)


def test_a_row_of_ours_needs_none() -> None:
    assert unsanitized(PAIR, VERDICT) is None


@pytest.mark.parametrize("kind", ["model", "imported", "history"])
def test_a_row_of_others_needs_clean_runs_of_both_sides(kind: str) -> None:
    theirs = replace(PAIR, origin=Origin(kind))  # type: ignore[arg-type]
    assert unsanitized(theirs, VERDICT)
    assert unsanitized(theirs, replace(VERDICT, sanitizers=CLEAN[:3]))
    unclean = (*CLEAN[:3], replace(CLEAN[3], clean=False))
    assert unsanitized(theirs, replace(VERDICT, sanitizers=unclean))
    assert unsanitized(theirs, replace(VERDICT, sanitizers=CLEAN)) is None


def test_a_pair_without_times_may_be_published_as_it_was() -> None:
    theirs = replace(PAIR, origin=Origin("imported"))
    assert unsanitized(theirs, replace(VERDICT, outcome=Outcome.CORRECT)) is None
