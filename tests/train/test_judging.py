"""What the answers of a step earned, put down once for all processes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from train.asked import task

from kcurate.local_models.form import Form
from kcurate.local_models.settings import ModelSettings
from kcurate.reward.task import Judged, Task
from kcurate.train.run_folder import RunFolder
from kcurate.train.trl_reward import Rewards, Tally, how_completions_ended


class Pays:
    """Gives the same for every answer."""

    async def score(self, tasks: Sequence[Task], replies: Sequence[str]) -> list[Judged]:
        return [judged(one.id, "correct") for one in tasks]


def judged(name: str, outcome: str) -> Judged:
    return Judged(name, outcome, reward=0.8, components={"compiles": 0.4, "correct": 0.4})


END = 7


def rewards(folder: RunFolder, *, writes: bool) -> Rewards:
    form = Form(SimpleNamespace(chat_template=None), ModelSettings())
    return Rewards(Pays(), {task().id: task()}, form, {END}, folder, writes=writes)


def reward(ours: Rewards, *ids: list[int], step: int) -> list[float]:
    """What completions of these tokens earn."""
    names, texts = [task().id] * len(ids), ["text"] * len(ids)
    state = SimpleNamespace(global_step=step - 1)
    return asyncio.run(ours.function()(texts, completion_ids=ids, task_id=names, trainer_state=state))


@pytest.mark.parametrize("writes", [True, False])
def test_the_first_process_puts_down_the_answers_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    import torch

    other = Tally(3, [judged("other", "mismatch")], waited_s=9.0)

    def gather(into: list[Any], own: Tally) -> None:
        into[:] = [own, other]

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    folder = RunFolder(tmp_path)
    ours = rewards(folder, writes=writes)
    assert reward(ours, [1, END], step=3) == [0.8]
    line = ours.take()
    assert (line["answers"], line["outcomes"], line["waited_s"]) == (2, {"correct": 1, "mismatch": 1}, 9.0)
    written = [(one["step"], one["outcome"]) for one in folder.judged.lines()]
    assert written == ([(3, "correct"), (3, "mismatch")] if writes else [])


def test_a_completion_without_its_end_counts_as_truncated(tmp_path: Path) -> None:
    ours = rewards(folder := RunFolder(tmp_path), writes=True)
    reward(ours, [1, END], [1, 2], [], step=1)
    assert ours.take()["truncated"] == 2
    reward(ours, [1, 2, END], step=2)
    assert ours.take()["truncated"] == 0
    assert [one["truncated"] for one in folder.judged.lines()] == [False, True, True, False]
    other = {"stage": "sft", "task": "another"}
    assert how_completions_ended([*folder.judged.lines(), other]) == {"ended": 2, "truncated": 2}


def test_a_step_without_answers_has_no_numbers(tmp_path: Path) -> None:
    assert rewards(RunFolder(tmp_path), writes=True).take() == {}
