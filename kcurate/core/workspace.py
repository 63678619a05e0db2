"""The layout of the folder that a command works in. Not covered: the record of a run (`kcurate.core.runs`).

kernels/<suite>/<benchmark>/.../{kernel.json,kernel.cu}   pairs/<suite>/.../{pair.json,slow.cu,fast.cu}
history/<repository>-<content>/, history/<repository>-<settings>.jsonl
captures/<program>/<id>.json   verdicts/<device>.jsonl   profiles/<device>.jsonl
transcripts/*.jsonl   attempts/*.jsonl   batches/*.jsonl
runs/<stage>-<time>/{config.json,summary.json,log}   .kcurate-workspace
packs/*.parquet   kernels, pairs and verdicts, if the workspace is packed (`kcurate.core.packs`)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kcurate.core import store
from kcurate.core.packs import MARKER as MARKER
from kcurate.errors import InputError


class _Rooted(Protocol):
    @property
    def root(self) -> Path: ...


class Inside:
    """A descriptor for a path inside the object's `root`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: _Rooted, _: type[object]) -> Path:
        return folder.root / self.name


@dataclass(frozen=True)
class Workspace:
    """Paths of a workspace; creating the object touches nothing."""

    root: Path

    kernels = Inside("kernels")  # as extracted
    pairs = Inside("pairs")  # pairs and candidates
    history = Inside(
        "history"
    )  # revisions of repositories, as far as kernels need them; commits that are read
    captures = Inside("captures")  # what running programs did
    verdicts = Inside("verdicts")  # JSON lines, one file per device
    profiles = Inside("profiles")  # likewise: counters of sides
    transcripts = Inside("transcripts")  # exchanges with models
    attempts = Inside("attempts")  # JSON lines of models' answers and their outcomes
    batches = Inside("batches")  # JSON lines of requests to batch APIs
    dataset = Inside("dataset")  # what build writes

    def mark(self) -> None:
        """Write the marker; a new folder also gets a `.gitignore` that keeps it out of git.

        Raises:
            InputError: it cannot be written.
        """
        if self.root.exists() and not self.root.is_dir():
            raise InputError("is not a folder", where=str(self.root), hint="choose another folder")
        if not self.root.exists():
            store.write_bytes(self.root / ".gitignore", b"*\n")
        if not (self.root / MARKER).exists():
            store.write_bytes(self.root / MARKER, b"Made by kcurate; its extract passes this folder over.\n")

    def ledger(self, device: str) -> Path:
        """The JSON lines of all verdicts of a device."""
        return self.verdicts / f"{store.verdict_path(self.verdicts, device).stem}.jsonl"

    def profiled(self, device: str) -> Path:
        """The JSON lines of all profiles of a device."""
        return self.profiles / self.ledger(device).name
