"""Publishes into a local folder: lists it, checks that a dataset may be written, and writes it.

Not covered: which files a dataset has, and how they are compared (`kcurate.dataset.push`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kcurate.core import store
from kcurate.dataset import changes, parquet
from kcurate.errors import InputError, RecordError
from kcurate.hub.repository import Remote


def look(folder: Path, files: Mapping[str, bytes]) -> Remote:
    """The folder's files except hidden ones, as the Hub would list them; files not in `files` have no hash.

    Raises:
        InputError: it is not a folder, or a file cannot be read.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError("not a folder", where=str(folder), hint="give --to another name")
    hashes: dict[str, str] = {}
    try:
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            relative = path.relative_to(folder)
            if path.is_file() and not any(part.startswith(".") for part in relative.parts):
                name = relative.as_posix()
                hashes[name] = hashlib.sha256(path.read_bytes()).hexdigest() if name in files else ""
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(error.filename or folder)) from error
    return Remote("", hashes, {})


def check(files: Mapping[str, bytes], folder: Path, existing: Remote, ours: changes.History) -> None:
    """Check that the files may be written: the folder is new, empty, or holds a dataset of kcurate.

    An interrupted push leaves some of the same files without `versions.json`; it may be completed.

    Raises:
        InputError: the folder holds something else, or this version with other rows.
    """
    history = _history(folder)
    if history is None:
        foreign = [name for name in existing.files if not existing.has(name, files.get(name, b""))]
        if foreign:
            raise InputError(
                f"holds {foreign[0]} and is not a dataset of kcurate",
                where=str(folder),
                hint="give --to a new or an empty folder",
            )
        return
    published = ours.version in {change.version for change in history.changes}
    same = history == ours if history.version == ours.version else ours.changes[0] in history.changes
    if published and not same:
        raise InputError(
            f"v{ours.version} is published with other rows",
            where=str(folder),
            hint="kcurate build --version X.Y.Z",
        )


def _history(folder: Path) -> changes.History | None:
    try:
        return changes.read(folder)
    except RecordError:  # another program's file of that name
        return None


def check_writable(paths: Iterable[str], folder: Path) -> None:
    """Check that these files can be written and removed, as far as possible without trying.

    Raises:
        InputError: a file is in the place of a folder, or the reverse, or a folder is read-only.
    """
    for path in paths:
        if (folder / path).is_dir():
            raise _refused(folder / path, errno.EISDIR)
        parent = next(above for above in (folder / path).absolute().parents if os.path.lexists(above))
        if not parent.is_dir():
            raise _refused(parent, errno.ENOTDIR)
        if not os.access(parent, os.W_OK | os.X_OK):
            raise _refused(parent, errno.EACCES)


def _refused(path: Path, code: int) -> InputError:
    hint = "check the folder's permissions, or give --to another"
    return InputError(f"cannot write: {os.strerror(code)}", where=str(path), hint=hint)


def put(sent: Mapping[str, bytes], removed: Sequence[str], folder: Path) -> None:
    """Write and remove files and load every config. `versions.json` comes last, to mark a complete push.

    Raises:
        InputError: a file cannot be written or removed, or a config does not load.
    """
    for path, content in sent.items():
        if path != changes.FILE:
            store.write_bytes(folder / path, content)
    for path in removed:
        try:
            (folder / path).unlink()
        except OSError as error:
            raise InputError(f"cannot remove: {error.strerror}", where=str(folder / path)) from error
    with tempfile.TemporaryDirectory() as cache:
        parquet.load(folder, Path(cache))
    if changes.FILE in sent:
        store.write_bytes(folder / changes.FILE, sent[changes.FILE])
