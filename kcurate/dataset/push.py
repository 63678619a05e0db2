"""`kcurate push`: publishes a built dataset to the Hub or to another folder.

The dataset is checked and compared with the remote. All changes become one commit on top of the commit that
was compared. That commit is downloaded again and loaded with `datasets`; only then is the version tagged.
Files that kcurate did not write are kept. Not covered: building (`kcurate.dataset.stage`), the client's calls
(`kcurate.hub.repository`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kcurate.core import progress, store
from kcurate.core.licence_texts import canonical
from kcurate.core.notes import Note, silent
from kcurate.core.runs import Run, recorded
from kcurate.core.workspace import Workspace
from kcurate.dataset import changes, croissant, parquet, secrets
from kcurate.dataset.gates import bad_row
from kcurate.dataset.rows import whole
from kcurate.dataset.settings import PushConfig
from kcurate.errors import InputError, OptionError, RecordError, RemoteError
from kcurate.hub.published_rows import read_rows
from kcurate.hub.repository import Hub, Remote
from kcurate.records import Summary


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


_ROOT_FILES = (
    "README.md",
    "ATTRIBUTION.md",
    "CHANGES.md",
    "gates.json",
    "speedups.svg",
    croissant.FILE,
    changes.FILE,
)


def run(config: PushConfig, *, note: Note = silent) -> Summary:
    """Publish the workspace's dataset; the counts are over its files and the target's.

    Raises:
        InputError: no dataset, one that was modified after the build, or a version that already exists.
        MissingDependencyError: no token. RemoteError: the Hub refused, or returned other files.
    """
    if config.repo is None and config.to is None:
        raise InputError("no target", where="push", hint="give --repo USER/NAME, or --to DIR")
    if config.repo is not None and config.to is not None:
        raise OptionError("--repo and --to exclude each other", where="push")
    with recorded("push", config.workspace, note=note) as record:
        with progress.bar("check the dataset"):
            files, history = _checked(Workspace(config.workspace).dataset)
        if not config.dry_run:
            record.begin({"repo": config.repo, "to": config.to, "version": history.version})
        if config.to is not None:
            changed = _to_folder(files, history, config.to, dry_run=config.dry_run)
        else:
            with progress.bar(f"push to {config.repo}"):
                changed = _to_hub(files, history.version, config, record.note)
        counts = _counted(changed, record)
        if config.dry_run:
            record.note("dry run: nothing was changed")
            return record.summary({"files": counts})
        return record.finish({"files": counts})


def _checked(folder: Path) -> tuple[dict[str, bytes], changes.History]:
    """The dataset's files by path, and its history; repeats the checks of `build`."""
    history = changes.read(folder)
    if history is None:
        raise InputError("no dataset here", where=str(folder), hint="run kcurate build")
    rows = {split: [whole(row) for row in read] for split, read in read_rows(folder).items()}
    if changes.follow(history, rows) is not history:
        raise InputError("the rows were modified after the build", where=str(folder), hint="build it again")
    for row in (row for split_rows in rows.values() for row in split_rows):
        fault = bad_row(row) or "; ".join(secrets.findings(row))
        if fault:
            raise InputError(f"must not be published: {fault}", where=str(row["id"]), hint="build it again")
        if row["license"] and canonical(row["license"]) is None:
            raise InputError("its licence is not an SPDX expression", where=str(row["id"]))
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    return {name: content for name, content in files.items() if _ours(name)}, history


def _ours(path: str) -> bool:
    return path in _ROOT_FILES or parquet.is_data_file(path)


def _compare(
    files: Mapping[str, bytes], remote: Remote
) -> tuple[dict[str, bytes], list[str], dict[str, str]]:
    """Files to send, files to remove, and how each file changes: added, changed, removed or unchanged."""
    sent = {path: content for path, content in files.items() if not remote.has(path, content)}
    removed = sorted(path for path in remote.files if _ours(path) and path not in files)
    changed = {
        path: "unchanged" if path not in sent else "changed" if path in remote.files else "added"
        for path in files
    }
    return sent, removed, changed | dict.fromkeys(removed, "removed")


def _counted(changed: Mapping[str, str], record: Run) -> dict[str, int]:
    """The number of files by change, in order; adds every file to the run's items."""
    for path, change in changed.items():
        record.item("files", path, change, passed=True)
    counts = Counter(changed.values())
    return {name: counts[name] for name in ("added", "changed", "removed", "unchanged") if counts[name]}


def _to_hub(files: Mapping[str, bytes], version: str, config: PushConfig, note: Note) -> dict[str, str]:
    writes = not config.dry_run
    hub = Hub(str(config.repo), endpoint=config.endpoint, token=config.token, writes=writes)
    remote = hub.look()
    if remote is None and hub.token is None:
        note(f"{hub.repo}: not there, or private; without a token (HF_TOKEN) the Hub does not say which")
    tag = f"v{version}"
    if remote is not None and config.private and not remote.private:
        raise InputError("is public", where=hub.repo, hint="make it private on the Hub, or omit --private")
    if remote is not None and tag in remote.tags:
        _same_version(hub, files, tag)
    if config.dry_run:
        return _compare(files, remote or Remote("", {}, {}))[2]
    if remote is None:
        hub.create(private=config.private)
        remote = hub.look()
        if remote is None:
            raise RemoteError("was created but cannot be found", where=hub.repo, hint="run the command again")
    sent, removed, changed = _compare(files, remote)
    head = remote.head
    if sent or removed:
        head = hub.commit(sent, removed, parent=head, message=f"Version {version}")
    _load_back(hub, head, files)
    if tag not in remote.tags:
        hub.tag(tag, head, f"Version {version}")
    note(f"{hub.repo}: {tag} is commit {head[:10]}, downloaded and verified")
    return changed


def _same_version(hub: Hub, files: Mapping[str, bytes], tag: str) -> None:
    """Refuse to reuse a published version for other rows."""
    with tempfile.TemporaryDirectory() as folder:
        published = hub.read(changes.FILE, tag, Path(folder))
    if published != files[changes.FILE]:
        raise InputError(
            f"{tag} is published with other rows", where=hub.repo, hint="kcurate build --version X.Y.Z"
        )


def _load_back(hub: Hub, commit: str, files: Mapping[str, bytes]) -> None:
    """Download the commit, compare every file, and load every config with `datasets`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "dataset"
        hub.download(commit, folder)
        for path, content in files.items():
            if not (folder / path).is_file() or (folder / path).read_bytes() != content:
                raise RemoteError(f"a downloaded file differs from the one sent: {path}", where=hub.repo)
        parquet.load(folder, Path(name) / "cache")


def _to_folder(
    files: Mapping[str, bytes], history: changes.History, folder: Path, *, dry_run: bool
) -> dict[str, str]:
    existing = look(folder, files)
    check(files, folder, existing, history)
    sent, removed, changed = _compare(files, existing)
    check_writable([*sent, *removed], folder)
    if not dry_run:
        put(sent, removed, folder)
    return changed
