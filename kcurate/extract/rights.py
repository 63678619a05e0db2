"""The licence of each file that a kernel's code is from, the text that states it, and the copyright holders.

A licence stated in the file itself applies. A file without one is under the nearest LICENSE or COPYING file,
up to the top of its repository; without that too, `--licence` applies. Not covered: reading one text
(`kcurate.core.licence_texts`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kcurate.core import time_limits
from kcurate.core.json_text import shown
from kcurate.core.licence_texts import Notices, explained, joint, of_licence_file, of_source, same
from kcurate.core.worker_pool import Failure, Pool
from kcurate.extract.merge import TreeKernels
from kcurate.extract.walk import read_source
from kcurate.records import Kernel, Rights, Sourced
from kcurate.suites import Tree

OPTION = "--licence"
READ_TOGETHER = 64
SILENT = Notices()
# The licence that a row and each of its copies states; None: it states none that SPDX knows.
Stated = tuple[Sourced | None, ...]
MAX_LICENCE_BYTES = 1_000_000
MAX_HOLDERS = 20
# Names of licence files; those of third parties (`THIRD_PARTY_LICENSES`) are about other files.
_LICENCE_FILE = re.compile(
    r"(?!(?i:.*(?:third|3rd)))(?i:(?:\w+[-_])?(?:un)?(?:licen[cs]es?|copying|copyright|eula)(?:[-_]\w+)*)"
    r"(?:[-_.][A-Z0-9.]+)*(?i:\.(?:txt|md|rst|html|pdf|rtf))?"
)


@dataclass(frozen=True)
class RightsTask:
    """Files to look up: the tree's root and paths in it.

    `stated` maps a path to the licences that its dataset row and the copies of that row state (None: a tree
    without rows).
    """

    root: Path
    paths: tuple[str, ...]
    stated: Mapping[str, Stated] | None = None


@dataclass(frozen=True)
class FileRights:
    """A file's licence and where it is stated; `barrier` is a statement that rules a licence out."""

    path: str
    license: Sourced | None = None
    barrier: Sourced | None = None
    spdx: Sourced | None = None
    holders: tuple[Sourced, ...] = ()


def read_rights(task: RightsTask) -> list[FileRights]:
    """Read files, and the licence files nearest to them, in a worker."""
    nearest: dict[Path, Notices] = {}
    if (stated := task.stated) is not None:
        return [_row_rights(task.root, path, nearest, stated.get(path, ())) for path in task.paths]
    repositories = (folder for folder in (task.root, *task.root.parents) if (folder / ".git").exists())
    top = next(repositories, task.root)
    return [_file_rights(task.root, path, top, nearest) for path in task.paths]


def _row_rights(root: Path, path: str, nearest: dict[Path, Notices], stated: Stated) -> FileRights:
    """The rights of a dataset row: those of its text or licence file, combined with the rows of its copies.

    All their licences apply together. If the row's own text states none and a copy has an unknown licence,
    the row's licence is unknown.
    """
    known = [licence for licence in stated if licence is not None]
    columns = Notices(_joined(known)) if known and len(known) == len(stated) else Notices()
    file = _file_rights(root, path, root, nearest, columns)
    if file.license is None:
        return file
    return replace(file, license=_joined([file.license, *known]))


def _file_rights(
    root: Path, path: str, top: Path, nearest: dict[Path, Notices], otherwise: Notices = SILENT
) -> FileRights:
    """The rights of one file; `otherwise` applies if there is no licence file."""
    data = read_source(root / path)
    if not isinstance(data, bytes):
        return FileRights(path, barrier=Sourced("cannot be read", path))
    notices = of_source(data.decode("utf-8", "replace"), path)
    around = _nearest((root / path).parent, root, top, nearest)
    around = otherwise if around.silent else around
    license, barrier = notices.license, notices.barrier
    if license is None and (barrier is None or (around.license and explained(notices, around.license.value))):
        license, barrier = around.license, around.barrier
    return FileRights(path, license, barrier, notices.spdx, notices.holders or around.holders)


def _nearest(folder: Path, root: Path, top: Path, known: dict[Path, Notices]) -> Notices:
    """The statements of the licence files in the nearest folder that has any, from `folder` up to `top`."""
    if folder not in known:
        files = [_licence_file(path, root) for path in _licence_files(folder)]
        spoken = [notices for notices in files if not notices.silent]
        if spoken:
            known[folder] = _together(spoken)
        elif folder in (top, folder.parent):
            known[folder] = Notices()
        else:
            known[folder] = _nearest(folder.parent, root, top, known)
    return known[folder]


