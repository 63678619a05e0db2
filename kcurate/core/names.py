"""Finds pairs and kernels by name: a path, an id, the last parts of an id, or a unique prefix of one.

Ids are searched for in the workspace first, then among the built-in pairs. Not covered: reading the folders
(`kcurate.core.store`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kcurate.core import codec, own_files, resources, store
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError

PAIR, KERNEL = "pair.json", "kernel.json"
RECORDS = (PAIR, KERNEL)
_NOUNS: Mapping[tuple[str, ...], str] = {(PAIR,): "pair", (KERNEL,): "kernel"}


def one(name: str, workspace: Workspace, records: Sequence[str] = RECORDS) -> Path:
    """The folder of the only pair or kernel of that name; `records` are searched for in this order.

    Raises:
        InputError: nothing has that name, or several do.
    """
    if not name:
        raise InputError("an empty name", hint=_usage_hint(records))
    return _at_path(Path(name), records) or _by_id(name.rstrip("/") or name, workspace, records)


def some(name: str, workspace: Workspace, records: Sequence[str] = RECORDS) -> Path:
    """An existing path, else a folder inside the workspace's pairs or kernels, else the result of `one`.

    Raises:
        InputError: nothing has that name, or several do.
    """
    path = Path(name)
    if path.exists() or store.exists(path) or store.is_folder(path):
        return path
    stays_inside = not path.is_absolute() and ".." not in path.parts
    folders = [root / path for root in _roots(workspace, records)] if stays_inside else []
    return next((folder for folder in folders if store.is_folder(folder)), None) or one(
        name, workspace, records
    )


def pairs(texts: Iterable[str], workspace: Workspace) -> list[Path]:
    """The folders of all pairs at or below the folders that `some` finds for these names, each once.

    Raises:
        InputError: nothing has such a name, or several do, or there is no pair below it.
    """
    roots = [some(name, workspace, (PAIR,)) for name in texts]
    folders = {folder.resolve(): folder for root in roots for folder in store.find_candidates(root)}
    if not folders:
        raise InputError("no pair.json here", where=", ".join(map(str, roots)), hint="check the path")
    return list(folders.values())


def ids(workspace: Workspace, records: Sequence[str] = RECORDS) -> Iterator[str]:
    """Every name that `one` finds: paths below the workspace's folders or below the built-in pairs."""
    for root in _roots(workspace, records):
        for record in records:
            yield from (path.parent.relative_to(root).as_posix() for path in store.find(root, record))


def _roots(workspace: Workspace, records: Sequence[str]) -> list[Path]:
    of_workspace = {PAIR: workspace.pairs, KERNEL: workspace.kernels}
    return [
        *(of_workspace[record] for record in records),
        *([resources.pairs_dir()] if PAIR in records else []),
    ]


def _at_path(path: Path, records: Sequence[str]) -> Path | None:
    folder = (
        path.parent
        if path.name in (*RECORDS, "slow.cu", "fast.cu", "kernel.cu", "slow.py", "fast.py", "kernel.py")
        else path
    )
    return folder if any(store.exists(folder / record) for record in records) else None


def _by_id(name: str, workspace: Workspace, records: Sequence[str]) -> Path:
    by_root: dict[Path, dict[str, Path]] = {}
    ids_by_root: dict[Path, list[tuple[str, Path]]] = {}
    for root in _roots(workspace, records):
        by_root[root] = folders = _folders(root, records)
        matches = [folders[name]] if name in folders else _ending(name, folders.items())
        if not matches:  # a record whose id differs from the path of its folder
            ids_by_root[root] = _ids_of(folders.values(), records)
            same = [folder for identifier, folder in ids_by_root[root] if identifier == name]
            matches = same or _ending(name, ids_by_root[root])
        if matches:
            return _single(name, root, matches)
    # Only then by how names begin, in all roots.
    for root, folders in by_root.items():
        if matches := _beginning(name, folders.items()) or _beginning(name, ids_by_root[root]):
            return _single(name, root, matches)
    known = [path for folders in by_root.values() for path in folders]
    is_path = name.startswith((".", "/"))
    hint = "check the path" if is_path else _did_you_mean(name, known) or _usage_hint(records)
    raise InputError(f"no such {_noun(records)}", where=name, hint=hint)


def _folders(root: Path, records: Sequence[str]) -> dict[str, Path]:
    """The folders that hold a record, by their path below `root`."""
    folders = (path.parent for record in records for path in store.find(root, record))
    return {folder.relative_to(root).as_posix(): folder for folder in folders}


def _ids_of(folders: Iterable[Path], records: Sequence[str]) -> list[tuple[str, Path]]:
    return [(identifier, folder) for folder in folders if (identifier := _id(folder, records))]


def _single(name: str, root: Path, matches: Sequence[Path]) -> Path:
    if len(matches) == 1:
        return matches[0]
    listed = ", ".join(sorted(path.relative_to(root).as_posix() for path in matches)[:5])
    raise InputError(f"ambiguous, {len(matches)} matches: {listed}", where=name)


def _ending(name: str, folders: Iterable[tuple[str, Path]]) -> list[Path]:
    return [folder for key, folder in folders if f"/{key}".endswith(f"/{name}")]


def _beginning(name: str, folders: Iterable[tuple[str, Path]]) -> list[Path]:
    return [folder for key, folder in folders if key.startswith(name)]


def _id(folder: Path, records: Sequence[str]) -> str | None:
    """The id in a record; the record need not be valid."""
    path = next(folder / record for record in records if store.exists(folder / record))
    try:
        data = codec.parse(own_files.read(path), where=str(path))
    except InputError:
        return None
    identifier = data.get("id") if isinstance(data, dict) else None
    return identifier if isinstance(identifier, str) else None


def _noun(records: Sequence[str]) -> str:
    return _NOUNS.get(tuple(records), "pair or kernel")


def _usage_hint(records: Sequence[str]) -> str:
    return f"give the folder of a {_noun(records)}, or an id from kcurate list"


def _did_you_mean(name: str, keys: Sequence[str]) -> str:
    ends = {key.rsplit("/", 1)[-1]: key for key in keys}
    close = [ends[end] for end in difflib.get_close_matches(name.rsplit("/", 1)[-1], ends, n=3)]
    close = close or difflib.get_close_matches(name, keys, n=3)
    return f"did you mean {' or '.join(close)}?" if close else ""
