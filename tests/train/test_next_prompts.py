"""Which prompts GRPO samples for next: by pass rate, and with earlier answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import SCALE
from train.asked import WRONG, reply, task

from kcurate.local_models.form import Form
from kcurate.local_models.settings import ModelSettings
from kcurate.records import Outcome
from kcurate.reward.answers import Refusal, Refused, read
from kcurate.reward.schemes import OURS, STANDINGS
from kcurate.reward.task import Judged, Task
from kcurate.train import next_prompts
from kcurate.train.curriculum import at_stage, stages
from kcurate.train.next_prompts import LEAST_WEIGHT, PassRate, Pool

TASK = task()
STAGE = next(one for stage in stages() if (one := at_stage(TASK, stage)) is not None)


def judged(outcome: str, speedup: float | None = None) -> Judged:
    return Judged(TASK.id, outcome, 0.0, {}, speedup)


def different(number: int) -> str:
    """A readable answer unlike any other."""
    return reply(SCALE.replace("a * x[i]", f"a * x[i] + {number}.0f - {number}.0f"))


def words(text: str, **_: Any) -> Any:
    return SimpleNamespace(input_ids=text.split())


def pool(known: Task = TASK, longest: int = 10_000, seed: int = 1) -> Pool:
    tokenizer = type("Words", (), {"chat_template": None, "__call__": staticmethod(words)})()
    return Pool({known.id: known}, Form(tokenizer, ModelSettings()), longest, seed)


def row(known: Task = TASK) -> dict[str, Any]:
    return {"task_id": known.id, "prompt": "the seed"}


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(STANDINGS)), st.floats(0.1, 50)), max_size=24))
def test_the_best_are_deepened_the_next_improved_and_failures_repaired(
    earned: list[tuple[str, float]],
) -> None:
    made = pool(STAGE)
    for number, (outcome, speedup) in enumerate(earned):
        made.saw(TASK, different(number), judged(outcome, speedup))
    honest = [one for one in earned if one[0] != Refusal.COPIED]
    right = sorted((speed for name, speed in honest if STANDINGS[name].correct), reverse=True)
    right = right[: next_prompts.RIGHT]
    failed = [one for one in honest if not STANDINGS[one[0]].correct][-next_prompts.FAILED :]
    found = [(action, member.judged.speedup) for action, member in made.steps(STAGE)]
    deepened = [speed for action, speed in found if action == "deepen"]
    improved = [speed for action, speed in found if action == "improve"]
    assert deepened == right[: len(deepened)]
    assert improved == right[len(deepened) :][: len(improved)]
    assert 0.4 * len(right) <= len(deepened) < 0.4 * len(right) + 1
    assert 0.7 * len(right) <= len(deepened) + len(improved) < 0.7 * len(right) + 1
    assert [speed for action, speed in found if action == "repair"] == [speed for _, speed in failed]


def test_the_seed_is_always_in_and_every_step_comes() -> None:
    made = pool(STAGE)
    assert made.choose([row(STAGE)]) == [{**row(STAGE), "shown": ""}], "nothing is there yet"
    for number, speed in enumerate((4.0, 2.0, 0.5)):
        made.saw(TASK, different(number), judged("confirmed", speed))
    made.saw(TASK, WRONG, judged("mismatch"))
    prompts = Counter(str(made.choose([row(STAGE)])[0]["prompt"]) for _ in range(200))
    assert prompts["the seed"] > 20
    for said in ("Go one step on from it", "Write a better one", "was not accepted"):
        assert any(said in prompt for prompt in prompts)
    assert len(prompts) == 5, "the seed, two deepened (40% of three), one improved, one repaired"


def test_a_prompt_that_would_be_too_long_is_the_seed() -> None:
    made = pool(longest=5)
    made.saw(TASK, different(1), judged("confirmed", 2.0))
    assert {made.choose([row()])[0]["prompt"] for _ in range(20)} == {"the seed"}


def test_what_is_no_answer_of_its_own_is_not_shown() -> None:
    made = pool()
    for outcome in (Refusal.COPIED, OURS):
        made.saw(TASK, different(1), judged(outcome))
    assert not list(made.steps(TASK))
    made.saw(TASK, different(1), judged("confirmed", 2.0))
    made.saw(TASK, different(1), judged("confirmed", 3.0))
    assert len(list(made.steps(TASK))) == 1


def test_an_answer_that_a_stage_does_not_permit_is_not_shown_there() -> None:
    tile = "    __shared__ float t[128]; t[threadIdx.x] = x[i]; __syncthreads(); if (i < n)"
    tiled = SCALE.replace("    if (i < n)", tile)
    first = replace(STAGE, permitted=frozenset({"launch-bounds"}))
    made = pool(first)
    made.saw(TASK, reply(tiled), judged("confirmed", 2.0))
    assert not list(made.steps(first))
    assert [action for action, _ in made.steps(TASK)] == ["improve"], "no technique is named there"


def test_the_answer_that_a_prompt_shows_is_a_copy() -> None:
    made = pool()
    made.saw(TASK, different(1), judged("confirmed", 2.0))
    shown = {str(made.choose([row()])[0]["shown"]) for _ in range(20)}
    (code,) = shown - {""}
    assert "" in shown
    copied = read(replace(TASK, shown=code), different(1))
    assert isinstance(copied, Refused) and copied.outcome is Refusal.COPIED
    assert not isinstance(read(replace(TASK, shown=code), different(2)), Refused)
    assert not isinstance(read(TASK, different(1)), Refused)


ROWS = [{"task_id": name} for name in "abcdef"]


def rated(tries: dict[str, str]) -> PassRate:
    """`+` right, `-` wrong, `c` a copy, `?` not judged."""
    outcomes = {"+": "confirmed", "-": "mismatch", "c": "copied", "?": Outcome.HARNESS_ERROR.value}
    made = PassRate(ROWS, 1)
    for name, marks in tries.items():
        for mark in marks:
            made.saw(replace(TASK, id=name), "", judged(outcomes[mark]))
    return made


def test_undecided_tasks_weigh_most_and_a_copy_is_no_pass() -> None:
    made = rated({"a": "++--", "b": "+++-", "c": "-" * 50, "d": "+" * 50, "e": "cccc", "f": "?"})
    weights = [made.weight(name) for name in "abcdef"]
    assert weights[0] == weights[5] == 1
    assert weights[0] > weights[1] > weights[4] > weights[2] > LEAST_WEIGHT
    assert weights[2] == pytest.approx(weights[3])
    assert rated({"c": "-" * 500}).weight("c") == LEAST_WEIGHT


def test_new_tasks_come_as_they_are_and_others_by_weight_and_never_twice() -> None:
    made = rated({"a": "+-", "b": "-" * 60, "c": "-" * 60})
    assert made.choose(ROWS[3:]) == ROWS[3:]
    drawn = Counter(made.choose([ROWS[1]])[0]["task_id"] for _ in range(300))
    assert drawn["a"] > 200 and drawn["b"] and drawn["c"] and set(drawn) == set("abc")
    for _ in range(20):
        both = made.choose(ROWS[:4])
        assert len({one["task_id"] for one in both}) == 4
        assert both[3] == ROWS[3]
