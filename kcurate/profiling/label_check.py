"""`kcurate profile --check-labels`: checks each pair's technique labels against the profiles of both sides.

An ablation supports a label too: the gain that the pair records for the technique (`worth`), or a confirmed
pair in this workspace whose slow side was made from this pair by removing the technique. Not covered: the
counters that a technique changes (`kcurate.profiling.technique_counters`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from kcurate.core.notes import Note, silent
from kcurate.core.runs import command, ordered, recorded
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError
from kcurate.profiling import on_file, technique_counters
from kcurate.profiling.settings import ProfileConfig
from kcurate.profiling.stage import STAGE, confirmed, named_pairs
from kcurate.records import SIDES, Candidate, Item, Profile, Summary
from kcurate.verdicts import items, readable, standing


class LabelOutcome(StrEnum):
    """A label's outcome.

    `ablation`: its counters do not change, but removing the technique made the kernel slower. `no_counter`:
    no counter on this machine reflects the technique. `stale`: the profiles are of other code.
    """

    SUPPORTED = "supported"
    ABLATION = "ablation"
    UNSUPPORTED = "unsupported"
    NO_COUNTER = "no_counter"
    NOT_PROFILED = "not_profiled"
    STALE = "stale"
    MALFORMED = "malformed"


def check(config: ProfileConfig, *, note: Note = silent) -> Summary:
    """Check labels against stored profiles; needs no GPU. The counts are over labels.

    Raises:
        InputError: no pairs, or no profiles at all.
    """
    with recorded(STAGE, config.workspace, note=note) as record:
        workspace = Workspace(config.workspace)
        pairs = list(named_pairs(config, workspace))
        profiles = on_file.read(workspace)
        if not profiles.devices:
            hint = f"run {command(workspace.root, STAGE)} on a machine with a GPU and ncu"
            raise InputError("no profiles here", where=str(workspace.profiles), hint=hint)
        record.begin(config)
        removed = ablations(workspace)
        counts: Counter[str] = Counter()
        for pair in pairs:
            for item in _of_pair(pair, profiles, removed, workspace):
                record.add(item)
                counts[item.outcome] += 1
        return record.finish({"labels": ordered(counts, LabelOutcome)})


def ablations(workspace: Workspace) -> Mapping[tuple[str, str], float]:
    """Speedup of each (pair, technique), measured by confirmed pairs whose slow side lacks the technique."""
    gains: dict[tuple[str, str], float] = {}
    for pair in readable.judged(readable.folders(workspace, built_in=False), workspace):
        if isinstance(pair, readable.Unreadable) or not confirmed(pair):
            continue
        origin, best = pair.candidate.origin, standing.best(standing.current(pair.candidate, pair.verdicts))
        if origin.made == "slow" and origin.parent and len(pair.candidate.techniques) == 1:
            assert best is not None, "it is confirmed"
            ratio = best.speedup.ratio if best.speedup else 1.0
            key = (origin.parent, pair.candidate.techniques[0])
            gains[key] = max(gains.get(key, 0.0), ratio)
    return gains


def _of_pair(
    pair: readable.Judged | readable.Unreadable,
    profiles: on_file.Profiles,
    removed: Mapping[tuple[str, str], float],
    workspace: Workspace,
) -> list[Item]:
    if isinstance(pair, readable.Unreadable):
        return [items.unreadable("labels", LabelOutcome.MALFORMED, pair, workspace)]
    candidate, file = pair.candidate, str(pair.folder / "pair.json")
    sides = side_profiles(candidate, profiles)
    labels = []
    for technique in candidate.techniques:
        outcome, why = label_outcome(candidate, technique, sides, profiles, removed)
        passed = outcome not in (LabelOutcome.UNSUPPORTED, LabelOutcome.NOT_PROFILED, LabelOutcome.STALE)
        word = "show" if outcome is LabelOutcome.UNSUPPORTED else STAGE
        following = None if passed else command(workspace.root, word, candidate.id)
        labels.append(Item("labels", f"{candidate.id} {technique}", outcome, passed, why, file, following))
    return labels


def side_profiles(candidate: Candidate, profiles: on_file.Profiles) -> tuple[Profile, Profile] | None:
    """The profiles of both sides on one device, by preference the GPU model whose verdicts count."""
    profiled = profiles.by_device(candidate)
    complete = {device: sides for device, sides in profiled.items() if len(sides) == len(SIDES)}
    if not complete:
        return None
    sides = complete.get(standing.STANDS) or complete[min(complete)]
    return sides["slow"], sides["fast"]


def label_outcome(
    candidate: Candidate,
    technique: str,
    sides: tuple[Profile, Profile] | None,
    profiles: on_file.Profiles,
    removed: Mapping[tuple[str, str], float],
) -> tuple[LabelOutcome, str]:
    """A label's outcome, and the evidence for it."""
    if technique not in technique_counters.EXPECTED:
        return LabelOutcome.NO_COUNTER, "no counter shows this technique"
    countable = all(getattr(candidate, side).language == "cuda" for side in SIDES)
    if countable and sides is None:
        if any(profiles.stale(candidate, side) for side in SIDES):
            return LabelOutcome.STALE, "the profiles are of other code"
        return LabelOutcome.NOT_PROFILED, "the sides have no profiles"
    changes = technique_counters.moves(technique, *sides) if sides else []
    expected = [change for change in changes if change.right]
    if expected:
        return LabelOutcome.SUPPORTED, str(expected[0])
    if (gain := removed.get((candidate.id, technique), candidate.worth.get(technique))) is not None:
        return LabelOutcome.ABLATION, f"{gain:.2f} times as fast as without it"
    if not countable:
        return LabelOutcome.NO_COUNTER, "ncu counts no sides in PyTorch or Triton here"
    if not changes:
        return LabelOutcome.NO_COUNTER, "no counter of the slow side is high enough to drop"
    return LabelOutcome.UNSUPPORTED, "; ".join(map(str, changes))
