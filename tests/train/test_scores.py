"""The numbers of a model: shares, best of k, copies, turns; and two models beside each other."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcurate.errors import InputError
from kcurate.evaluation import completions, scores
from kcurate.evaluation.comparing import compare, svg
from kcurate.evaluation.completions import Completion
from kcurate.evaluation.folder import EvalFolder
from kcurate.reward.schemes import STANDINGS


def row(
    outcome: str, task: str = "a", sample: int = 0, speedup: float | None = None, **more: Any
) -> Completion:
    made = Completion(task, task, "hash", sample, 1, "[]", "0", "text", "text", "answered", outcome=outcome)
    return replace(made, reward=0.5, speedup=speedup, known=4.0, **more)


def several(task: str, *found: tuple[str, float | None]) -> list[Completion]:
    return [row(outcome, task, i, speedup) for i, (outcome, speedup) in enumerate(found)]


def scored(rows: list[Completion], *, timed: bool = True) -> scores.Scores:
    return scores.score("mine", "tiny", rows, timed=timed)


@given(hits=st.lists(st.booleans(), min_size=1, max_size=7), k=st.integers(1, 7))
def test_any_of_k_is_the_mean_over_all_choices(hits: list[bool], k: int) -> None:
    k = min(k, len(hits))
    expected = fmean(any(chosen) for chosen in combinations(hits, k))
    assert scores.any_of(sum(hits), len(hits), k) == pytest.approx(expected)


@given(values=st.lists(st.floats(0, 10), min_size=1, max_size=7), k=st.integers(1, 7))
def test_the_best_of_k_is_the_mean_over_all_choices(values: list[float], k: int) -> None:
    k = min(k, len(values))
    expected = fmean(max(chosen) for chosen in combinations(values, k))
    assert scores.most_of(values, k) == pytest.approx(expected)


@pytest.mark.parametrize("outcome", STANDINGS)
def test_every_outcome_counts_as_its_standing_says_but_a_copy_is_not_correct(outcome: str) -> None:
    found, standing = scored([row(outcome, speedup=2.0)]), STANDINGS[outcome]
    copied = outcome == "copied"
    assert found.compiles["1"].value == standing.compiles
    assert found.correct["1"].value == (standing.correct and not copied)
    assert found.faster is not None and found.faster.value == standing.faster
    assert found.copied.value == copied
    assert found.solved == (standing.correct and not copied)


def test_speed_counts_where_it_is_confirmed_and_in_shares_of_what_is_known() -> None:
    rows = several("a", ("confirmed", 2.0), ("not_faster", 0.6), ("copied", 1.0), ("mismatch", None))
    found = scored([*rows, *several("b", ("confirmed", 16.0), *[("compile_error", None)] * 3)])
    fast = {p: each["1"].value for p, each in found.fast.items()}
    assert fast == {"0": 0.375, "0.5": 0.375, "1": 0.25, "1.05": 0.25, "1.2": 0.25, "1.5": 0.25, "2": 0.125}
    assert list(found.fast["1"]) == ["1", "2", "4"]
    assert found.best["1"].value == pytest.approx(math.exp((math.log(2) / 4 + math.log(16) / 4) / 2))
    assert found.best["4"].value == pytest.approx(math.sqrt(2 * 16))
    assert found.attained is not None
    assert found.attained.value == pytest.approx((0.5 / 4 + 1 / 4) / 2), "no more than all of it"
    assert found.median_speedup == 2.0
    assert (found.tasks, found.families, found.samples, found.solved) == (2, 2, 4, 2)


def test_without_times_nothing_is_said_of_speed() -> None:
    found = scored([row("correct"), row("mismatch", sample=1)], timed=False)
    assert (found.faster, found.best, found.attained, found.median_speedup) == (None, {}, None, None)
    assert list(found.fast) == ["0"] and found.correct["2"].value == 1.0
    assert "| not timed |" in scores.markdown([found])


def test_failures_of_ours_are_counted_and_in_nothing_else() -> None:
    found = scored([row("harness_error"), row("confirmed", sample=1, speedup=2.0), row("harness_error", "b")])
    assert found.outcomes == {"confirmed": 1, "harness_error": 2}
    assert (found.tasks, found.samples, found.correct["1"].value) == (1, 1, 1.0)
    with pytest.raises(InputError, match="no completion was judged"):
        scored([row("harness_error")])


def test_the_best_turn_of_a_sample_counts() -> None:
    turns = [row("mismatch"), row("confirmed", turn=2, speedup=2.0), row("copied", turn=3)]
    found = scored([replace(one, turn=at) for at, one in enumerate(turns, 1)])
    assert (found.turns, found.samples, found.correct["1"].value, found.copied.value) == (3, 1, 1.0, 0.0)
    assert found.outcomes == {"confirmed": 1, "copied": 1, "mismatch": 1}


def test_tokens_and_dollars_are_added_up() -> None:
    rows = [row("confirmed", sample=i, input_tokens=10 * (i + 1), usd=0.25) for i in range(2)]
    found = scored(rows)
    assert (found.tokens, found.usd) == ({"input": 15.0}, 0.5)
    assert scored([row("confirmed")]).usd is None


def test_rows_are_kept_in_order_and_replaced_by_name(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    for name, outcome in (("base", "unreadable"), ("SFT", "mismatch"), ("base", "confirmed")):
        made = scores.score(name, "tiny", [row(outcome, speedup=2.0)], timed=True)
        scores.add_row(path, made)
    rows = scores.read_rows(path)
    assert [one.name for one in rows] == ["SFT", "base"]
    assert rows[1] == made
    assert "| base | 1 (1) | 1 each | 100.0% | 100.0% | 0.0% | 100.0% |" in scores.markdown(rows)
    path.write_text("[]")
    with pytest.raises(InputError, match="not a scores file"):
        scores.read_rows(path)


def test_completions_are_read_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    rows = [
        row("confirmed", speedup=2.0, usd=0.1, audit=True),
        replace(row("mismatch", sample=1), outcome=None, reply="\x00λ"),
    ]
    completions.write(path, rows)
    assert completions.read(path, hint="") == rows
    path.write_bytes(b"no")
    for wrong in (path, tmp_path / "none"):
        with pytest.raises(InputError, match="run it"):
            completions.read(wrong, hint="run it")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"outcome": "banana"}, "no outcome 'banana'"),
        ({"outcome": None}, "no outcome None"),
        ({"speedup": -2.0}, "row 1: speedup is -2.0"),
        ({"speedup": 0.0}, "row 1: speedup is 0.0"),
        ({"speedup": math.inf}, "row 1: speedup is inf"),
        ({"reward": math.nan}, "row 1: reward is nan"),
        ({"reply": None}, "row 1: reply is None"),
        ({"turn": None}, "row 1: turn is None"),
        ({"sample": 0}, "sample 0, turn 1 is there twice"),
        ({"family": "other"}, "has two families"),
    ],
)
def test_judged_completions_that_were_edited_are_one_line(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    folder = EvalFolder(tmp_path)
    first = row("confirmed", speedup=2.0)
    second = replace(first, sample=first.sample + 1)
    completions.write(folder.judged, [first, second])
    assert folder.read_judged() == [first, second]
    completions.write(folder.judged, [first, replace(second, **change)])
    with pytest.raises(InputError, match=said):
        folder.read_judged()


def test_rewards_of_two_schemes_are_not_compared() -> None:
    rows = several("t", ("confirmed", 2.0))
    named = [
        {one.name for one in compare(rows, rows, timed=True, one_reward=same).differences}
        for same in (True, False)
    ]
    assert named[0] - named[1] == {"reward"}


def test_two_models_are_compared_on_the_tasks_of_both() -> None:
    first = [one for i in range(12) for one in several(f"t{i}", ("copied", 1.0), ("mismatch", None))]
    ratios = {5: 2**0.5, 6: 2**1.5}  # a spread in speed alone
    second = [
        one
        for i in range(2, 14)
        for one in several(f"t{i}", ("confirmed", ratios.get(i, 2.0)), ("mismatch", None))
    ]
    found = compare(first, second, timed=True)
    assert (found.tasks, found.families, found.left_out) == (10, 10, 4)
    by_name = {one.name: one for one in found.differences}
    assert by_name["correct"].difference.value == 0.5
    assert by_name["copied"].difference.value == -0.5
    assert by_name["attained"].second == pytest.approx(0.25)
    assert by_name["correct"].difference.low is not None and by_name["correct"].difference.low > 0
    drawn = ElementTree.fromstring(svg(found, "a < b", "c"))
    texts = [one.text for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == f"c less a < b: {found.tasks} tasks of {found.families} families"
    assert {one.name for one in found.differences} <= set(texts)
    grey = [one for one in drawn.iter("{http://www.w3.org/2000/svg}rect") if one.get("fill") == "#eaeef2"]
    assert len(grey) == sum(one.detectable is not None for one in found.differences) > 0
    assert by_name["attained"].detectable and by_name["copied"].detectable is None
    untimed = {one.name for one in compare(first, second, timed=False).differences}
    assert "faster" not in untimed and "correct" in untimed
    with pytest.raises(InputError, match="no task is in both"):
        compare(first, [replace(one, given="another") for one in second], timed=True)
