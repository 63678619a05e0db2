"""Which tasks a run teaches, asks and holds out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from kcurate.errors import InputError
from kcurate.reward import pair_tasks
from kcurate.train import run_tasks
from kcurate.train.config import resolve
from kcurate.train.run_tasks import load_tasks

RELU = """
import torch
import torch.nn as nn

rows = 40
columns = 96

class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(rows, columns)]

def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """The built-in pairs are read once for each form of prompt; what a run makes of them is made anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_tasks, "load", cache(pair_tasks.load))
        yield


@pytest.mark.slow
def test_no_family_is_both_taught_and_held_out() -> None:
    found = load_tasks(resolve())
    assert all(task.technique is None for task in (*found.grpo, *found.held_out))
    sft, grpo, held_out = ({task.family for task in part} for part in (found.sft, found.grpo, found.held_out))
    assert not sft & grpo and not (sft | grpo) & held_out
    assert 0.15 < len(held_out) / len(sft | grpo | held_out) < 0.25
    assert 0.2 < len(grpo) / len(sft | grpo) < 0.4
    assert load_tasks(resolve()) == found, "the seed decides"
    same = load_tasks(resolve(sets=["tasks.rollout=0"]))
    assert same.held_out == found.held_out, "the share for GRPO does not move the test split"
    assert same.grpo == tuple(task for task in same.sft if task.technique is None)
    assert {task.family for task in same.sft} == sft | grpo


@pytest.mark.slow
def test_sqd_asks_stage_by_stage_and_holds_out_plain_tasks() -> None:
    found = load_tasks(resolve(recipe="sqd"))
    stages = [int(task.id.rsplit("@", 1)[1].split("-")[0]) for task in found.grpo]
    assert stages == sorted(stages)
    assert len(set(stages)) > 3
    assert len({task.id for task in found.grpo}) == len(found.grpo)
    assert not {task.family for task in found.grpo} & {task.family for task in found.sft}
    assert all("@" not in task.id for task in (*found.sft, *found.held_out))


def test_every_task_of_a_training_family_is_for_one_stage_only(pairs: Path) -> None:
    place = [f'tasks.dataset="{pairs}"', "tasks.untimed=true", "tasks.brief=true"]
    for share, counts in (("0", (5, 5)), ("0.1", (4, 1)), ("0.5", (2, 3))):
        found = load_tasks(resolve(sets=[*place, f"tasks.rollout={share}"]))
        assert (len(found.sft), len(found.grpo)) == counts
        apart = not {task.family for task in found.sft} & {task.family for task in found.grpo}
        assert apart == (share != "0")
        assert len(found.held_out) == 1


def test_limit_and_brief_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_tasks, "scored", tuple)  # keep what is held out and not scored
    monkeypatch.setattr(run_tasks, "_open", tuple)  # and what asks for a technique by name
    few = load_tasks(resolve(sets=["tasks.limit=10", "tasks.brief=true"]))
    assert len(few.sft) + len(few.grpo) + len(few.held_out) == 10
    full = load_tasks(resolve(sets=["tasks.limit=10"]))
    assert len(few.sft[0].prompt.system) < len(full.sft[0].prompt.system)


@pytest.mark.slow
def test_kernelbench_is_asked_and_pairs_are_taught(tmp_path: Path) -> None:
    level = tmp_path / "KernelBench" / "level1"
    level.mkdir(parents=True)
    for number, (name, what) in enumerate({"ReLU": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid"}.items(), 1):
        (level / f"{number}_{name}.py").write_text(RELU.replace("relu", what))
    (level / "4_Fixed.py").write_text(RELU.replace("rows, columns)", "8, 9)"))
    found = load_tasks(resolve(sets=[f'tasks.source="kernelbench:{tmp_path}"', "tasks.held_out=0.34"]))
    assert not any(task.id.startswith("kernelbench/") for task in found.sft)
    assert all(task.id.startswith("kernelbench/") for task in (*found.grpo, *found.held_out))
    assert len(found.grpo) == 2
    assert len(found.held_out) == 1
    assert all(task.answer is None for task in found.grpo)
    assert "4_Fixed" in found.left_out


@pytest.mark.slow
def test_what_kernelbench_holds_out_is_taught_by_no_other_task(pairs: Path, tmp_path: Path) -> None:
    place = [f'tasks.dataset="{pairs}"', "tasks.untimed=true"]
    whole = load_tasks(resolve(sets=[*place, "tasks.held_out=0", "tasks.rollout=0"]))
    families = sorted({task.family for task in whole.sft})
    first, second = families[:2]
    other = RELU.replace("torch.relu(x)", "torch.sigmoid(x) * 2")
    for number, (name, code) in enumerate(((first, RELU), (second, other)) * 2, 1):
        (tmp_path / f"{number}_{name}.py").write_text(code)
    notes: list[str] = []
    sets = [*place, f'tasks.source="kernelbench:{tmp_path}"', "tasks.held_out=0.25"]
    found = load_tasks(resolve(sets=sets), notes.append)
    assert [len(found.grpo), len(found.held_out)] == [2, 2]
    kept = set(families) - {found.held_out[0].family}
    assert {task.family for task in found.sft} == kept
    assert {task.family for task in found.grpo} == {first, second} & kept
    assert sum("left out: held-out tasks have their family" in note for note in notes) == 1


def test_unknown_tasks_are_named() -> None:
    with pytest.raises(InputError, match="no tasks 'kernels'"):
        load_tasks(resolve(sets=["tasks.source=kernels"]))