def _licence_files(folder: Path) -> list[Path]:
    try:
        named = (path for path in folder.iterdir() if _LICENCE_FILE.fullmatch(path.name))
        return sorted(path for path in named if path.is_file())
    except OSError:
        return []


def _licence_file(path: Path, root: Path) -> Notices:
    name = Path(os.path.relpath(path, root)).as_posix()
    try:
        with path.open("rb") as file:
            data = file.read(MAX_LICENCE_BYTES + 1)
    except OSError:
        return Notices(barrier=Sourced("cannot be read", shown(name)))
    if len(data) > MAX_LICENCE_BYTES or b"\0" in data:
        return Notices(barrier=Sourced("not a licence that is recognised", shown(name)))
    return of_licence_file(data.decode("utf-8", "replace"), shown(name))


def _together(files: list[Notices]) -> Notices:
    """The statements of several licence files of one folder: all apply; a barrier rules out every licence."""
    barrier = next((file.barrier for file in files if file.barrier), None)
    holders = tuple(holder for file in files for holder in file.holders)
    stated = [file.license for file in files if file.license]
    return Notices(None if barrier else _joined(stated), barrier, holders=holders)


def _joined(stated: list[Sourced]) -> Sourced | None:
    """Several statements as one, with all the places where they are."""
    distinct = list({statement.value: statement for statement in stated}.values())
    if len(distinct) < 2:
        return distinct[0] if distinct else None
    return Sourced(joint(statement.value for statement in distinct) or "", ", ".join(map(place, distinct)))


def place(stated: Sourced) -> str:
    """The place of a statement as text: `file` or `file:line`."""
    return f"{stated.where}:{stated.line}" if stated.line else stated.where


def with_rights(
    tree: TreeKernels, licence: str | None, pool: Pool, stated: Mapping[str, Stated] | None = None
) -> TreeKernels:
    """The kernels with their licence and holders; `licence` is the value of `--licence` (None: not set).

    `stated`: for rows of a dataset, the licences that the row of a path and its copies state.
    """
    paths = sorted({path for kernel in tree.kernels for path in _paths(kernel)})
    tasks = [
        RightsTask(tree.tree.root, tuple(paths[at : at + READ_TOGETHER]), stated)
        for at in range(0, len(paths), READ_TOGETHER)
    ]
    files: dict[str, FileRights] = {}
    for index, answer in pool.run(read_rights, tasks, timeout_s=time_limits.SCAN_FILES_S):
        if isinstance(answer, Failure):
            unread = f"reading its licence {answer.kind}"
            answer = [FileRights(path, barrier=Sourced(unread, path)) for path in tasks[index].paths]
        files.update((file.path, file) for file in answer)
    kernels = (_with_rights(kernel, tree.tree, files, licence) for kernel in tree.kernels)
    return replace(tree, kernels=tuple(kernels))


def _paths(kernel: Kernel) -> dict[str, None]:
    return dict.fromkeys([kernel.span.path, *(span.path for span in kernel.closure)])


def _with_rights(kernel: Kernel, tree: Tree, files: Mapping[str, FileRights], licence: str | None) -> Kernel:
    parts = [files[path] for path in _paths(kernel)]
    stated: Sourced | None
    barrier: Sourced | None = None
    refused: str | None = None
    if kernel.source.license is not None:
        stated = Sourced(kernel.source.license, f"{tree.suite}.toml")
    else:
        option = Sourced(licence, OPTION) if licence else None
        barrier = next((part.barrier for part in parts if part.barrier), None)
        licences = [part.license or option for part in parts]
        stated = (
            None
            if barrier or None in licences
            else _joined([statement for statement in licences if statement])
        )
        file_licences = (part.license for part in parts if part.license)
        contradicting = (
            statement for statement in file_licences if licence and not _agree(licence, statement)
        )
        against = barrier or next(contradicting, None)
        if against is not None:
            says = f"{place(against)} says {against.value!r}"
            refused = f"{OPTION} says {licence!r}, but {says}" if licence else says
    holders = dict.fromkeys(holder for part in parts for holder in part.holders)
    rights = Rights(stated, parts[0].spdx, tuple(holders)[:MAX_HOLDERS], refused)
    source = replace(kernel.source, license=stated.value if stated else None)
    return replace(kernel, source=source, rights=rights)


def _agree(licence: str, stated: Sourced) -> bool:
    """Whether the value of `--licence` is the file's licence or offers it as a choice."""
    choices = [] if "(" in licence or " AND " in licence else licence.split(" OR ")
    return (
        same(licence, stated.value)
        or stated.value in choices
        or stated.value.replace("-only", "-or-later") in choices
    )
