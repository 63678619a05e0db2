"""The tasks of a run: training examples for SFT, rollout prompts for GRPO, and held-out tasks.

Whole families are held out first (`tasks.held_out`). Of the remaining ones, some are reserved for GRPO
(`tasks.rollout`, with the same seed), so that its prompts are not rows that SFT memorised. A run writes the
three lists to `tasks.json`. Not covered: tasks from pairs (`reward.pair_tasks`), how families are held out
(`reward.splits`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kcurate.core import store
from kcurate.core.notes import Note, silent
from kcurate.errors import InputError, OptionError
from kcurate.reward import pair_tasks, splits
from kcurate.reward.task import Task
from kcurate.train import curriculum
from kcurate.train.run_folder import RunFolder
from kcurate.train.settings import TrainSettings


@dataclass(frozen=True)
class Tasks:
    """Tasks for SFT, for GRPO, and held out from both; `left_out`: why a module became no task, by name."""

    sft: tuple[Task, ...]
    grpo: tuple[Task, ...]
    held_out: tuple[Task, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)


def load_tasks(settings: TrainSettings, note: Note = silent, *, gpu: str | None = None) -> Tasks:
    """The tasks of a run; prompts name `gpu`, unless a server judges.

    The three parts share no family, except that with `tasks.rollout` 0 SFT and GRPO use the same tasks.

    Raises:
        InputError: no such dataset, or no usable task in it.
    """
    select, gpu = settings.tasks, None if settings.judge.url else gpu
    source, _, path = select.source.partition(":")
    pairs = pair_tasks.load(*select.dataset, brief=select.brief, untimed=select.untimed, gpu=gpu, note=note)
    pairs = _shortest(pairs, select.limit)
    if source == "pairs":
        training, held_out = splits.split(pairs, select.held_out, select.split_seed)
        sft, reserved = splits.split(training, select.rollout, select.split_seed)
        rollout = _arranged(_open(reserved if select.rollout else training), settings)
        parts = Tasks(sft, rollout, pair_tasks.scored(held_out))
    elif source == "kernelbench":
        from kcurate.kernelbench import tasks as kernelbench

        modules = kernelbench.load(path or None, brief=select.brief, gpu=gpu or "", note=note)
        rollout, held_out = splits.split(modules.tasks, select.held_out, select.split_seed)
        note(f"kernelbench: {len(modules.tasks)} tasks, {len(modules.left_out)} modules left out")
        pairs = _apart(pairs, held_out, note)
        if not modules.tasks:
            why = "; ".join(f"{name}: {reason}" for name, reason in modules.left_out.items())
            raise InputError(f"no module became a task ({why[:300]})", where=select.source)
        rollout = _arranged(_shortest(rollout, select.limit), settings)
        parts = Tasks(pairs, rollout, held_out, modules.left_out)
    else:
        raise OptionError(f"no tasks {select.source!r}", where="--tasks", hint="pairs or kernelbench[:PATH]")
    families = [len({task.family for task in part}) for part in (parts.sft, parts.grpo, parts.held_out)]
    note(f"{len(parts.sft)} tasks for SFT, {len(parts.grpo)} for GRPO, {len(parts.held_out)} held out "
         f"({', '.join(map(str, families))} families)")  # fmt: skip
    return parts


def write(folder: RunFolder, tasks: Tasks) -> None:
    """Write which tasks are in which part."""
    parts = {name: [task.id for task in getattr(tasks, name)] for name in ("sft", "grpo", "held_out")}
    store.write_bytes(folder.tasks, store.pretty_json({**parts, "left_out": dict(tasks.left_out)}))


def _apart(tasks: tuple[Task, ...], held_out: tuple[Task, ...], note: Note) -> tuple[Task, ...]:
    """The pairs whose family is not held out. With KernelBench's tasks, all other pairs are for SFT."""
    families = {task.family for task in held_out}
    if dropped := [task.id for task in tasks if task.family in families]:
        count = f"{len(dropped)} of {len(tasks)}"
        note(f"{count} tasks are left out: held-out tasks have their family ({dropped[0]})")
    return tuple(task for task in tasks if task.family not in families)


def _shortest(tasks: tuple[Task, ...], limit: int) -> tuple[Task, ...]:
    """At most `limit` tasks (0: all) in their order: the shortest of each family, the shortest ones first.

    A run of few tasks is made to be quick; the first ones by name need not fit its token limits.
    """
    by_length = sorted(tasks, key=lambda task: len(str(task.prompt)) + len(task.answer or ""))
    tasks_of_family = Counter[str]()
    ranks: dict[str, int] = {}
    for task in by_length:
        ranks[task.id] = tasks_of_family[task.family]
        tasks_of_family[task.family] += 1
    kept = {task.id for task in sorted(by_length, key=lambda task: ranks[task.id])[: limit or None]}
    return tuple(task for task in tasks if task.id in kept)


def _open(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """The tasks that any faster answer solves: none asks for a technique by name."""
    return tuple(task for task in tasks if task.technique is None)


def _arranged(tasks: tuple[Task, ...], settings: TrainSettings) -> tuple[Task, ...]:
    policy, values = settings.curriculum.policy, settings.curriculum.values
    return curriculum.arranged(tasks, policy, values, seed=settings.seed)
