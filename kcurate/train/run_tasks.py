"""The tasks of a run: those that SFT is taught, those that GRPO samples for, and those held out.

First whole families are held out (`tasks.held_out`), then of the rest whole families are kept for GRPO
(`tasks.rollout`), by the same seed: GRPO's prompts are not the rows that SFT memorised. A run writes the
three lists to `tasks.json`. Not covered: tasks from pairs and their split (`pair_tasks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcurate.core import store
from kcurate.core.notes import Note, silent
from kcurate.errors import InputError
from kcurate.train import curriculum, pair_tasks
from kcurate.train.run_folder import RunFolder
from kcurate.train.settings import TrainSettings
from kcurate.train.task import Task


@dataclass(frozen=True)
class Tasks:
    """Tasks for SFT, for GRPO, and held out from both; and why a module became no task."""

    sft: tuple[Task, ...]
    grpo: tuple[Task, ...]
    held_out: tuple[Task, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)


def load_tasks(settings: TrainSettings, note: Note = silent, *, gpu: str | None = None) -> Tasks:
    """The tasks of a run; prompts name `gpu`, if given and if it judges.

    No two of the three parts have a family in common; with `tasks.rollout` 0, GRPO asks what SFT is taught.

    Raises:
        InputError: no such dataset, or no usable task in it.
    """
    own, gpu = settings.tasks, None if settings.judge.url else gpu
    kind, _, path = own.source.partition(":")
    pairs = pair_tasks.load(*own.dataset, brief=own.brief, untimed=own.untimed, gpu=gpu, note=note)
    pairs = pairs[: own.limit or None]
    if kind == "pairs":
        training, held_out = pair_tasks.split(pairs, own.held_out, own.split_seed)
        sft, kept = pair_tasks.split(training, own.rollout, own.split_seed)
        rollout = _arranged(_open(kept if own.rollout else training), settings)
        found = Tasks(sft, rollout, pair_tasks.scored(held_out))
    elif kind == "kernelbench":
        from kcurate.train.kernelbench import tasks as kernelbench

        modules = kernelbench.load(path or None, brief=own.brief, gpu=gpu or "", note=note)
        rollout, held_out = kernelbench.split(modules.tasks, own.held_out, own.split_seed)
        note(f"kernelbench: {len(modules.tasks)} tasks, {len(modules.left_out)} modules left out")
        pairs, rollout = (_apart(part, held_out, note) for part in (pairs, rollout))
        if not modules.tasks:
            why = "; ".join(f"{name}: {reason}" for name, reason in modules.left_out.items())
            raise InputError(f"no module became a task ({why[:300]})", where=own.source)
        rollout = _arranged(rollout[: own.limit or None], settings)
        found = Tasks(pairs, rollout, held_out, modules.left_out)
    else:
        raise InputError(f"no tasks {own.source!r}", where="--tasks", hint="pairs or kernelbench[:PATH]")
    families = [len({task.family for task in part}) for part in (found.sft, found.grpo, found.held_out)]
    note(f"{len(found.sft)} tasks for SFT, {len(found.grpo)} for GRPO, {len(found.held_out)} held out "
         f"({', '.join(map(str, families))} families)")  # fmt: skip
    return found


def write(folder: RunFolder, tasks: Tasks) -> None:
    """Write which tasks are in which part."""
    parts = {name: [one.id for one in getattr(tasks, name)] for name in ("sft", "grpo", "held_out")}
    store.write_bytes(folder.tasks, store.pretty_json({**parts, "left_out": dict(tasks.left_out)}))


def _apart(tasks: tuple[Task, ...], held_out: tuple[Task, ...], note: Note) -> tuple[Task, ...]:
    """The tasks of other families than those held out: KernelBench is split by task, pairs not at all."""
    families = {one.family for one in held_out}
    apart = tuple(one for one in tasks if one.family not in families)
    if left := [one.id for one in tasks if one.family in families]:
        note(f"{len(left)} of {len(tasks)} tasks are left out: held-out tasks have their family ({left[0]})")
    return apart


def _open(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """The tasks that a faster answer solves best: none asks for a technique by name."""
    return tuple(task for task in tasks if task.technique is None)


def _arranged(tasks: tuple[Task, ...], settings: TrainSettings) -> tuple[Task, ...]:
    own = settings.curriculum
    return curriculum.arranged(tasks, own.policy, own.values, seed=settings.seed)
