"""The local dataset: which pairs become rows, what a row holds, equal bytes for equal input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from datasets import load_dataset

from kcurate import store
from kcurate.dataset.rows import COLUMNS, row
from kcurate.dataset.stage import DATA_FILE, BuildConfig, run
from kcurate.errors import InputError
from kcurate.records import (
    Candidate,
    Environment,
    Launch,
    Origin,
    Outcome,
    Problem,
    Side,
    SideReport,
    Sizes,
    Speedup,
    Verdict,
)
from kcurate.workspace import Workspace

PLAN = (Launch("scale", ("n",), (1,), args=("x",)),)


def candidate(name: str) -> Candidate:
    return Candidate(
        id=name,
        family="scale",
        domain="demo",
        license=None,
        origin=Origin("rule", suite="demo", made="slow", rules=("unroll",)),
        techniques=("unrolling",),
        description="x *= 2",
        problem=Problem(Sizes(({"n": 5},), {"n": 100}), {}),
        slow=Side("slow\r\né", PLAN),
        fast=Side("fast", PLAN),
    )


def verdict(name: str, outcome: Outcome) -> Verdict:
    return Verdict(name, "0" * 16, outcome, Environment("emulator", "CPU"))


CONFIRMED = replace(
    verdict("demo/b", Outcome.CONFIRMED),
    environment=Environment("cuda", "NVIDIA H200", driver="580.1"),
    slow=SideReport(median_us=30.0),
    fast=SideReport(median_us=20.0),
    speedup=Speedup(1.5, 1.49, 1.51, 0.98, 20, 0.02),
)


def fill(root: Path, outcomes: Mapping[str, Outcome | None]) -> Workspace:
    workspace = Workspace(root)
    for name, outcome in outcomes.items():
        store.write_candidate(workspace.pairs / name, candidate(name))
        if outcome is not None:
            store.append_jsonl(workspace.verdicts / "cpu.jsonl", verdict(name, outcome))
    return workspace


def test_every_pair_has_one_outcome_and_rows_come_back(tmp_path: Path) -> None:
    workspace = fill(
        tmp_path / "work",
        {"demo/a": Outcome.CORRECT, "demo/b": None, "demo/c": Outcome.MISMATCH, "demo/d": None},
    )
    store.write_verdict(workspace.pairs / "demo/b", CONFIRMED)
    summary = run(BuildConfig(workspace.root))
    assert summary.items == {"pairs": {"confirmed": 1, "correct": 1, "refused": 1, "not_judged": 1}}
    loaded = load_dataset(str(workspace.dataset), "pairs", split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded.column_names == list(COLUMNS)
    assert list(loaded) == [
        row(candidate("demo/a"), verdict("demo/a", Outcome.CORRECT)),
        row(candidate("demo/b"), CONFIRMED),
    ]
    assert loaded["speedup"] == [None, 1.5]
    assert json.loads(loaded[0]["problem"])["sizes"]["bench"] == {"n": 100}
    assert loaded[0]["slow_code"] == "slow\r\né"


def test_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        workspace = fill(tmp_path / name, {"demo/b": Outcome.CORRECT, "demo/a": Outcome.CORRECT})
        run(BuildConfig(workspace.root))
        made.append((workspace.dataset / DATA_FILE).read_bytes())
        shutil.rmtree(workspace.dataset)
        run(BuildConfig(workspace.root))
        made.append((workspace.dataset / DATA_FILE).read_bytes())
    assert len(set(made)) == 1


def test_the_last_verdict_of_a_kind_counts(tmp_path: Path) -> None:
    workspace = fill(tmp_path, {"demo/a": Outcome.HARNESS_ERROR})
    store.append_jsonl(workspace.verdicts / "cpu.jsonl", verdict("demo/a", Outcome.CORRECT))
    assert run(BuildConfig(tmp_path)).items == {"pairs": {"correct": 1}}


def test_nothing_to_build_from_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="run kcurate extract"):
        run(BuildConfig(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


def test_unjudged_pairs_leave_no_dataset(tmp_path: Path) -> None:
    workspace = fill(tmp_path, {"demo/a": None})
    assert run(BuildConfig(tmp_path)).items == {"pairs": {"not_judged": 1}}
    assert not workspace.dataset.exists()
