"""The record of one run of a stage: its settings, its summary, and a log of its messages.

<folder>/config.json   the settings, written after the first checks
<folder>/log           one line per message, with a timestamp; last, the traceback of an exception, if any
<folder>/summary.json  the counts; missing if the run was interrupted or failed

A log that cannot be written does not affect the run. Not covered: where messages are shown.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from kcurate import store
from kcurate.errors import InputError
from kcurate.json_text import shown
from kcurate.notes import Note, silent
from kcurate.records import Summary


class Run:
    """One run of one stage in a workspace; nothing is written before `begin`."""

    def __init__(self, stage: str, workspace: Path, note: Note, folder: Path | None = None) -> None:
        self.stage = stage
        self.workspace = workspace
        self.folder = folder or new_folder(workspace, stage)
        self._tell = note
        self._started_s = time.monotonic()
        self._begun = False
        self._waiting: list[str] = []

    def note(self, text: str) -> None:
        """Report a message to the user and the log."""
        self._tell(text)
        self.log(text)

    def log(self, text: str) -> None:
        """Add to the log only; buffered until `begin`."""
        self._waiting.append(f"{datetime.now(UTC).isoformat(timespec='seconds')} {text}")
        if self._begun:
            waiting, self._waiting = self._waiting, []
            with contextlib.suppress(InputError):
                text = "\n".join(waiting).encode("utf-8", "backslashreplace").decode()
                store.append_line(self.folder / "log", text, durable=False)

    def begin(self, settings: Any = None, **more: Any) -> None:
        """Create the folder and write the settings (None: stored elsewhere), overridden by `more`.

        Raises:
            InputError: it cannot be written.
        """
        if self.workspace.exists() and not self.workspace.is_dir():
            raise InputError("is not a folder", where=str(self.workspace), hint="choose another folder")
        if settings is not None:
            data = {"stage": self.stage, **_plain(settings), **_plain(more)}
            store.write_bytes(self.folder / "config.json", store.pretty_json(data))
        self._begun = True
        self.log("started")

    def summary(self, items: Mapping[str, Mapping[str, int]]) -> Summary:
        """The counts and the time so far; writes nothing."""
        wall_s = round(time.monotonic() - self._started_s, 3)
        return Summary(self.stage, items, wall_s, shown(str(self.workspace)))

    def finish(self, items: Mapping[str, Mapping[str, int]]) -> Summary:
        """Write `summary.json`; a run folder without one was interrupted, or failed."""
        summary = self.summary(items)
        store.write_json(self.folder / "summary.json", summary)
        self.log("finished")
        return summary


@contextlib.contextmanager
def recorded(
    stage: str, workspace: Path, *, note: Note = silent, folder: Path | None = None
) -> Iterator[Run]:
    """A run whose log ends with the traceback if an exception ends it. `folder` None: a new one."""
    run = Run(stage, workspace, note, folder)
    try:
        yield run
    except BaseException:
        run.log(traceback.format_exc().rstrip())
        raise


def ordered(counts: Counter[str], outcomes: type[StrEnum]) -> dict[str, int]:
    """Nonzero counts in the order of an enumeration."""
    return {outcome.value: counts[outcome] for outcome in outcomes if counts[outcome]}


def new_folder(workspace: Path, stage: str) -> Path:
    """`runs/<stage>-<time>` in the workspace."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    return workspace / "runs" / f"{stage.replace(' ', '-')}-{stamp}"


def _plain(value: Any) -> Any:
    """A value as JSON data: dataclasses as objects, paths as text."""
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return shown(str(value)) if isinstance(value, str | Path) else value
