"""The time that counts explain: it grows with each of them, and covers naive sides that were measured."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kcurate.backends.base import Counts
from kcurate.core import resources, store
from kcurate.judge.explained import COSTS_US, EXPLAINED, explained_us
from kcurate.records import WhileNonzero, steps

NOTHING = Counts(0, 0, 0, 0, 0, 0, 0, 0)
ROWS = resources.pairs_dir().parent / "docs" / "data" / "emulator" / "explained-times.jsonl"


@pytest.mark.parametrize("name", COSTS_US)
def test_each_count_takes_time(name: str) -> None:
    assert explained_us(NOTHING) == 0.0
    assert explained_us(replace(NOTHING, **{name: 1000})) == pytest.approx(1000 * COSTS_US[name])


def test_registers_lower_the_number_of_blocks_at_a_time() -> None:
    held = replace(NOTHING, held_bytes=1000)
    assert explained_us(held, 128) == pytest.approx(4 * explained_us(held, 32))
    assert explained_us(held, 16) == explained_us(held, 32)


def test_at_most_one_in_300_naive_sides_takes_longer_than_explained() -> None:
    unexplained, times = 0, 0
    for line in ROWS.read_text().splitlines():
        row = json.loads(line)
        plan = store.read_candidate(resources.pairs_dir() / row["pair"]).slow.plan
        if row["counts"] is None or any(isinstance(step, WhileNonzero) for step in steps(plan)):
            continue
        for time in row["measured"].values():
            times += 1
            explained = explained_us(Counts(**row["counts"]), time["registers"])
            unexplained += time["us"] > EXPLAINED * explained
    assert times > 500
    assert 300 * unexplained <= times
