"""The stage: counts both sides of proved pairs, and writes `profiles/<device>.jsonl` in the workspace.

Resumable: a side with a profile of the same content on the same device is skipped, unless `again` is set, and
each profile is written as soon as its batch is done. Not covered: running the tool (`profiler`), the counters
(`counters`), labels (`label_check`).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum

from kcurate.backends.choice import choose
from kcurate.core import names, progress, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import Run, command, ordered, recorded
from kcurate.core.workspace import Workspace
from kcurate.errors import OptionError
from kcurate.profiling import counters, ncu, on_file
from kcurate.profiling.profiler import Profiler
from kcurate.profiling.settings import ProfileConfig
from kcurate.records import SIDES, Candidate, Item, Outcome, Profile, SideName, Summary
from kcurate.verdicts import items, readable, standing

STAGE = "profile"


class SideOutcome(StrEnum):
    """A side's outcome. `not_confirmed`: no GPU has confirmed the pair, so its code must not run in the
    profiler together with other sides. `no_device_code`: the side is in PyTorch or Triton."""

    PROFILED = "profiled"
    FAILED = "failed"
    NO_DEVICE_CODE = "no_device_code"
    NOT_CONFIRMED = "not_confirmed"
    MALFORMED = "malformed"


def named_pairs(
    config: ProfileConfig, workspace: Workspace
) -> Iterator[readable.Judged | readable.Unreadable]:
    """The pairs that a config names, each with its verdicts.

    Raises:
        InputError: there are none.
    """
    if config.paths:
        folders = names.pairs(map(str, config.paths), workspace)
    else:
        folders = readable.pair_folders(workspace, built_in=config.built_in)
    yield from readable.judged(folders[: config.limit or None], workspace)


def run(config: ProfileConfig, *, note: Note = silent) -> Summary:
    """Profile both sides of the confirmed pairs; the counts are over sides.

    Raises:
        InputError: no pairs. MissingDependencyError: no GPU, no `ncu`, or no permission to read counters.
    """
    with recorded(STAGE, config.workspace, note=note) as record:
        workspace = Workspace(config.workspace)
        pairs = list(named_pairs(config, workspace))
        ncu.installed()
        place = choose("cuda", config.gpu, note=record.note)
        if len(place.gpus) > 1:
            raise OptionError("profiles are made on one GPU", where=f"--gpu {config.gpu}", hint="name one")
        record.begin(config)
        profiles = on_file.read(workspace)
        tool = ncu.version()
        profiler = Profiler.open(place.gpus[0], counters.metrics(ncu.known_metrics()))
        with contextlib.closing(profiler):
            failed = _profile(profiler, tool, _wanted(pairs, config, profiles, profiler), profiles, workspace)
        return record.finish(
            {"sides": _results(pairs, profiler.environment.device, profiles, failed, record)}
        )


def _wanted(
    pairs: Sequence[readable.Judged | readable.Unreadable],
    config: ProfileConfig,
    profiles: on_file.Profiles,
    profiler: Profiler,
) -> list[tuple[Candidate, SideName]]:
    """The sides to profile; equal content only once."""
    sides: dict[str, tuple[Candidate, SideName]] = {}
    device = profiler.environment.device
    for pair in pairs:
        if isinstance(pair, readable.Unreadable) or not confirmed(pair):
            continue
        for side in SIDES:
            profiled = profiles.of(pair.candidate, side, device) is not None and not config.again
            if not profiled and getattr(pair.candidate, side).language == "cuda":
                sides.setdefault(on_file.side_key(pair.candidate, side), (pair.candidate, side))
    return list(sides.values())


def confirmed(pair: readable.Judged) -> bool:
    """Whether the pair's current content is confirmed."""
    best = standing.best(standing.current(pair.candidate, pair.verdicts))
    return best is not None and best.outcome is Outcome.CONFIRMED


def _profile(
    profiler: Profiler,
    tool: str,
    sides: Sequence[tuple[Candidate, SideName]],
    profiles: on_file.Profiles,
    workspace: Workspace,
) -> dict[str, str]:
    """Profile the sides and write each profile; returns the reasons of failures, by key."""
    failed: dict[str, str] = {}
    environment = profiler.environment
    with progress.bar(f"{STAGE} on {environment.device}", len(sides), "side") as bar:
        for number, measured in profiler.profile(sides):
            candidate, side = sides[number]
            key = on_file.side_key(candidate, side)
            if isinstance(measured, str):
                failed[key] = measured
            else:
                profile = Profile(
                    candidate=candidate.id,
                    side=side,
                    key=key,
                    device=environment.device,
                    tool=tool,
                    launches=measured.launches,
                    profiled=len(measured.counted),
                    counters=counters.of_side(measured.counted),
                    driver=environment.driver,
                    compiler=measured.compiler,
                )
                store.append_jsonl(workspace.profiled(profile.device), profile)
                profiles.add(profile)
            bar.update()
    return failed


def _results(
    pairs: Sequence[readable.Judged | readable.Unreadable],
    device: str,
    profiles: on_file.Profiles,
    failed: dict[str, str],
    record: Run,
) -> dict[str, int]:
    """Add an item for each side to the record; returns the counts."""
    workspace = Workspace(record.workspace)
    counts: Counter[str] = Counter()
    for pair in pairs:
        if isinstance(pair, readable.Unreadable):
            record.add(items.unreadable("sides", SideOutcome.MALFORMED, pair, workspace))
            counts[SideOutcome.MALFORMED] += 1
            continue
        for side in SIDES:
            item = _item(pair, side, device, profiles, failed, workspace)
            record.add(item)
            counts[item.outcome] += 1
    return ordered(counts, SideOutcome)


def _item(
    pair: readable.Judged,
    side: SideName,
    device: str,
    profiles: on_file.Profiles,
    failed: dict[str, str],
    workspace: Workspace,
) -> Item:
    candidate = pair.candidate
    name, file = f"{candidate.id} {side}", str(pair.folder / "pair.json")
    why, following = "", None
    if (failure := failed.get(on_file.side_key(candidate, side))) is not None:
        outcome, why = SideOutcome.FAILED, failure
        following = command(workspace.root, "validate", candidate.id)
    elif profiles.of(candidate, side, device) is not None:
        outcome = SideOutcome.PROFILED
    elif not confirmed(pair):
        outcome, why = SideOutcome.NOT_CONFIRMED, "no GPU has confirmed the pair as it is"
        following = command(workspace.root, "validate", candidate.id)
    else:
        outcome, why = SideOutcome.NO_DEVICE_CODE, f"the side is {getattr(candidate, side).language}"
    passed = outcome in (SideOutcome.PROFILED, SideOutcome.NO_DEVICE_CODE)
    return Item("sides", name, outcome, passed, why, file, following)
