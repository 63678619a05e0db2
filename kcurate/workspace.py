"""The folder a command works in: where everything lies, and the record of each run.

kernels/<suite>/<benchmark>/.../{kernel.json,kernel.cu}   pairs/<suite>/.../{pair.json,slow.cu,fast.cu}
verdicts/<device>.jsonl   transcripts/*.jsonl   attempts/*.jsonl   batches/*.jsonl
runs/<stage>-<time>/{config.json,summary.json,log}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kcurate import store
from kcurate.config import DEFAULT_WORKSPACE
from kcurate.errors import InputError
from kcurate.records import Summary

DEFAULT = DEFAULT_WORKSPACE


@dataclass(frozen=True)
class Run:
    """One run of one stage; `folder` holds its configuration, log and summary."""

    stage: str
    folder: Path

    @property
    def log(self) -> Path:
        """The run's log file."""
        return self.folder / "log"

    def finish(self, summary: Summary) -> Summary:
        """Write `summary.json`; a run folder without one was interrupted."""
        store.write_json(self.folder / "summary.json", summary)
        return summary


@dataclass(frozen=True)
class Workspace:
    """Paths of a workspace; creating the object touches nothing."""

    root: Path

    @property
    def kernels(self) -> Path:
        """Extracted kernels."""
        return self.root / "kernels"

    @property
    def pairs(self) -> Path:
        """Candidates and pairs."""
        return self.root / "pairs"

    @property
    def verdicts(self) -> Path:
        """JSON lines of verdicts, one file a device."""
        return self.root / "verdicts"

    @property
    def transcripts(self) -> Path:
        """Exchanges with models."""
        return self.root / "transcripts"

    @property
    def attempts(self) -> Path:
        """JSON lines of what became of models' answers."""
        return self.root / "attempts"

    @property
    def batches(self) -> Path:
        """JSON lines of requests handed in together."""
        return self.root / "batches"

    @property
    def runs(self) -> Path:
        """One folder a run."""
        return self.root / "runs"

    @property
    def cache(self) -> Path:
        """Compiled code and other things that can be made again."""
        return self.root / "cache"

    @property
    def dataset(self) -> Path:
        """The local dataset."""
        return self.root / "dataset"

    def start_run(self, stage: str, config: Mapping[str, Any]) -> Run:
        """Create `runs/<stage>-<time>/` with the resolved configuration in it.

        Raises:
            InputError: the workspace cannot be written.
        """
        if self.root.exists() and not self.root.is_dir():
            raise InputError("is not a folder", where=str(self.root), hint="choose another --workspace")
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        run = Run(stage, self.runs / f"{stage}-{stamp}")
        store.write_bytes(run.folder / "config.json", store.pretty_json({"stage": stage, **config}))
        return run
