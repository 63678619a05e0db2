"""Adds kernels, and the pairs that their problems are for, to the results of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kcurate.core.runs import Run
from kcurate.draft.checking import RECORD_NAME
from kcurate.draft.counterpart import FORM_NAME
from kcurate.draft.pairing import Given, PairOutcome

# The outcome of a problem that is admitted at its one size: that of a record, or of constants in the code.
SINGLE_SIZE = "single_size"
SECOND = 'for a second size run a program that takes one as an argument: kcurate capture --also "ARGS"'
FIXED = "constants of the code: kcurate build refuses its pairs, since another size is another kernel"


def add_kernel(run: Run, record: Path, name: str, outcome: str, line: str) -> None:
    """Also a note. A kernel passed if deopt can use a problem of it: its suite's, or an admitted one."""
    single = f"; {SECOND if 'recorded' in line else FIXED}" if outcome == SINGLE_SIZE else ""
    run.note(f"{name}: {line}{single}")
    form = record.with_name(FORM_NAME)
    passed = outcome == "known" or record.with_name(RECORD_NAME).is_file()
    run.item("kernels", name, outcome, line, passed=passed, file=form, then=("problem", "check", form))


def add_pairs(run: Run, pairs: Iterable[tuple[str, Given]]) -> list[PairOutcome]:
    """A pair passed if it got a problem; returns the outcomes."""
    outcomes = []
    for name, given in pairs:
        passed = given.pair is not None
        run.item("pairs", name, given.outcome, given.why, passed=passed, then=("show", name))
        outcomes.append(given.outcome)
    return outcomes
