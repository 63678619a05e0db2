"""The stage: workspace and built-in pairs with their verdicts in, a local Parquet dataset out.

Every pair ends with one outcome: a row, or why it is not one. Equal input gives equal bytes.
"""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from kcurate import resources, store
from kcurate.dataset.rows import COLUMNS, row
from kcurate.errors import InputError
from kcurate.records import Candidate, Outcome, Summary, Verdict
from kcurate.workspace import Workspace

DATA_FILE = "pairs/train-00000-of-00001.parquet"
CARD = """---
configs:
- config_name: pairs
  data_files:
  - split: train
    path: pairs/train-*.parquet
---

# Slow/fast CUDA kernel pairs

One row is one pair: the same computation written slow and written fast, its problem and launch plans as
JSON, and the verdict that admitted it. `outcome` is `confirmed` (correct, and the speedup measured on the
GPU that `device` names) or `correct` (both sides agree; no time is claimed).
"""


class RowOutcome(StrEnum):
    """What became of a pair."""

    CONFIRMED = "confirmed"
    CORRECT = "correct"
    REFUSED = "refused"
    NOT_JUDGED = "not_judged"
    SAME_ID = "same_id"


@dataclass(frozen=True)
class BuildConfig:
    """What to build from: the workspace's pairs and, with `built_in`, those that ship with the package."""

    workspace: Path
    built_in: bool = False


def run(config: BuildConfig) -> Summary:
    """Write `dataset/` of the workspace, whole or not at all.

    Raises:
        InputError: there is no pair at all.
    """
    started_s = time.monotonic()
    workspace = Workspace(config.workspace)
    folders = _folders(workspace, built_in=config.built_in)
    if not folders:
        raise InputError(
            "no pairs here", where=str(workspace.root), hint="run kcurate extract, or add --built-in"
        )
    record = workspace.start_run("build", {"built_in": config.built_in})
    counts: Counter[str] = Counter()
    rows: dict[str, dict[str, Any]] = {}
    for candidate, verdicts in _judged(folders, workspace):
        outcome, best = _decide(candidate, verdicts, rows)
        counts[outcome.value] += 1
        if best is not None:
            rows[candidate.id] = row(candidate, best)
    if rows:
        store.write_bytes(workspace.dataset / DATA_FILE, _parquet([rows[key] for key in sorted(rows)]))
        store.write_bytes(workspace.dataset / "README.md", CARD.encode())
    ordered = {outcome.value: counts[outcome.value] for outcome in RowOutcome if counts[outcome.value]}
    wall_s = time.monotonic() - started_s
    return record.finish(Summary("build", {"pairs": ordered}, wall_s, str(workspace.root)))


def _folders(workspace: Workspace, *, built_in: bool) -> list[Path]:
    roots = [workspace.pairs, *([resources.pairs_dir()] if built_in else [])]
    return [folder for root in roots if root.is_dir() for folder in store.find_candidates(root)]


def _judged(folders: Iterable[Path], workspace: Workspace) -> Iterator[tuple[Candidate, Sequence[Verdict]]]:
    recent: dict[str, list[Verdict]] = {}
    for path in sorted(workspace.verdicts.glob("*.jsonl")):
        for verdict in store.read_jsonl(path, Verdict):
            recent.setdefault(verdict.candidate, []).append(verdict)
    for folder in folders:
        candidate = store.read_candidate(folder)
        yield candidate, [*store.read_verdicts(folder), *recent.get(candidate.id, [])]


def _decide(
    candidate: Candidate, verdicts: Sequence[Verdict], rows: dict[str, dict[str, Any]]
) -> tuple[RowOutcome, Verdict | None]:
    """The outcome, and the verdict of the row: the last confirmed one, else the last correct one."""
    if not verdicts:
        return RowOutcome.NOT_JUDGED, None
    if candidate.id in rows:
        return RowOutcome.SAME_ID, None
    for wanted, outcome in (
        (Outcome.CONFIRMED, RowOutcome.CONFIRMED),
        (Outcome.CORRECT, RowOutcome.CORRECT),
    ):
        found = [verdict for verdict in verdicts if verdict.outcome is wanted]
        if found:
            return outcome, found[-1]
    return RowOutcome.REFUSED, None


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    from datasets import Dataset, Features, List, Value

    def feature(kind: str | list[str]) -> Any:
        return List(Value(kind[0])) if isinstance(kind, list) else Value(kind)

    features = Features({name: feature(kind) for name, kind in COLUMNS.items()})
    buffer = io.BytesIO()
    Dataset.from_list(rows, features=features).to_parquet(buffer)
    return buffer.getvalue()
