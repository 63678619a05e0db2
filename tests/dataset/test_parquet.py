"""Parquet files: they are those that `datasets` writes, and hold what the rows hold."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest
from dataset.making import a_row, pair

from kcurate.dataset import parquet
from kcurate.dataset.repairs import side_id
from kcurate.dataset.rows import profile_rows, task_rows
from kcurate.dataset.tuning import tables
from kcurate.hub.published_rows import candidate_of
from kcurate.mutate.broken import ATTEMPTS
from kcurate.mutate.choosing import results_of_change
from kcurate.profiling import on_file
from kcurate.records import Candidate, Origin, Outcome, Profile, WrongAttempt

CURATED = Origin("curated")


def wrong(row: Mapping[str, Any]) -> WrongAttempt:
    """A wrong version of the row's fast side."""
    side = results_of_change(candidate_of(row).fast, ATTEMPTS, "lost_tail")[0].side
    return WrongAttempt(row["id"], "lost_tail", 0, side_id(side), Outcome.MISMATCH, "Wrong.", "emulator")


def profile(one: Candidate) -> Profile:
    key = on_file.side_key(one, "slow")
    return Profile(one.id, "slow", key, "NVIDIA H200", "ncu 1", 2, 2, {"issue_pct": 12.5, "flops": 3e9})


def rows_of(config: str, count: int) -> list[dict[str, Any]]:
    rows = [a_row(pair(f"demo/{number}", number)) for number in range(count)]
    if config == "pairs":
        return rows
    if config == "tasks":
        problems = [{**json.loads(row["problem"]), "statement": str(at)} for at, row in enumerate(rows)]
        posed = [{**row, "problem": json.dumps(problem)} for row, problem in zip(rows, problems, strict=True)]
        return list(task_rows(posed, ()))
    found = []
    if config == "preferences":
        rows = [a_row(pair(row["id"], number, origin=CURATED)) for number, row in enumerate(rows)]
        rungs = [rung(row, number) for number, row in enumerate(rows)]
        return tables([*rows, *rungs])[0][config]
    if config == "profiles":
        pairs = [pair(f"demo/{number}", number) for number in range(count)]
        known = on_file.Profiles(map(profile, pairs))
        return [one for row, own in zip(rows, pairs, strict=True) for one in profile_rows(row, own, known)]
    for row in rows:
        found += tables([row], [wrong(row)])[0][config]
    return found


def rung(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A longer answer to the prompt of a row; faster than the row's if the number is even."""
    fast, name = pair("demo/x", number + 400).fast, f"{row['id']}/rung"
    other = replace(candidate_of(row), id=name, fast=fast, techniques=("warp-shuffle",))
    ratio = 1.2 if number % 2 else 3.0
    return a_row(other, speedup=ratio, speedup_low=ratio - 0.1, speedup_high=ratio + 0.1)


def feature(kind: Any) -> Any:
    import datasets

    if isinstance(kind, list):
        return datasets.List(feature(kind[0]))
    if isinstance(kind, dict):
        return {name: feature(inner) for name, inner in kind.items()}
    return datasets.Value(kind)


@pytest.mark.parametrize("group_bytes", [parquet.GROUP_BYTES, 4_000])
@pytest.mark.parametrize("config", parquet.CONFIGS)
def test_files_are_those_that_datasets_writes(
    config: str, group_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    monkeypatch.setattr(parquet, "GROUP_BYTES", group_bytes)
    monkeypatch.setattr(datasets.config, "MAX_ROW_GROUP_SIZE", group_bytes)
    rows, expected = rows_of(config, 30), io.BytesIO()
    features = datasets.Features({name: feature(kind) for name, kind in parquet.CONFIGS[config].items()})
    datasets.Dataset.from_list([dict(row) for row in rows], features=features).to_parquet(expected)
    made = parquet.to_bytes(config, rows)
    assert made == expected.getvalue()
    several = pq.ParquetFile(io.BytesIO(made)).num_row_groups > 1
    assert several == (group_bytes == 4_000)


def test_a_row_comes_back_as_it_was() -> None:
    row = a_row(
        pair("demo/a"),
        description="2026-01-01",
        detail="\u2028 \U0001f600 \x00",
        speedup=math.inf,
        slow_samples_us=[[0.1 + 0.2], []],
        seeds=[2**62 + 1],
        techniques=[],
        slow_us=3,
        url=None,
    )
    (read,) = pq.read_table(io.BytesIO(parquet.to_bytes("pairs", [row]))).to_pylist()
    assert read == row
    assert json.dumps(read) == json.dumps(row | {"slow_us": 3.0})
