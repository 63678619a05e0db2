"""The time that counts explain: it grows with each of them, and covers naive sides that were measured."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kcurate.backends.base import Counts
from kcurate.core import resources, store
from kcurate.judge.explained import ALIKE, COSTS_US, EXPLAINED, beside_fast_us, explained_us
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


def test_only_what_the_sides_do_differently_explains_more_than_a_few_times_the_fast_sides_time() -> None:
    counts = replace(NOTHING, sectors=10**9, launches=1)
    more, fewer = (replace(counts, sectors=sectors) for sectors in (10**9 + 10**6, 10**9 - 10**6))
    assert beside_fast_us((counts, 32), (counts, 32), 50.0) == pytest.approx(ALIKE * 50.0)
    for other in (more, fewer):
        limit_us = beside_fast_us((other, 32), (counts, 32), 50.0)
        assert limit_us == pytest.approx(ALIKE * 50.0 + EXPLAINED * COSTS_US["sectors"] * 10**6)


def test_atomics_of_the_slow_side_explain_time_whatever_the_fast_side_has() -> None:
    counts = replace(NOTHING, atomics=10**6)
    limit_us = beside_fast_us((counts, 32), (counts, 32), 50.0)
    assert limit_us == pytest.approx(ALIKE * 50.0 + EXPLAINED * explained_us(counts))


def test_at_most_one_in_300_naive_sides_takes_longer_than_explained() -> None:
    unexplained, times, beside = 0, 0, 0
    for line in ROWS.read_text().splitlines():
        row = json.loads(line)
        pair = store.read_candidate(resources.pairs_dir() / row["pair"])
        if row["counts"] is None or any(isinstance(step, WhileNonzero) for step in steps(pair.slow.plan)):
            continue
        for time in row["measured"].values():
            times += 1
            slow = Counts(**row["counts"]), time["registers"]
            unexplained += time["us"] > EXPLAINED * explained_us(*slow)
            if row.get("fast") and not any(isinstance(step, WhileNonzero) for step in steps(pair.fast.plan)):
                beside += 1
                fast = Counts(**row["fast"]), time["fast_registers"]
                unexplained += time["us"] > beside_fast_us(slow, fast, time["fast_us"])
    assert times > 500 and beside >= 120
    assert 300 * unexplained <= times
