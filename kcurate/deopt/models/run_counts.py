"""Counts of a run with a model: one outcome for every kernel, search and attempt, and the cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kcurate.core.runs import Run
from kcurate.deopt.models.policy import hopeless
from kcurate.deopt.models.search import Search
from kcurate.deopt.starts import Start
from kcurate.models.asking import Asking
from kcurate.records import AttemptOutcome, Outcome


class StartOutcome(StrEnum):
    """Outcome of a kernel (or of a pair's side).

    `duplicate`: an earlier start is identical.
    """

    VARIANTS = "variants"
    NO_VARIANT = "no_variant"
    NO_PROBLEM = "no_problem"
    DUPLICATE = "duplicate"
    UNFINISHED = "unfinished"


class SearchOutcome(StrEnum):
    """How a search ended."""

    ACCEPTED = "accepted"
    OUT_OF_ROUNDS = "out_of_rounds"
    HOPELESS = "hopeless"
    UNFINISHED = "unfinished"


_WHY = {
    StartOutcome.NO_VARIANT: "no answer was accepted",
    StartOutcome.NO_PROBLEM: "no problem is known for it",
    StartOutcome.DUPLICATE: "an earlier kernel is the same",
    StartOutcome.UNFINISHED: "the run ended early: run the same command to go on",
}


@dataclass(frozen=True)
class StartSearches:
    """A start and its searches; `skipped` is the reason if there are none."""

    start: Start
    searches: Sequence[Search]
    skipped: StartOutcome | None = None


def count(groups: Sequence[StartSearches], asking: Asking) -> dict[str, dict[str, int]]:
    """The counts for the summary, by kind; every item is counted once per kind."""
    kernels: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    attempts: Counter[str] = Counter()
    for group in groups:
        outcomes = [_search_outcome(search) for search in group.searches]
        ends.update(outcomes)
        for search in group.searches:
            attempts.update(str(tried.ended) for tried in search.tried)
        kernels[group.skipped or _start_outcome(outcomes)] += 1
    order = [*AttemptOutcome, *Outcome]
    return {
        "kernels": {str(outcome): kernels[outcome] for outcome in StartOutcome if kernels[outcome]},
        "searches": {str(outcome): ends[outcome] for outcome in SearchOutcome if ends[outcome]},
        "attempts": {name: attempts[name] for name in dict.fromkeys(map(str, order)) if attempts[name]},
        "requests": {str(source): number for source, number in sorted(asking.counts.items())},
    }


def add_results(record: Run, groups: Sequence[StartSearches], file: Path) -> None:
    """Add every kernel and every attempt to the results; `file` has all attempts."""
    for group in groups:
        outcome = group.skipped or _start_outcome([_search_outcome(search) for search in group.searches])
        passed, name = outcome is StartOutcome.VARIANTS, group.start.id
        then = ("problem", "draft") if outcome is StartOutcome.NO_PROBLEM else ("show", name)
        record.item("kernels", name, outcome, _WHY.get(outcome, ""), passed=passed, file=file, then=then)
        for search in group.searches:
            for tried in search.tried:
                attempt = tried.attempt
                judged = attempt.outcome is AttemptOutcome.JUDGED and attempt.verdict
                label = f"{search.target.label}, {attempt.place}"
                why = attempt.detail or (judged.detail if judged else "")
                record.item("attempts", label, tried.ended, why, passed=tried.accepted, file=file)


def skipped(start: Start, new_goals: int) -> StartOutcome | None:
    """Why a start gets no search, given how many of its goals are new; None: it does."""
    if start.problem is None:
        return StartOutcome.NO_PROBLEM
    return None if new_goals else StartOutcome.DUPLICATE


def _start_outcome(outcomes: Sequence[SearchOutcome]) -> StartOutcome:
    if SearchOutcome.ACCEPTED in outcomes:
        return StartOutcome.VARIANTS
    unfinished = SearchOutcome.UNFINISHED in outcomes
    return StartOutcome.UNFINISHED if unfinished else StartOutcome.NO_VARIANT


def _search_outcome(search: Search) -> SearchOutcome:
    if search.accepted:
        return SearchOutcome.ACCEPTED
    if hopeless(search.tried, search.policy.candidates):
        return SearchOutcome.HOPELESS
    over = search.policy.next(search.tried) is None
    return SearchOutcome.OUT_OF_ROUNDS if over else SearchOutcome.UNFINISHED
