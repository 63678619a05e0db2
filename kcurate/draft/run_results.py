"""Adds drafted kernels, and the pairs that their problems are for, to the results of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kcurate.core import store
from kcurate.core.runs import Run
from kcurate.draft.for_pairs.other_kernel import FORM_NAME
from kcurate.draft.for_pairs.shared_problem import PairOutcome, PairResult
from kcurate.draft.trying.completed_files import RECORD_NAME
from kcurate.draft.trying.draft_choice import SINGLE_SIZE, Settled

# Advice on a problem admitted at one size: that of recorded launches, or of constants in the code.
SECOND = 'for a second size run a program that takes one as an argument: kcurate capture --also "ARGS"'
FIXED = "constants of the code: kcurate build refuses its pairs, since another size is another kernel"


def add_kernel(run: Run, record: Path, name: str, settled: Settled) -> None:
    """Add and note a kernel, passed if deopt can use its problem: the suite's, or an admitted one.

    `record`: its `kernel.json`.
    """
    outcome, line = settled.outcome, settled.line
    advice = f"; {SECOND if settled.recorded else FIXED}" if outcome == SINGLE_SIZE else ""
    run.note(f"{name}: {line}{advice}")
    form = record.with_name(FORM_NAME)
    passed = outcome == "known" or store.exists(record.with_name(RECORD_NAME))
    run.item("kernels", name, outcome, line, passed=passed, file=form, then=("problem", "check", form))


def add_pairs(run: Run, pairs: Iterable[tuple[str, PairResult]]) -> list[PairOutcome]:
    """Add pairs, passed if they have a problem now; returns the outcomes."""
    outcomes = []
    for name, result in pairs:
        passed = result.pair is not None
        run.item("pairs", name, result.outcome, result.why, passed=passed, then=("show", name))
        outcomes.append(result.outcome)
    return outcomes
