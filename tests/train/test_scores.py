"""Shares, intervals and the table of what models are worth on held-out tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kcurate.train import scores
from kcurate.train.measure import add_row, batches, read_rows
from kcurate.train.reward.schemes import STANDINGS
from kcurate.train.task import Judged


def judged(outcome: str, task: str = "a", reward: float = 0.5) -> Judged:
    return Judged(task, outcome, reward, {"all": reward})


def table_row(answers: list[Judged], name: str = "SFT") -> scores.Row:
    return scores.row(name, "tiny", answers, timed=True, generate_s=1.0, judge_s=2.0)


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [(0, 256, 0.0, 0.01478), (256, 256, 0.98522, 1.0), (10, 100, 0.05523, 0.17437)],
)
def test_wilson_agrees_with_the_published_formula(hits: int, count: int, low: float, high: float) -> None:
    found = scores.wilson(hits, count)
    assert (found.low, found.high) == (pytest.approx(low, abs=2e-5), pytest.approx(high, abs=2e-5))
    assert found.value == hits / count


def test_wilson_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    found = [scores.wilson(int(hits), 256) for hits in rng.binomial(256, 0.3, 2000)]
    covered = sum(one.low <= 0.3 <= one.high for one in found) / 2000
    assert 0.93 < covered < 0.97


def test_a_bootstrap_over_tasks_is_wider_than_answers_alone_would_make_it() -> None:
    values = [0.0] * 100 + [1.0] * 100
    alone = scores.mean_by_task(values, [str(i) for i in range(200)])
    together = scores.mean_by_task(values, ["a"] * 100 + ["b"] * 100)
    assert alone.value == together.value == 0.5
    assert together.high - together.low > 5 * (alone.high - alone.low)


def test_every_outcome_counts_as_its_standing_says() -> None:
    for outcome, standing in STANDINGS.items():
        found = table_row([judged(outcome)])
        assert (found.compiles.value, found.correct.value, found.faster.value) == (
            standing.compiles,
            standing.correct,
            standing.faster,
        )


def test_copies_are_shown_and_failures_of_ours_left_out() -> None:
    found = table_row(
        [judged("copied"), judged("confirmed", "b"), judged("harness_error"), judged("mismatch")]
    )
    assert found.samples == 3
    assert found.outcomes == {"confirmed": 1, "copied": 1, "harness_error": 1, "mismatch": 1}
    assert found.copied.value == pytest.approx(1 / 3)
    assert found.correct.value == pytest.approx(2 / 3)
    assert found.faster.value == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="no completion was judged"):
        table_row([judged("harness_error")])


def test_rows_are_kept_in_order_and_replaced_by_name(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    for name, outcome in (("base", "unreadable"), ("SFT", "mismatch"), ("base", "confirmed")):
        add_row(path, table_row([judged(outcome)], name), {"samples": 1})
    rows = read_rows(path)
    assert [row.name for row in rows] == ["SFT", "base"]
    assert rows[1].faster.value == 1.0
    shown = scores.markdown(rows)
    assert shown.count("\n") == 4
    assert "| base | 1 for 1 tasks | 100.0%" in shown


@pytest.mark.parametrize(("count", "parts"), [(266, [266]), (256, [256]), (10, [10]), (600, [300, 300])])
def test_answers_are_drawn_in_equal_parts(count: int, parts: list[int]) -> None:
    found = list(batches(range(count), 256))
    assert [len(part) for part in found] == parts
    assert [i for part in found for i in part] == list(range(count))
