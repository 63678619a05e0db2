"""Profiles on file: those of the built-in pairs, `pairs/profiles/`, and a workspace's.

A profile belongs to content, a side with its problem: every pair with that side has it. Not covered: making
profiles (`kcurate.profile`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kcurate.core import resources, store
from kcurate.core.workspace import Workspace
from kcurate.profiles.counters import VERSION
from kcurate.records import SIDES, Candidate, Profile, SideName


def shipped() -> Path:
    """The folder of the built-in pairs' profiles, one file a GPU model."""
    return resources.pairs_dir() / "profiles"


def side_key(candidate: Candidate, side: SideName) -> str:
    """The key of profiles of exactly this side, on inputs of this problem."""
    return store.bench_key(candidate, side, VERSION)


class Profiles:
    """Profiles by device and key; of several the last counts."""

    def __init__(self, profiles: Iterable[Profile] = ()) -> None:
        self._by_key: dict[tuple[str, str], Profile] = {}
        self._named: set[tuple[str, SideName]] = set()
        for one in profiles:
            self.add(one)

    def add(self, profile: Profile) -> None:
        """Add one."""
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
        """By device, in order of the names, the profiles of the sides that have one there."""
        keys = {side: side_key(candidate, side) for side in SIDES}
        found = {
            device: {side: one for side, key in keys.items() if (one := self._by_key.get((device, key)))}
            for device in self.devices
        }
        return {device: sides for device, sides in found.items() if sides}

    def stale(self, candidate: Candidate, side: SideName) -> bool:
        """Whether there are profiles of a side with this name, and none is of this code."""
        key = side_key(candidate, side)
        named = (candidate.id, side) in self._named
        return named and not any((device, key) in self._by_key for device in self.devices)


def read(workspace: Workspace | None) -> Profiles:
    """The profiles of the built-in pairs, then those of a workspace."""
    folders = [shipped(), *([workspace.profiles] if workspace else [])]
    paths = [path for folder in folders for path in sorted(folder.glob("*.jsonl"))]
    return Profiles(one for path in paths for one in store.read_jsonl(path, Profile))
