"""What outcomes earn under each scheme."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcurate.errors import InputError
from kcurate.records import Outcome
from kcurate.reward.answers import Refusal
from kcurate.reward.own_reward import chosen
from kcurate.reward.schemes import OURS, SCHEMES, STANDINGS, Earned, make, terms_of


def total(name: str, *group: Earned, **values: Any) -> list[float]:
    return [sum(terms.values()) for terms in terms_of(make(name, values), group)]


def test_every_outcome_but_our_own_failure_stands_for_something() -> None:
    assert set(STANDINGS) == {one for one in Outcome if one.judged} | set(Refusal)


def test_the_table_agrees_with_the_record_on_what_is_correct() -> None:
    assert {name for name in STANDINGS if STANDINGS[name].correct and name in set(Outcome)} == {
        name for name in Outcome if name.correct
    }


@pytest.mark.parametrize(
    ("outcome", "earned"),
    [
        ("unreadable", 0.0),
        ("static_reject", 0.0),
        ("compile_error", 0.0),
        ("mismatch", 0.4),
        ("timeout", 0.4),
        ("copied", 0.8),
        ("not_faster", 0.8),
        ("correct", 0.8),
        ("confirmed", 1.0),
    ],
)
def test_kernelcompare_adds_up_what_was_reached(outcome: str, earned: float) -> None:
    assert total("kernelcompare", Earned(outcome, 2.0)) == [pytest.approx(earned)]


def test_weights_are_the_users() -> None:
    assert total("kernelcompare", Earned("confirmed", 2.0), faster=1.0) == [pytest.approx(1.8)]


def test_a_speed_that_does_not_count_earns_nothing() -> None:
    assert total("kernelcompare", Earned("confirmed")) == [pytest.approx(0.8)]
    assert total("continuous", Earned("confirmed")) == [pytest.approx(0.6)]


def test_tiers_are_those_of_the_paper() -> None:
    names = ("malformed", "compile_error", "timeout", "launch_error", "mismatch", "not_faster")
    assert total("staged-tiers", *map(Earned, names)) == [-100, -40, -30, -20, -10, 100]


def test_tiers_pay_the_share_of_the_groups_best_to_slow_answers_too_and_nothing_to_copies() -> None:
    group = [
        Earned("confirmed", 4.0),
        Earned("confirmed", 2.0),
        Earned("not_faster", 0.5),
        Earned("copied", 9.0),
    ]
    assert total("staged-tiers", *group) == [100, 50, 12.5, 0]
    assert total("staged-tiers", group[2]) == [100]
    untimed = [Earned("confirmed", 4.0), Earned("correct"), Earned("ambiguous_timing", 3.0)]
    assert total("staged-tiers", *untimed) == [100, 25, 25], "a gain that is not confirmed does not count"


EARNED = st.builds(Earned, st.sampled_from(list(STANDINGS)), st.none() | st.floats(1e-3, 1e3))


@given(st.lists(EARNED, min_size=1, max_size=12))
def test_tiers_of_any_group(group: list[Earned]) -> None:
    rewards = total("staged-tiers", *group)
    honest = [one.standing.correct and one.outcome != "copied" for one in group]
    for one, good, reward in zip(group, honest, rewards, strict=True):
        if good:
            assert 0 < reward <= 100
        else:
            assert reward == (one.standing.tier or 0) <= 0
    if any(honest):
        assert max(rewards) == 100, "the group's best"
    faster = [(one.speedup, reward) for one, reward in zip(group, rewards, strict=True) if one.faster]
    assert all(a[1] <= b[1] for a in faster for b in faster if (a[0] or 0) <= (b[0] or 0))


def test_continuous_grows_with_each_doubling_and_has_ends() -> None:
    ratios = (1.0, 2.0, 4.0, 1e6)
    assert total("continuous", *(Earned("confirmed", ratio) for ratio in ratios)) == [
        pytest.approx(value) for value in (0.6, 0.8, 1.0, 1.6)
    ]
    slower = [Earned("not_faster", ratio) for ratio in (1.01, 0.5, 1e-6)]
    assert total("continuous", *slower) == [pytest.approx(value) for value in (0.6, 0.4, 0.4)]


@pytest.mark.parametrize(
    ("outcome", "speedup", "earned"),
    [
        ("unreadable", None, 0.0),
        ("copied", 1.0, 0.0),
        ("malformed", None, 0.02),
        ("static_reject", None, 0.02),
        ("compile_error", None, 0.02),
        ("mismatch", None, 0.1),
        ("timeout", None, 0.1),
        ("nondeterministic", None, 0.1),
        ("not_faster", 0.66, 0.15),
        ("not_faster", 0.67, 0.3),
        ("correct", None, 0.3),
        ("ambiguous_timing", 3.0, 0.3),
        ("confirmed", 1.02, 0.3),
        ("confirmed", 2.0, 0.8),
        ("confirmed", 4.0, 1.3),
        ("confirmed", 64.0, 1.5),
    ],
)
def test_pairs_pays_for_what_was_reached_and_for_speed(
    outcome: str, speedup: float | None, earned: float
) -> None:
    assert total("pairs", Earned(outcome, speedup, known=4.0)) == [pytest.approx(earned)]


def test_pairs_asks_for_half_as_much_again_at_least() -> None:
    assert total("pairs", Earned("confirmed", 1.5, known=1.1)) == [pytest.approx(1.3)]
    assert total("pairs", Earned("confirmed", 8.0)) == [pytest.approx(1.3)], "nothing is known"


HONEST = [name for name in STANDINGS if name not in ("copied", "unreadable")]


@given(failed=st.sampled_from(HONEST), ratio=st.floats(1e-3, 1e3), known=st.none() | st.floats(0.5, 1e3))
def test_no_copy_earns_as_much_as_an_honest_attempt(failed: str, ratio: float, known: float | None) -> None:
    copy, attempt = total("pairs", Earned("copied", ratio, known), Earned(failed, ratio, known))
    assert copy < attempt


@given(
    one=st.floats(1e-3, 1e3),
    other=st.floats(1e-3, 1e3),
    known=st.none() | st.floats(0.5, 1e3),
    outcome=st.sampled_from(("confirmed", "not_faster", "ambiguous_timing")),
)
def test_more_speed_never_pays_less(one: float, other: float, known: float | None, outcome: str) -> None:
    rewards = total("pairs", *(Earned(outcome, ratio, known) for ratio in sorted((one, other))))
    assert rewards[0] <= rewards[1]


@pytest.mark.parametrize("name", SCHEMES)
def test_our_failure_neither_helps_nor_hurts(name: str) -> None:
    group = [Earned("confirmed", 3.0), Earned(OURS), Earned("mismatch")]
    rewards = total(name, *group)
    assert rewards[1] == pytest.approx((rewards[0] + rewards[2]) / 2)
    assert [rewards[0], rewards[2]] == total(name, group[0], group[2])
    assert total(name, Earned(OURS)) == [0.0]


WRONG = [name for name, standing in STANDINGS.items() if not standing.correct]
RIGHT = [name for name, standing in STANDINGS.items() if standing.correct]


@pytest.mark.parametrize("name", SCHEMES)
@given(wrong=st.sampled_from(WRONG), right=st.sampled_from(RIGHT), ratio=st.floats(1e-3, 1e3))
def test_no_wrong_answer_earns_as_much_as_a_right_one(
    name: str, wrong: str, right: str, ratio: float
) -> None:
    rewards = total(name, Earned(wrong), Earned(right, ratio))
    assert rewards[0] < rewards[1] or (name, right) == ("pairs", "copied")
    assert all(math.isfinite(reward) for reward in rewards)


OWN = """
def by_length(group, scale=1.0):
    assert all(one.outcome and one.task == "t" and one.code == "abc" for one in group)
    return [scale * len(one.code) for one in group]

