"""The record of one run of a stage: its settings, its summary, and a log of its messages.

<folder>/config.json   the settings, written after the first checks
<folder>/log           one line per message, with a timestamp; ends with the traceback of an exception, if any
<folder>/summary.json  the counts and the items; missing if the run was interrupted or failed

A log that cannot be written does not affect the run. Not covered: showing messages (`kcurate.cli.output`).
"""

from __future__ import annotations

import contextlib
import logging
import shlex
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from kcurate.core import codec, packing, store
from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.json_text import shown
from kcurate.core.notes import Note, silent
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError
from kcurate.records import Item, Summary

SUMMARY = "summary.json"
_LOG = logging.getLogger(__name__)


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
        self._results: list[Item] = []

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
        """Create the folder and write the settings (None: stored elsewhere); `more` overrides them.

        Raises:
            InputError: it cannot be written.
        """
        Workspace(self.workspace).mark()
        _LOG.info("%s: run folder %s", self.stage, self.folder)
        if settings is not None:
            data = {"stage": self.stage, **_plain(settings), **_plain(more)}
            store.write_bytes(self.folder / "config.json", store.pretty_json(data))
        if getattr(settings, "pack", False):
            packing.start(self.workspace)
        self._begun = True
        self.log("started")

    def item(
        self,
        kind: str,
        name: str,
        outcome: str,
        why: str = "",
        *,
        passed: bool,
        file: Path | None = None,
        then: Sequence[str | Path] = (),
    ) -> None:
        """Add one input to the results; `then`: the command to run next, without `kcurate` and `-w`."""
        next_command = self.command(*then) if then and not passed else None
        existing = str(file) if file is not None and store.exists(file) else None
        self.add(Item(kind, name, str(outcome), passed, why, existing, next_command))

    def add(self, item: Item) -> None:
        """Add one input to the results."""
        texts: dict[str, Any] = {
            key: _text(value) for key, value in vars(item).items() if isinstance(value, str)
        }
        shown_item = replace(item, **texts)
        self._results.append(shown_item)
        why = f": {shown_item.why}" if shown_item.why else ""
        _LOG.info("%s %s: %s%s", shown_item.kind, shown_item.id, shown_item.outcome, why)

    def command(self, *words: str | Path) -> str:
        """A kcurate command for this workspace, quoted for a shell."""
        return command(self.workspace, *words)

    def summary(self, counts: Mapping[str, Mapping[str, int]]) -> Summary:
        """The counts, the items and the time so far; writes nothing."""
        wall_s = round(time.monotonic() - self._started_s, 3)
        run = shown(str(self.folder)) if self._begun else None
        return Summary(self.stage, counts, wall_s, shown(str(self.workspace)), tuple(self._results), run)

    def finish(self, counts: Mapping[str, Mapping[str, int]], *, pack: bool = True) -> Summary:
        """Write `summary.json`, which only a finished run has; `pack`: then pack the files of a packed
        workspace."""
        if pack and packing.is_packed(self.workspace):
            packing.pack(self.workspace)
        summary = self.summary(counts)
        path = self.folder / SUMMARY
        data = plain(summary)
        store.check_schema("summary", data, where=str(path))
        store.write_bytes(path, store.pretty_json(data))
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


def plain(summary: Summary) -> dict[str, Any]:
    """A summary in the form of `summary.json` and `--json`; `items` is the old name of the counts."""
    data = codec.to_data(summary)
    first = {"stage": data.pop("stage"), "counts": data["counts"], "results": data.pop("results", [])}
    return {**first, **data, "items": data["counts"]}


def command(workspace: Path, *words: str | Path) -> str:
    """A kcurate command for a workspace, quoted for a shell."""
    place = () if workspace == DEFAULT_WORKSPACE else ("-w", str(workspace))
    return shlex.join(["kcurate", *map(str, words), *place])


def ordered(counts: Counter[str], outcomes: type[StrEnum]) -> dict[str, int]:
    """Nonzero counts in the order of an enumeration."""
    return {outcome.value: counts[outcome] for outcome in outcomes if counts[outcome]}


def new_folder(workspace: Path, stage: str) -> Path:
    """`runs/<stage>-<time>` in the workspace."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    return workspace / "runs" / f"{stage.replace(' ', '-')}-{stamp}"


def _text(value: str) -> str:
    """One line of text that can be written as JSON."""
    return " ".join(value.encode("utf-8", "replace").decode().split())


def _plain(value: Any) -> Any:
    """A value as JSON data: dataclasses as objects, paths as text."""
    if is_dataclass(value):
        return {member.name: _plain(getattr(value, member.name)) for member in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return shown(str(value)) if isinstance(value, str | Path) else value
