"""A pair with its verdicts, or an extracted kernel, by id or path.

Not covered: how a name is resolved (`kcurate.names`), how it is displayed (`kcurate.cli.show`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kcurate import names, own_files, store
from kcurate.records import Candidate, Kernel, Verdict
from kcurate.verdicts.standing import judged
from kcurate.workspace import Workspace


@dataclass(frozen=True)
class ShownPair:
    """A candidate, its folder, and all of its verdicts, oldest first."""

    folder: Path
    candidate: Candidate
    verdicts: tuple[Verdict, ...]


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
    if (folder / "pair.json").is_file():
        ((candidate, verdicts),) = judged([folder], workspace)
        return ShownPair(folder, candidate, verdicts)
    kernel = store.read_json(folder / "kernel.json", Kernel)
    code = own_files.read(folder / "kernel.cu").decode("utf-8", "replace")
    return ShownKernel(folder, kernel, code)
