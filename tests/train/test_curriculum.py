"""Stages of permitted techniques."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from small import SCALE, scaled
from train.asked import PLAN, reply

from kcurate.errors import InputError
from kcurate.problem.techniques import LADDER_FAST, shown_in
from kcurate.reward.answers import Readable, Refusal, Refused, read
from kcurate.reward.pair_tasks import task_of
from kcurate.train.curriculum import arranged, at_stage, stages

TILED = SCALE.replace(
    "    if (i < n)", "    __shared__ float t[128]; t[threadIdx.x] = x[i]; __syncthreads(); if (i < n)"
)
LADDER = ("shared-memory-tiling", "vectorized-access")
TASKS = [task_of(scaled(name)) for name in ("a", "b", "c")]


def test_each_stage_permits_one_technique_more() -> None:
    made = stages(LADDER, always=())
    assert [stage.name for stage in made] == ["1-shared-memory-tiling", "2-vectorized-access", "3-free"]
    assert [stage.permitted for stage in made[:2]] == [{LADDER[0]}, {*LADDER}]
    assert len(stages(LADDER, free=False)) == 2
    assert [stage.technique for stage in stages()] == [*LADDER_FAST, None]


def test_no_two_stages_permit_the_same() -> None:
    made = stages(free=False)
    assert len({stage.permitted for stage in made}) == len(made) == len(LADDER_FAST)


def test_the_prompt_names_the_technique_and_what_is_permitted() -> None:
    task = at_stage(TASKS[0], stages(LADDER)[0])
    assert task is not None
    assert task.id == "test/a@1-shared-memory-tiling"
    assert "with the technique" in task.prompt.task
    assert "may use: launch-bounds, read-only-cache, shared-memory-tiling." in task.prompt.task
    assert (task.prompt.system, task.prompt.context) == (TASKS[0].prompt.system, TASKS[0].prompt.context)


def test_an_answer_beyond_the_stage_is_refused_until_it_is_permitted() -> None:
    vectors = reply(SCALE.replace("    if (i < n)", "    const float4* v; if (i < n)"), PLAN)
    tiled = reply(TILED, PLAN)
    assert shown_in(TILED) == {"shared-memory-tiling"}
    found = {}
    for stage in stages(LADDER):
        task = at_stage(TASKS[0], stage)
        assert task is not None
        found[stage.number] = [read(task, text) for text in (tiled, vectors)]
    assert isinstance(found[1][0], Readable)
    assert found[1][1] == Refused(Refusal.NOT_PERMITTED, "vectorized-access")
    assert all(isinstance(one, Readable) for number in (2, 3) for one in found[number])


def test_a_task_that_has_the_technique_already_is_not_asked_for_it() -> None:
    tiled = scaled()
    task = task_of(replace(tiled, slow=replace(tiled.slow, code=TILED)))
    assert at_stage(task, stages(LADDER)[0]) is None
    later = at_stage(task, stages(LADDER)[1])
    assert later is not None and later.permitted is not None
    assert set(LADDER) <= later.permitted


def test_an_answer_is_taught_in_the_stages_that_permit_it() -> None:
    pair = scaled()
    task = task_of(replace(pair, fast=replace(pair.fast, code=TILED)))
    taught = [at_stage(task, stage) for stage in stages(LADDER)]
    assert [one is not None and one.answer is not None for one in taught] == [True, False, True]


def test_tasks_come_stage_by_stage_in_an_order_that_the_seed_gives() -> None:
    made = arranged(TASKS, "sqd", {"ladder": list(LADDER)}, seed=1)
    assert [task.id.partition("@")[2][0] for task in made] == ["1"] * 3 + ["2"] * 3 + ["3"] * 3
    assert made == arranged(TASKS, "sqd", {"ladder": list(LADDER)}, seed=1)
    orders = {tuple(task.family for task in arranged(TASKS, "sqd", seed=seed)[:3]) for seed in range(9)}
    assert len(orders) > 1
    assert arranged(TASKS, "off", seed=1) == tuple(TASKS)


@pytest.mark.parametrize(
    ("policy", "values", "said"),
    [
        ("steps", {}, "unknown curriculum"),
        ("off", {"ladder": []}, "has no 'ladder'"),
        ("sqd", {"depth": 3}, "has no 'depth'"),
        ("sqd", {"ladder": "all"}, "must be a list"),
        ("sqd", {"ladder": ["magic"]}, "unknown technique 'magic'"),
        ("sqd", {"ladder": [LADDER[0], LADDER[0]]}, "is in the ladder twice"),
        ("sqd", {"free": 1}, "must be true or false"),
        ("sqd", {"ladder": [], "free": False}, "no task is in any stage"),
    ],
)
def test_what_is_no_curriculum_is_said(policy: str, values: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        arranged(TASKS, policy, values, seed=0)
