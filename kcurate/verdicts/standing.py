"""Which verdicts a pair has, and which of them counts.

A verdict counts for every pair with its key, whatever the pair's id was when it was judged. A verdict with
the pair's id but another key is about an earlier version of the pair, or was made under an older protocol
(`kcurate.verdicts.keys`). A pass does not outweigh a counterexample, and a GPU's verdict outweighs the
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

# Whose verdict stands where several GPU models have one: the built-in pairs have theirs of this one.
STANDS = "NVIDIA H200"


def judged(
    folders: Iterable[Path], workspace: Workspace | None
) -> Iterator[tuple[Candidate, tuple[Verdict, ...]]]:
    """Every pair with all verdicts on its content or id: those only in its folder, then the workspace's.

    The workspace's are in the order in which each device made them. Verdicts on its content get its id.

    Raises:
        InputError: a folder does not hold a pair.
    """
    ledger = [
        verdict
        for path in (sorted(workspace.verdicts.glob("*.jsonl")) if workspace else ())
        for verdict in store.read_jsonl(path, Verdict)
    ]
    places: dict[str, list[int]] = {}
    for place, verdict in enumerate(ledger):
        for name in {verdict.candidate, verdict.key}:
            places.setdefault(name, []).append(place)
    for folder in folders:
        candidate = store.read_candidate(folder)
        key = verdict_key(candidate)
        found = sorted({*places.get(candidate.id, ()), *places.get(key, ())})
        ours = [_named(ledger[place], candidate.id, key) for place in found]
        stored = [_named(verdict, candidate.id, key) for verdict in store.read_verdicts(folder)]
        yield candidate, (*(verdict for verdict in stored if verdict not in ours), *ours)


def _named(verdict: Verdict, name: str, key: str) -> Verdict:
    return replace(verdict, candidate=name) if verdict.key == key else verdict


def current(candidate: Candidate, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts on exactly this code, these plans and this problem, in order."""
    key = verdict_key(candidate)
    return tuple(verdict for verdict in verdicts if verdict.key == key)


def best(verdicts: Sequence[Verdict], device: str = STANDS) -> Verdict | None:
    """The verdict that counts for a pair, of its current ones. The first that exists of:

    - a GPU's last counterexample (`mismatch`, `nondeterministic`), whatever passed before or after it;
    - the emulator's last counterexample, unless a GPU found the pair correct: the emulator runs threads in an
      order that no GPU has, and pairs are for GPUs;
    - the last `confirmed`, else the last `correct`, unless the same device refused the pair later
      (`static_reject`, `compile_error`, `launch_error`, `padded`);
    - the last verdict that says something about the pair, else the last. `timeout`, `not_faster` and
      `ambiguous_timing` refute nothing.

    Of several such verdicts the last of `device` counts, else the last: a second GPU model adds its verdict
    to a row, and changes neither the row's times nor the GPU that its prompt names.
    """
    kept = sorted(_not_withdrawn(verdicts), key=lambda verdict: verdict.environment.device == device)
    proved = any(verdict.outcome.correct and not _emulated(verdict) for verdict in kept)
    refuting = [
        verdict for verdict in kept if verdict.outcome.refutes and not (proved and _emulated(verdict))
    ]
    on_gpu = [verdict for verdict in refuting if not _emulated(verdict)]
    confirmed, correct = (
        [verdict for verdict in kept if verdict.outcome is wanted]
        for wanted in (Outcome.CONFIRMED, Outcome.CORRECT)
    )
    judged = [verdict for verdict in kept if verdict.outcome.judged]
    return next((found[-1] for found in (on_gpu, refuting, confirmed, correct, judged, kept) if found), None)


def elsewhere(verdicts: Sequence[Verdict], chosen: Verdict | None) -> list[Verdict]:
    """The verdict that counts on each device but that of `chosen`, by name; none without `chosen`."""
    if chosen is None:
        return []
    devices = {verdict.environment.device for verdict in verdicts} - {chosen.environment.device}
    found = (best([one for one in verdicts if one.environment.device == name]) for name in sorted(devices))
    return [verdict for verdict in found if verdict is not None]


def _not_withdrawn(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts without passes that the same device refused later."""
    kept: list[Verdict] = []
    for verdict in verdicts:
        if verdict.outcome.withdraws:
            device = verdict.environment.device
            kept = [one for one in kept if not one.outcome.correct or one.environment.device != device]
        kept.append(verdict)
    return kept


def _emulated(verdict: Verdict) -> bool:
    return verdict.environment.backend == "emulator"
