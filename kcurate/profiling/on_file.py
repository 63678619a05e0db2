"""Profiles on file: those of the built-in pairs (`pairs/profiles/`) and those of a workspace.

A profile belongs to the content of a side and its problem, so every pair with that content has it. Not
covered: making profiles (`kcurate.profiling.stage`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from kcurate.core import resources, store
from kcurate.core.workspace import Workspace
from kcurate.profiling.counters import VERSION, capped
from kcurate.records import SIDES, Candidate, Profile, SideName


def shipped() -> Path:
    """The folder with the profiles of the built-in pairs, one file per GPU model."""
    return resources.pairs_dir() / "profiles"


def side_key(candidate: Candidate, side: SideName) -> str:
    """The key of profiles of exactly this side, on inputs of this problem."""
    return store.bench_key(candidate, side, VERSION)


class Profiles:
    """Profiles by device and key; if there are several, the last one counts."""

    def __init__(self, profiles: Iterable[Profile] = ()) -> None:
        self._by_key: dict[tuple[str, str], Profile] = {}
        self._named: set[tuple[str, SideName]] = set()
        for profile in profiles:
            self.add(profile)

    def add(self, profile: Profile) -> None:
        """Add a profile, which replaces an earlier one with the same device and key."""
        profile = replace(profile, counters=capped(profile.counters))
        self._by_key[profile.device, profile.key] = profile
        self._named.add((profile.candidate, profile.side))

    @property
    def devices(self) -> list[str]:
        """The devices that have profiles."""
        return sorted({device for device, _ in self._by_key})

    def of(self, candidate: Candidate, side: SideName, device: str) -> Profile | None:
        """The profile of a side on a device."""
        return self._by_key.get((device, side_key(candidate, side)))

    def by_device(self, candidate: Candidate) -> dict[str, Mapping[SideName, Profile]]:
        """The existing profiles of both sides, by device in alphabetical order."""
        keys = {side: side_key(candidate, side) for side in SIDES}
        by_device = {
            device: {
                side: profile for side, key in keys.items() if (profile := self._by_key.get((device, key)))
            }
            for device in self.devices
        }
        return {device: sides for device, sides in by_device.items() if sides}

    def stale(self, candidate: Candidate, side: SideName) -> bool:
        """Whether the side has profiles, but none of its current code."""
        key = side_key(candidate, side)
        named = (candidate.id, side) in self._named
        return named and not any((device, key) in self._by_key for device in self.devices)


def read(workspace: Workspace | None) -> Profiles:
    """The profiles of the built-in pairs, then those of a workspace."""
    folders = [shipped(), *([workspace.profiles] if workspace else [])]
    paths = [path for folder in folders for path in sorted(folder.glob("*.jsonl"))]
    return Profiles(profile for path in paths for profile in store.read_jsonl(path, Profile))
