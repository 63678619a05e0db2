"""The folder a command works in: where everything lies. The record of a run is `kcurate.runs`'s.

kernels/<suite>/<benchmark>/.../{kernel.json,kernel.cu}   pairs/<suite>/.../{pair.json,slow.cu,fast.cu}
verdicts/<device>.jsonl   transcripts/*.jsonl   attempts/*.jsonl   batches/*.jsonl
runs/<stage>-<time>/{config.json,summary.json,log}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kcurate.config import DEFAULT_WORKSPACE

DEFAULT = DEFAULT_WORKSPACE


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
    def dataset(self) -> Path:
        """The local dataset."""
        return self.root / "dataset"
