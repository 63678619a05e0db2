"""A pair with its verdicts, or an extracted kernel, by id or path.

Not covered: how a name is resolved (`kcurate.core.names`), how it is displayed (`kcurate.cli.show`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kcurate.core import names, store
from kcurate.core.workspace import Workspace
from kcurate.profiling import on_file
from kcurate.records import SIDES, Candidate, Kernel, Profile, SideName, Verdict
from kcurate.verdicts.standing import judged


@dataclass(frozen=True)
class ShownPair:
    """A candidate, its folder, all its verdicts (oldest first), and the profiles of its sides by device.

    `stale_profiles`: a side has profiles, but of different code.
    """

    folder: Path
    candidate: Candidate
    verdicts: tuple[Verdict, ...]
    profiles: Mapping[str, Mapping[SideName, Profile]] = field(default_factory=dict)
    stale_profiles: bool = False


@dataclass(frozen=True)
class ShownKernel:
    """An extracted kernel and its standalone code."""

    folder: Path
    kernel: Kernel
    code: str


def find(name: str, workspace: Workspace) -> ShownPair | ShownKernel:
    """Resolve `name`: a path, else an id (its last parts, a prefix) in the workspace, else a built-in pair.

    Raises:
        InputError: nothing has that name, or several do.
    """
    folder = names.one(name, workspace)
    if store.exists(folder / "pair.json"):
        ((candidate, verdicts),) = judged([folder], workspace)
        profiles = on_file.read(workspace)
        stale = any(profiles.stale(candidate, side) for side in SIDES)
        return ShownPair(folder, candidate, verdicts, profiles.by_device(candidate), stale)
    kernel = store.read_json(folder / "kernel.json", Kernel)
    code = store.read_kernel_code(folder)
    return ShownKernel(folder, kernel, code)


def with_worth(pair: Candidate) -> str:
    """The techniques, each with the slowdown of its ablation if that was measured."""
    measured = {name: f"{name} ({ratio:.2f})" for name, ratio in pair.worth.items()}
    return ", ".join(measured.get(name, name) for name in pair.techniques)
