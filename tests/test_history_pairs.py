"""benchmarks/history_pairs.py: rows are facts, and the page counts them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import small

from benchmarks import history_pairs
from kcurate.core import store
from kcurate.records import Environment, Origin, Outcome, Verdict

ENVIRONMENT = Environment("cuda", "NVIDIA H200")


def test_counts_rows_and_page_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = Origin(
        "history", "demo", "https://example.org/demo", "b" * 40, base_revision="a" * 40, path="x.cu"
    )
    pair = replace(small.scaled(), id="demo/x/scale-bbbb", family="scale", origin=origin)
    for number, problem in enumerate((pair.problem, None)):
        named = replace(pair, id=f"demo/x/scale-{number}", problem=problem)
        store.write_candidate(tmp_path / "work" / "pairs" / named.id, named)
    marks = tmp_path / "work" / "history" / "demo-0.jsonl"
    marks.parent.mkdir()
    marks.write_text(json.dumps({"commit": "b", "outcome": "read", "pairs": {"pair": 2}, "keys": []}) + "\n")
    counts = history_pairs.count(*history_pairs.repositories([tmp_path / "work"]))
    assert (counts["repository"], counts["with_problem"], counts["changes"]) == ("demo", 1, {"pair": 2})
    assert history_pairs.pack(tmp_path / "out", [tmp_path / "work"]) == 1
    verdict = Verdict(pair.id, "key", Outcome.COMPILE_ERROR, ENVIRONMENT, "float secret_name")
    row = history_pairs.row_of(pair, verdict)
    assert "secret_name" not in json.dumps(row) and row["base_revision"] == "a" * 40
    page = history_pairs.page([counts], [row])
    assert "| together | 1 | 1 | 2 | 0 | 0 | 0 | 2 | 0 | 1 | 0 | 0 | 1 |" in page
