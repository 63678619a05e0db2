"""The dataset's version, and what changed between versions: `versions.json` and `CHANGES.md`.

A version is MAJOR.MINOR.PATCH. Major: rows were removed, changed or moved to another split. Minor: rows were
added. Patch: only measurements or descriptions changed. Not covered: publishing a version (`push`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kcurate.core import codec, store
from kcurate.errors import OptionError, RecordError

FILE = "versions.json"
FIRST = "1.0.0"
# At most this many ids are listed per change in CHANGES.md; versions.json has all of them.
LISTED = 100
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


@dataclass(frozen=True)
class Change:
    """Ids of rows that differ from the previous version, by kind of change.

    `moved`: to another split; `measured`: only times or descriptions changed.
    """

    version: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether no row differs."""
        return not (self.added or self.removed or self.changed or self.moved or self.measured)


@dataclass(frozen=True)
class History:
    """Every version, newest first, and the rows of the newest: id to (content hash, row hash, split)."""

    rows: Mapping[str, tuple[str, str, str]]
    changes: tuple[Change, ...]

    @property
    def version(self) -> str:
        """The newest version."""
        return self.changes[0].version


def read(folder: Path) -> History | None:
    """The history of a dataset folder; None if it has none.

    Raises:
        RecordError: not a history file.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        data = json.loads(path.read_bytes())
        rows = {key: (value[0], value[1], value[2]) for key, value in data["rows"].items()}
        changes = tuple(_change(**change) for change in data["changes"])
        return History(rows, changes) if changes else None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise RecordError(
            "not a dataset's history", where=str(path), hint="delete it to start at 1.0.0"
        ) from error


def _change(version: str, **ids: list[str]) -> Change:
    lists: dict[str, Any] = {key: tuple(listed) for key, listed in ids.items()}
    return replace(Change(version), **lists)


def follow(
    before: History | None, splits: Mapping[str, Sequence[Mapping[str, Any]]], version: str | None = None
) -> History:
    """The history with these rows as its newest version; unchanged if nothing differs.

    Raises:
        InputError: `version` is not a version, or not newer than the last one.
    """
    rows = {
        row["id"]: (row["content"], store.content_id(codec.canonical_json(row)), split)
        for split, split_rows in splits.items()
        for row in split_rows
    }
    change = _difference(before.rows if before else {}, rows)
    if before is not None and change.empty and version in (None, before.version):
        return before
    last = before.version if before else None
    change = replace(change, version=checked(version, last) or _next(last, change))
    return History(dict(sorted(rows.items())), (change, *(before.changes if before else ())))


def _difference(old: Mapping[str, tuple[str, str, str]], new: Mapping[str, tuple[str, str, str]]) -> Change:
    both = sorted(set(old) & set(new))
    changed = [key for key in both if old[key][0] != new[key][0]]
    return Change(
        version="",
        added=tuple(sorted(set(new) - set(old))),
        removed=tuple(sorted(set(old) - set(new))),
        changed=tuple(changed),
        moved=tuple(key for key in both if old[key][2] != new[key][2]),
        measured=tuple(key for key in both if old[key][1] != new[key][1] and key not in changed),
    )


def parse(version: str) -> tuple[int, int, int] | None:
    """The three numbers of a version; None when it is not one."""
    match = _VERSION.fullmatch(version)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def checked(version: str | None, last: str | None) -> str | None:
    """The version that was asked for.

    Raises:
        InputError: it is not a version, or not newer than the last one.
    """
    if version is None:
        return None
    new, old = parse(version), parse(last) if last else None
    if new is None:
        raise OptionError(f"not a version: {version!r}", where="--version", hint="such as 1.2.0")
    if old is not None and new <= old:
        raise OptionError(f"{version} is not newer than {last}", where="--version")
    return version


def _next(last: str | None, change: Change) -> str:
    numbers = parse(last) if last else None
    if numbers is None:
        return FIRST
    major, minor, patch = numbers
    if change.removed or change.changed or change.moved:
        return f"{major + 1}.0.0"
    return f"{major}.{minor + 1}.0" if change.added else f"{major}.{minor}.{patch + 1}"


def to_json(history: History) -> bytes:
    """The content of `versions.json`."""
    changes = [{key: value for key, value in asdict(change).items() if value} for change in history.changes]
    return store.pretty_json({"version": history.version, "changes": changes, "rows": dict(history.rows)})


def to_markdown(history: History) -> str:
    """The content of `CHANGES.md`."""
    return "\n".join(_lines(history)).rstrip() + "\n"


def _lines(history: History) -> Iterator[str]:
    yield "# Changes of rows\n"
    yield "Major: rows removed, changed or moved to another split. Minor: rows added. Patch: measurements.\n"
    for change in history.changes:
        yield f"## {change.version}\n"
        if change.empty:
            yield "No row changed.\n"
        for kind in ("added", "removed", "changed", "moved", "measured"):
            ids: tuple[str, ...] = getattr(change, kind)
            if ids:
                listed = ", ".join(f"`{key}`" for key in ids[:LISTED])
                unlisted = f" and {len(ids) - LISTED} more" if len(ids) > LISTED else ""
                yield f"- {kind} ({len(ids)}): {listed}{unlisted}"
        yield ""
