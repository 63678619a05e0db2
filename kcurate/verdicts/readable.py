"""Pairs with their verdicts, for stages that report unreadable files and continue.

Not covered: which verdicts belong to a pair (`kcurate.verdicts.standing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kcurate.core import progress, resources, store
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError
from kcurate.records import Candidate, Verdict
from kcurate.verdicts import standing


@dataclass(frozen=True)
class Unreadable:
    """A folder whose pair or verdicts cannot be read; `file` is relative to it."""

    folder: Path
    file: str
    why: str

    @classmethod
    def of(cls, folder: Path, error: InputError) -> Unreadable:
        """From an error about a file in `folder`."""
        return cls(folder, (error.where or "").removeprefix(f"{folder}/"), " ".join(error.what.split()))

    def __str__(self) -> str:
        """The file and the error, in one line."""
        return f"{self.folder / self.file}: {self.why}"


class Judged(NamedTuple):
    """A folder, its pair, and all verdicts on the pair's content or id."""

    folder: Path
    candidate: Candidate
    verdicts: tuple[Verdict, ...]


def pair_folders(workspace: Workspace, *, built_in: bool) -> list[Path]:
    """The pair folders of the workspace and, with `built_in`, those that ship with the package.

    Raises:
        InputError: no pairs.
    """
    every = folders(workspace, built_in=built_in)
    if not every:
        raise InputError(
            "no pairs here",
            where=str(workspace.root),
            hint="run kcurate pair SLOW.cu FAST.cu, or kcurate extract, or add --built-in",
        )
    return every


def folders(workspace: Workspace, *, built_in: bool) -> list[Path]:
    """As `pair_folders`, but the list may be empty."""
    roots = [workspace.pairs, *([resources.pairs_dir()] if built_in else [])]
    return [folder for root in roots if store.is_folder(root) for folder in store.find_candidates(root)]


def judged(folders: Iterable[Path], workspace: Workspace) -> Iterator[Judged | Unreadable]:
    """For every folder, its pair with all verdicts on its content or id, or why it cannot be read."""
    filed = standing.Filed(workspace)
    for folder in progress.each(list(folders), "read", unit="pair"):
        try:
            yield Judged(folder, *filed.of(folder))
        except InputError as error:
            yield Unreadable.of(folder, error)
