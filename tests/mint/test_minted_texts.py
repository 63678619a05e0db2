"""The frozen texts of minted pairs: what a GPU judged is what they are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks import minted_texts
from kcurate.core import store
from kcurate.core.workspace import Workspace
from kcurate.dataset.stage import BuildConfig, run
from kcurate.hub.published_rows import read_rows
from kcurate.records import Candidate
from kcurate.verdicts.keys import verdict_key

# Two graphs whose inputs were eased under a composer that nobody has any more.
LOST = 2


@pytest.fixture(scope="module")
def pairs() -> list[Candidate]:
    return list(minted_texts.candidates(minted_texts.TEXTS / "seed-2026.parquet"))


def test_every_fact_is_about_a_committed_text(pairs: list[Candidate]) -> None:
    facts = {row["key"]: row for row in minted_texts.facts()}
    keys = {verdict_key(pair): pair for pair in pairs if not pair.id.endswith("/plain")}
    assert set(keys) <= set(facts) and len(facts) == len(keys) + LOST
    for key, pair in keys.items():
        row = facts[key]
        assert pair.id == f"minted/{row['graph']}/{row['answer']}"
        assert (pair.origin.seed, list(pair.origin.rules)) == (row["text_seed"], row["schedules"])
    graphs = {pair.id.split("/")[1] for pair in keys.values()}
    plain = {pair.id.split("/")[1] for pair in pairs if pair.id.endswith("/plain")}
    assert graphs <= plain, "a problem is there with its module"


def test_verdicts_say_what_is_on_record() -> None:
    row = next(row for row in minted_texts.facts() if row["speedup"])
    verdict = minted_texts.verdict_of(row)
    assert verdict.speedup is not None and verdict.slow is not None
    assert (verdict.key, verdict.speedup.ratio, verdict.slow.median_us, verdict.slow.samples_us) == (
        *(row["key"], row["speedup"], row["slow_us"]),
        (),
    )


def test_minted_texts_take_little_room() -> None:
    files = [*minted_texts.TEXTS.iterdir(), *minted_texts.DATA.glob("*/minted.parquet")]
    assert sum(file.stat().st_size for file in files) <= 6 << 20


def test_a_workspace_with_minted_pairs_gives_rows_and_tasks(
    pairs: list[Candidate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A problem without a confirmed answer is a task; a graph is on one side."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/few.parquet").write_bytes(minted_texts.to_bytes(pairs[:90]))
    monkeypatch.setattr(minted_texts, "TEXTS", tmp_path / "texts")
    workspace = Workspace(tmp_path / "work")
    minted_texts.unpack(workspace)
    assert [store.read_candidate(workspace.pairs / pair.id) for pair in pairs[:90]] == pairs[:90]
    counts = run(BuildConfig(workspace.root)).counts["pairs"]
    graphs = {pair.id.split("/")[1] for pair in pairs[:90]}
    assert counts["task"] == len(graphs) and counts["confirmed"] > 20
    rows, tasks = read_rows(workspace.dataset), read_rows(workspace.dataset, "tasks")
    listed = Counter(task["graph"] for split in tasks.values() for task in split)
    assert set(listed) == graphs and set(listed.values()) == {1}
    for split, some in tasks.items():
        assert {row["graph"] for row in rows[split]} <= {task["graph"] for task in some}
        for task in some:
            assert "fast_code" not in task and task["module"] and task["statement"]
            assert task["answers"] == len(
                {r["fast_code"] for r in rows[split] if r["graph"] == task["graph"]}
            )
