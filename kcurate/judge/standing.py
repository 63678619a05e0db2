"""Which verdicts a pair has, and which of them stands for it.

A verdict is of content: it counts for every pair whose key is the verdict's, whatever the pair was called
when it was judged. One on the pair's id with another key only tells that the pair was another then. One lucky
pass does not outweigh a counterexample, and a GPU's word on a pair outweighs the emulator's. Not covered:
making verdicts, and writing them (`kcurate.validate`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kcurate import store
from kcurate.judge import PROTOCOL
from kcurate.records import Candidate, Outcome, Verdict
from kcurate.workspace import Workspace


def judged(folders: Iterable[Path], workspace: Workspace) -> Iterator[tuple[Candidate, tuple[Verdict, ...]]]:
    """Every pair of the folders with all verdicts on its content or id: first those that only lie beside it.

    The workspace's follow, in the order in which each device made them. One on its content is given its id.

    Raises:
        InputError: a folder does not hold a pair.
    """
    ledger = [
        verdict
        for path in sorted(workspace.verdicts.glob("*.jsonl"))
        for verdict in store.read_jsonl(path, Verdict)
    ]
    places: dict[str, list[int]] = {}
    for place, verdict in enumerate(ledger):
        for name in {verdict.candidate, verdict.key}:
            places.setdefault(name, []).append(place)
    for folder in folders:
        candidate = store.read_candidate(folder)
        key = store.candidate_key(candidate, protocol=PROTOCOL)
        found = sorted({*places.get(candidate.id, ()), *places.get(key, ())})
        ours = [_named(ledger[place], candidate.id, key) for place in found]
        beside = [_named(verdict, candidate.id, key) for verdict in store.read_verdicts(folder)]
        yield candidate, (*(verdict for verdict in beside if verdict not in ours), *ours)


def _named(verdict: Verdict, name: str, key: str) -> Verdict:
    return replace(verdict, candidate=name) if verdict.key == key else verdict


def current(candidate: Candidate, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts on exactly this code, plans and problem, in their order."""
    key = store.candidate_key(candidate, protocol=PROTOCOL)
    return tuple(verdict for verdict in verdicts if verdict.key == key)


def best(verdicts: Sequence[Verdict]) -> Verdict | None:
    """The verdict that stands for a pair, of those on it as it is now: the first that there is of

    - the last counterexample of a GPU (`mismatch`, `nondeterministic`), whatever passed before or after;
    - the last counterexample of the emulator, where no GPU found the pair correct: the emulator's order of
      threads is one that no GPU has (docs/parboil.md, tpacf), and a pair is for GPUs;
    - the last `confirmed`, else the last `correct`, that its device did not take back later with a refusal
      (`malformed`, `static_reject`, `compile_error`, `launch_error`);
    - the last one. `timeout`, `not_faster`, `ambiguous_timing` and `harness_error` refute nothing.
    """
    kept = _not_withdrawn(verdicts)
    proved = any(verdict.outcome.correct and not _emulated(verdict) for verdict in kept)
    refuting = [
        verdict for verdict in kept if verdict.outcome.refutes and not (proved and _emulated(verdict))
    ]
    on_gpu = [verdict for verdict in refuting if not _emulated(verdict)]
    confirmed, correct = (
        [verdict for verdict in kept if verdict.outcome is wanted]
        for wanted in (Outcome.CONFIRMED, Outcome.CORRECT)
    )
    return next((found[-1] for found in (on_gpu, refuting, confirmed, correct, kept) if found), None)


def _not_withdrawn(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts without passes that a later refusal on the same device took back."""
    kept: list[Verdict] = []
    for verdict in verdicts:
        if verdict.outcome.withdraws:
            device = verdict.environment.device
            kept = [one for one in kept if not one.outcome.correct or one.environment.device != device]
        kept.append(verdict)
    return kept


def _emulated(verdict: Verdict) -> bool:
    return verdict.environment.backend == "emulator"
