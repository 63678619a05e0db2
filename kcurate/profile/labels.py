"""`kcurate profile --check-labels`: every technique of every pair, held against the profiles of both sides.

An ablation supports a label too: what the pair says that the technique is worth, or a confirmed pair of this
workspace whose slow side was made from this pair by removing the technique.
Not covered: which counters a technique moves (`kcurate.profiles.labels`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from kcurate.core.notes import Note, silent
from kcurate.core.runs import command, ordered, recorded
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError
from kcurate.profile.stage import STAGE, ProfileConfig, confirmed, given
from kcurate.profiles import labels, on_file
from kcurate.records import SIDES, Candidate, Item, Profile, Summary
from kcurate.verdicts import items, readable, standing


class LabelOutcome(StrEnum):
    """A label's outcome. `ablation`: its counters do not move, and removing the technique made the kernel
    slower. `no_counter`: no counter shows this technique, here at least. `stale`: the profiles are of other
    code."""

    SUPPORTED = "supported"
    ABLATION = "ablation"
    UNSUPPORTED = "unsupported"
    NO_COUNTER = "no_counter"
    NOT_PROFILED = "not_profiled"
    STALE = "stale"
    MALFORMED = "malformed"


def check(config: ProfileConfig, *, note: Note = silent) -> Summary:
    """Hold labels against profiles on file; needs no GPU. The counts are over labels.

    Raises:
        InputError: no pairs, or no profiles at all.
    """
    with recorded(STAGE, config.workspace, note=note) as record:
        workspace = Workspace(config.workspace)
        pairs = list(given(config, workspace))
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
    """By pair and technique: how much faster the pair is with it, from confirmed pairs without it."""
    found: dict[tuple[str, str], float] = {}
    for pair in readable.judged(readable.folders(workspace, built_in=False), workspace):
        if isinstance(pair, readable.Unreadable) or not confirmed(pair):
            continue
        origin, best = pair.candidate.origin, standing.best(standing.current(pair.candidate, pair.verdicts))
        if origin.made == "slow" and origin.parent and len(pair.candidate.techniques) == 1:
            assert best is not None, "it is confirmed"
            ratio = best.speedup.ratio if best.speedup else 1.0
            key = (origin.parent, pair.candidate.techniques[0])
            found[key] = max(found.get(key, 0.0), ratio)
    return found


def _of_pair(
    pair: readable.Judged | readable.Unreadable,
    profiles: on_file.Profiles,
    removed: Mapping[tuple[str, str], float],
    workspace: Workspace,
) -> list[Item]:
    if isinstance(pair, readable.Unreadable):
        return [items.unreadable("labels", LabelOutcome.MALFORMED, pair, workspace)]
    candidate, file = pair.candidate, str(pair.folder / "pair.json")
    both = chosen(candidate, profiles)
    found = []
    for technique in candidate.techniques:
        outcome, why = judged(candidate, technique, both, profiles, removed)
        passed = outcome not in (LabelOutcome.UNSUPPORTED, LabelOutcome.NOT_PROFILED, LabelOutcome.STALE)
        word = "show" if outcome is LabelOutcome.UNSUPPORTED else STAGE
        following = None if passed else command(workspace.root, word, candidate.id)
        found.append(Item("labels", f"{candidate.id} {technique}", outcome, passed, why, file, following))
    return found


def chosen(candidate: Candidate, profiles: on_file.Profiles) -> tuple[Profile, Profile] | None:
    """The profiles of both sides on one device, that whose verdicts stand if there are any."""
    found = profiles.by_device(candidate)
    whole = {device: sides for device, sides in found.items() if len(sides) == len(SIDES)}
    if not whole:
        return None
    sides = whole.get(standing.STANDS) or whole[min(whole)]
    return sides["slow"], sides["fast"]


def judged(
    candidate: Candidate,
    technique: str,
    both: tuple[Profile, Profile] | None,
    profiles: on_file.Profiles,
    removed: Mapping[tuple[str, str], float],
) -> tuple[LabelOutcome, str]:
    """A label's outcome, and what it rests on."""
    if technique not in labels.EXPECTED:
        return LabelOutcome.NO_COUNTER, "no counter shows this technique"
    counted = all(getattr(candidate, side).language == "cuda" for side in SIDES)
    if counted and both is None:
        if any(profiles.stale(candidate, side) for side in SIDES):
            return LabelOutcome.STALE, "the profiles are of other code"
        return LabelOutcome.NOT_PROFILED, "the sides have no profiles"
    found = labels.moves(technique, *both) if both else []
    right = [move for move in found if move.right]
    if right:
        return LabelOutcome.SUPPORTED, str(right[0])
    if (gain := removed.get((candidate.id, technique), candidate.worth.get(technique))) is not None:
        return LabelOutcome.ABLATION, f"{gain:.2f} times as fast as without it"
    if not counted:
        return LabelOutcome.NO_COUNTER, "ncu counts no sides in PyTorch or Triton here"
    if not found:
        return LabelOutcome.NO_COUNTER, "the slow side has nothing that could fall"
    return LabelOutcome.UNSUPPORTED, "; ".join(map(str, found))
