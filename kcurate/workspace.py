"""The folder a command works in: where everything lies. The record of a run is `kcurate.runs`'s.

kernels/<suite>/<benchmark>/.../{kernel.json,kernel.cu}   pairs/<suite>/.../{pair.json,slow.cu,fast.cu}
verdicts/<device>.jsonl   transcripts/*.jsonl   attempts/*.jsonl   batches/*.jsonl
runs/<stage>-<time>/{config.json,summary.json,log}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kcurate import store
from kcurate.config import DEFAULT_WORKSPACE

DEFAULT = DEFAULT_WORKSPACE


class _Rooted(Protocol):
    @property
    def root(self) -> Path: ...


class Inside:
    """A path inside a folder's `root`: an attribute of a class that gives the folder's paths names."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: _Rooted, _: type[object]) -> Path:
        return folder.root / self.name


@dataclass(frozen=True)
class Workspace:
    """Paths of a workspace; creating the object touches nothing."""

    root: Path

    kernels = Inside("kernels")  # as extracted
    pairs = Inside("pairs")  # and candidates
    verdicts = Inside("verdicts")  # JSON lines, one file a device
    transcripts = Inside("transcripts")  # exchanges with models
    attempts = Inside("attempts")  # JSON lines of what became of models' answers
    batches = Inside("batches")  # JSON lines of requests handed in together
    dataset = Inside("dataset")  # what build writes

    def ledger(self, device: str) -> Path:
        """The JSON lines of everything that was judged on a device."""
        return self.verdicts / f"{store.verdict_path(self.verdicts, device).stem}.jsonl"
