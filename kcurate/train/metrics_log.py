"""metrics.jsonl: one line per logged step of a stage; a resumed run drops the steps that it will redo.

Not covered: what is in a line (`callbacks`), curves plotted from it (`curves`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kcurate.core import store

Line = Mapping[str, Any]


@dataclass(frozen=True)
class MetricsLog:
    """Lines `{"stage": "sft" or "grpo", "step": n, ...}`; creating the object touches nothing."""

    path: Path

    def append(self, line: Line) -> None:
        """Add one line, on a line of its own even if a crash cut the last one short."""
        store.append_line(self.path, json.dumps(line, ensure_ascii=False), durable=False)

    def lines(self, stage: str | None = None) -> Iterator[dict[str, Any]]:
        """Every complete line, of one stage or of all; none if the file is missing."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for raw in file:
                with contextlib.suppress(ValueError):
                    line = json.loads(raw)
                    if isinstance(line, dict) and stage in (None, line.get("stage")):
                        yield line

    def rewind(self, stage: str, step: int) -> None:
        """Drop the lines of a stage after `step`: they will be written again."""
        kept = [line for line in self.lines() if line.get("stage") != stage or line.get("step", 0) <= step]
        if self.path.exists():
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept)
            store.write_bytes(self.path, text.encode())