def in_parts(group):
    return [{"correct": one.standing.correct, "speed": one.speedup or 0} for one in group]

def short(group): return [1.0]
def large(group): return [{"a": 1e308, "b": 1e308} for _ in group]
def endless(group): return [float("inf") for _ in group]
def words(group): return ["good" for _ in group]
number = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_rewards_of_a_test.py").write_text(OWN)
    return "own_rewards_of_a_test"


def test_a_users_own_reward_sees_the_group_and_pays_numbers_or_terms(own: str) -> None:
    group = [Earned("confirmed", 2.0, None, "t", "abc"), Earned("mismatch", None, None, "t", "abc")]
    assert terms_of(chosen(f"{own}:by_length", {"scale": 0.5}), group) == [{"reward": 1.5}] * 2
    assert terms_of(chosen(f"{own}:in_parts", {}), group)[0] == {"correct": 1.0, "speed": 2.0}
    assert terms_of(chosen(f"{own}:short", {}), [Earned(OURS)]) == [{"neutral": 0.0}]
    assert total("pairs", *group) == [sum(one.values()) for one in terms_of(chosen("pairs", {}), group)]


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("short", {}, "1 rewards for 2 completions"),
        ("endless", {}, "NaN or infinite"),
        ("large", {}, "NaN or infinite"),
        ("words", {}, "the reward failed: ValueError"),
        ("in_parts", {"scale": 1}, "unexpected keyword argument 'scale'"),
        ("number", {}, "not a function"),
        ("missing", {}, "cannot import the reward: AttributeError"),
    ],
)
def test_what_a_users_own_reward_does_wrong_is_one_line(
    own: str, name: str, values: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        terms_of(chosen(f"{own}:{name}", values), [Earned("mismatch")] * 2)


def test_a_module_that_is_not_there_is_one_line() -> None:
    with pytest.raises(InputError, match="no_such_module:reward: cannot import the reward"):
        chosen("no_such_module:reward", {})


def test_a_server_imports_nothing_by_name() -> None:
    with pytest.raises(InputError, match="unknown reward"):
        make("os:getcwd")


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("fastest", {}, "unknown reward"),
        ("kernelcompare", {"speed": 1.0}, "has no 'speed'"),
        ("continuous", {"most": "all"}, "must be a number"),
        ("continuous", {"most": math.nan}, "must be a number"),
        ("kernelcompare", {"correct": 1e308}, "must be a number from"),
        ("kernelcompare", {"correct": True}, "must be a number"),
        ("continuous", {"group": 1.0}, "has no 'group'"),
    ],
)
def test_what_is_no_reward_is_said(name: str, values: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make(name, values)
