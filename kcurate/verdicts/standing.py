"""Which verdicts a pair has, and which of them counts.

A verdict counts for every pair with its key, even if the pair had another id when it was judged. A verdict
with the pair's id but another key is about an earlier version of the pair, or was made under an older
protocol (`kcurate.verdicts.keys`). A pass does not outweigh a counterexample; a GPU's verdict outweighs the
emulator's. Not covered: making verdicts (`kcurate.judge`), writing them (`kcurate.verdicts.ledger`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kcurate.core import store
from kcurate.core.workspace import Workspace
from kcurate.records import Candidate, Outcome, Verdict
from kcurate.verdicts.keys import verdict_key

# The GPU model of the built-in pairs' verdicts; of several models' verdicts, its verdict counts.
STANDS = "NVIDIA H200"


class Filed:
    """The verdicts of a workspace (None: only those in pairs' folders), ordered by device, then by time."""

    def __init__(self, workspace: Workspace | None) -> None:
        self._verdicts = [
            verdict
            for path in (store.find(workspace.verdicts, "*.jsonl") if workspace else ())
            for verdict in store.read_jsonl(path, Verdict)
        ]
        self._places: dict[str, list[int]] = {}
        for place, verdict in enumerate(self._verdicts):
            for name in {verdict.candidate, verdict.key}:
                self._places.setdefault(name, []).append(place)

    def of(self, folder: Path) -> tuple[Candidate, tuple[Verdict, ...]]:
        """A pair with all verdicts on its content or id, those that only its folder has first.

        Verdicts on the pair's content are returned under its id.

        Raises:
            InputError: the folder does not hold a pair.
        """
        candidate = store.read_candidate(folder)
        key = verdict_key(candidate)
        places = sorted({*self._places.get(candidate.id, ()), *self._places.get(key, ())})
        filed = [_named(self._verdicts[place], candidate.id, key) for place in places]
        in_folder = [_named(verdict, candidate.id, key) for verdict in store.read_verdicts(folder)]
        return candidate, (*(verdict for verdict in in_folder if verdict not in filed), *filed)


def judged(
    folders: Iterable[Path], workspace: Workspace | None
) -> Iterator[tuple[Candidate, tuple[Verdict, ...]]]:
    """Every pair with all verdicts on its content or id.

    Raises:
        InputError: a folder does not hold a pair.
    """
    filed = Filed(workspace)
    return (filed.of(folder) for folder in folders)


def _named(verdict: Verdict, name: str, key: str) -> Verdict:
    return replace(verdict, candidate=name) if verdict.key == key else verdict


def current(candidate: Candidate, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts on exactly this code, these plans and this problem, in order."""
    key = verdict_key(candidate)
    return tuple(verdict for verdict in verdicts if verdict.key == key)


def best(verdicts: Sequence[Verdict], device: str = STANDS) -> Verdict | None:
    """The one of a pair's current verdicts that counts: the first that exists of

    - the last counterexample of a GPU (`mismatch`, `nondeterministic`), whatever passed before or after it;
    - the last counterexample of the emulator, unless a GPU found the pair correct: the emulator runs threads
      in orders that no GPU has, and pairs are for GPUs;
    - the last `confirmed`, else the last `correct`, unless the same device refused the pair later
      (`static_reject`, `compile_error`, `launch_error`, `padded`);
    - the last verdict that says something about the pair, else the last. `timeout`, `not_faster` and
      `ambiguous_timing` refute nothing.

    In each group the last verdict of `device` counts, else the last one. A verdict of a second GPU model thus
    changes neither the times in a dataset row nor the GPU that its prompt names.
    """
    valid = sorted(_not_withdrawn(verdicts), key=lambda verdict: verdict.environment.device == device)
    proved = any(verdict.outcome.correct and not _emulated(verdict) for verdict in valid)
    refuting = [
        verdict for verdict in valid if verdict.outcome.refutes and not (proved and _emulated(verdict))
    ]
    on_gpu = [verdict for verdict in refuting if not _emulated(verdict)]
    confirmed, correct = (
        [verdict for verdict in valid if verdict.outcome is outcome]
        for outcome in (Outcome.CONFIRMED, Outcome.CORRECT)
    )
    judged = [verdict for verdict in valid if verdict.outcome.judged]
    return next((group[-1] for group in (on_gpu, refuting, confirmed, correct, judged, valid) if group), None)


def elsewhere(verdicts: Sequence[Verdict], chosen: Verdict | None) -> list[Verdict]:
    """The verdict that counts on each device other than that of `chosen`, by name; empty without `chosen`."""
    if chosen is None:
        return []
    devices = {verdict.environment.device for verdict in verdicts} - {chosen.environment.device}
    bests = (
        best([verdict for verdict in verdicts if verdict.environment.device == name])
        for name in sorted(devices)
    )
    return [verdict for verdict in bests if verdict is not None]


def _not_withdrawn(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts without the passes of a device that refused the pair later."""
    valid: list[Verdict] = []
    for verdict in verdicts:
        if verdict.outcome.withdraws:
            device = verdict.environment.device
            valid = [
                verdict
                for verdict in valid
                if not verdict.outcome.correct or verdict.environment.device != device
            ]
        valid.append(verdict)
    return valid


def _emulated(verdict: Verdict) -> bool:
    return verdict.environment.backend == "emulator"


def minimal_templates(judged: Iterable[tuple[Candidate, Verdict]]) -> frozenset[str]:
    """Templates (rules, schedules) with a side in which a complete search found no needless work."""
    found_minimal = (pair.origin.templates for pair, verdict in judged if "minimal" in verdict.checks)
    return frozenset[str]().union(*found_minimal)
