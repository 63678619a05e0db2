"""Which verdicts a pair has, and which of them stands for it.

A verdict counts while the pair is what was judged (its key is that of the pair as it is now). Not covered:
making verdicts, and writing them (`kcurate.validate`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kcurate import store
from kcurate.judge.judge import PROTOCOL
from kcurate.records import Candidate, Outcome, Verdict
from kcurate.workspace import Workspace


def judged(folders: Iterable[Path], workspace: Workspace) -> Iterator[tuple[Candidate, tuple[Verdict, ...]]]:
    """Every pair of the folders with all verdicts on its id: those beside it, then the workspace's.

    Raises:
        InputError: a folder does not hold a pair.
    """
    recent: dict[str, list[Verdict]] = {}
    for path in sorted(workspace.verdicts.glob("*.jsonl")):
        for verdict in store.read_jsonl(path, Verdict):
            recent.setdefault(verdict.candidate, []).append(verdict)
    for folder in folders:
        candidate = store.read_candidate(folder)
        beside = store.read_verdicts(folder)
        later = [verdict for verdict in recent.get(candidate.id, ()) if verdict not in beside]
        yield candidate, (*beside, *later)


def current(candidate: Candidate, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts on exactly this code, plans and problem, in their order."""
    key = store.candidate_key(candidate, protocol=PROTOCOL)
    return tuple(verdict for verdict in verdicts if verdict.key == key)


def best(verdicts: Sequence[Verdict]) -> Verdict | None:
    """The verdict that stands for a pair: the last confirmed, else the last correct, else the last one."""
    for wanted in (Outcome.CONFIRMED, Outcome.CORRECT):
        found = [verdict for verdict in verdicts if verdict.outcome is wanted]
        if found:
            return found[-1]
    return verdicts[-1] if verdicts else None
