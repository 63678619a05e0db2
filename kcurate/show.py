"""Finds a pair with its verdicts, or an extracted kernel, by id or path.

Not covered: how it is displayed (`kcurate.cli.show`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kcurate import codec, resources, store
from kcurate.errors import InputError, RecordError
from kcurate.records import Candidate, Kernel, Verdict
from kcurate.verdicts.standing import judged
from kcurate.workspace import Workspace

RECORDS = ("pair.json", "kernel.json")


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
    """Resolve `name`: a path, else an id (or its last parts) in the workspace, else a built-in pair.

    Raises:
        InputError: nothing has that name, or several do.
    """
    folder = _at_path(Path(name)) or _by_id(name.rstrip("/") or name, workspace)
    if (folder / "pair.json").is_file():
        ((candidate, verdicts),) = judged([folder], workspace)
        return ShownPair(folder, candidate, verdicts)
    kernel = store.read_json(folder / "kernel.json", Kernel)
    code = (folder / "kernel.cu").read_bytes().decode("utf-8", "replace")
    return ShownKernel(folder, kernel, code)


def _at_path(path: Path) -> Path | None:
    folder = path.parent if path.name in (*RECORDS, "slow.cu", "fast.cu", "kernel.cu") else path
    return folder if any((folder / record).is_file() for record in RECORDS) else None


def _by_id(name: str, workspace: Workspace) -> Path:
    known: list[str] = []
    for root in (workspace.pairs, workspace.kernels, resources.pairs_dir()):
        found = (path.parent for record in RECORDS for path in sorted(root.rglob(record)))
        folders = {folder.relative_to(root).as_posix(): folder for folder in found}
        matches = [folders[name]] if name in folders else _ending(name, folders.items())
        matches = matches or _with_id(name, folders.values())
        if len(matches) == 1:
            return matches[0]
        if matches:
            listed = ", ".join(sorted(path.relative_to(root).as_posix() for path in matches)[:5])
            raise InputError(f"ambiguous, {len(matches)} matches: {listed}", where=name)
        known += folders
    raise InputError("no such pair or kernel", where=name, hint=_hint(name, known))


def _ending(name: str, folders: Iterable[tuple[str, Path]]) -> list[Path]:
    return [folder for known, folder in folders if f"/{known}".endswith(f"/{name}")]


def _with_id(name: str, folders: Iterable[Path]) -> list[Path]:
    """The folders whose record has that id, whatever their names; else those whose id ends with it."""
    ids = [(found, folder) for folder in folders if (found := _id(folder))]
    return [folder for known, folder in ids if known == name] or _ending(name, ids)


def _id(folder: Path) -> str | None:
    """The id in a record, which may otherwise be invalid."""
    path = next(folder / record for record in RECORDS if (folder / record).exists())
    try:
        data = codec.parse(path.read_bytes(), where=str(path))
    except (OSError, RecordError):
        return None
    found = data.get("id") if isinstance(data, dict) else None
    return found if isinstance(found, str) else None


def _hint(name: str, known: Iterable[str]) -> str:
    ends = {key.rsplit("/", 1)[-1]: key for key in known}
    close = difflib.get_close_matches(name.rsplit("/", 1)[-1], ends, n=3)
    if close:
        return "did you mean " + " or ".join(ends[end] for end in close) + "?"
    return "give a folder with pair.json or kernel.json, or an id from the workspace or the built-in pairs"
