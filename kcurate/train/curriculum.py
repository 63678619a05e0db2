"""Stages of permitted techniques, after the staged search of Mikasa et al. (SQD, arXiv:2602.12049).

A ladder of techniques has one stage per technique. Stage k asks for the k-th technique. It permits the first
k techniques, the techniques in the given code, and a few that are always permitted. A last stage, `free`,
permits all. A task is in a stage if its given code does not use the technique that the stage asks for. A
completion that uses another technique is rejected (`reward.answers`). Not covered: which techniques code uses
(`kcurate.problem.techniques`), prompts that show earlier answers (`next_prompts`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kcurate import prompts
from kcurate.errors import InputError
from kcurate.problem.shown import material_of
from kcurate.problem.techniques import LADDER_FAST, not_permitted, permitted, shown_in, vocabulary
from kcurate.reward.task import Task

FREE = "free"
# Compiler hints, which do not change the algorithm. Loop unrolling is another, but it is the ladder's last
# technique: if it were always permitted, the last two stages would be equal.
ALWAYS = ("launch-bounds", "read-only-cache")
_VALUES = {
    "off": frozenset[str](),
    "pass-rate": frozenset[str](),
    "sqd": frozenset({"ladder", "always", "free"}),
}


@dataclass(frozen=True)
class Stage:
    """One stage: its number from 1, the technique asked for (None: any), and all permitted by then."""

    number: int
    technique: str | None
    permitted: frozenset[str]

    @property
    def name(self) -> str:
        """The stage's name in logs."""
        return f"{self.number}-{self.technique or FREE}"


def stages(
    ladder: Sequence[str] = LADDER_FAST, *, always: Sequence[str] = ALWAYS, free: bool = True
) -> tuple[Stage, ...]:
    """The stages of a ladder, and a last unrestricted one if `free`.

    Raises:
        InputError: an unknown technique, or one that is in the ladder twice.
    """
    for name in (*ladder, *always):
        if name not in vocabulary():
            raise InputError(f"unknown technique {name!r}", where="curriculum", hint=", ".join(vocabulary()))
    if len(set(ladder)) < len(ladder):
        raise InputError("a technique is in the ladder twice", where="curriculum")
    ladder_stages = [
        Stage(i + 1, name, frozenset((*always, *ladder[: i + 1]))) for i, name in enumerate(ladder)
    ]
    return (*ladder_stages, *([Stage(len(ladder) + 1, None, frozenset())] if free else []))


def at_stage(task: Task, stage: Stage) -> Task | None:
    """The task with the prompt of a stage; None if it is not in the stage.

    Its `answer` is kept if it uses the technique asked for and only permitted techniques.
    """
    if stage.technique is None:
        return replace(task, id=f"{task.id}@{stage.name}")
    slow, problem = task.template.slow, task.template.problem
    if problem is None or stage.technique in shown_in(slow.code):
        return None
    allowed = permitted(slow.code, stage.permitted, "fast")
    prompt = prompts.build(
        material_of(problem, slow, "fast", task.family),
        vocabulary()[stage.technique],
        permitted=sorted(allowed),
    )
    fast = task.template.fast.code
    uses_it = stage.technique in (*task.template.techniques, *shown_in(fast))
    return replace(
        task,
        id=f"{task.id}@{stage.name}",
        prompt=replace(prompt, system=task.prompt.system, context=task.prompt.context),
        answer=task.answer if uses_it and not not_permitted(fast, allowed) else None,
        permitted=allowed,
    )


def arranged(
    tasks: Sequence[Task], policy: str, values: Mapping[str, Any] | None = None, *, seed: int
) -> tuple[Task, ...]:
    """The tasks in rollout order: stage by stage, shuffled by `seed` inside a stage.

    With `policy` off or pass-rate they are unchanged. `values` of `sqd`: the arguments of `stages`.

    Raises:
        InputError: an unknown policy, value or technique; or no task is left.
    """
    if policy not in _VALUES:
        raise InputError(f"unknown curriculum {policy!r}", hint=f"one of {', '.join(_VALUES)}")
    _check(policy, values or {})
    if policy != "sqd":
        return tuple(tasks)
    in_order: list[Task] = []
    for stage in stages(**(values or {})):
        in_stage = [staged for task in tasks if (staged := at_stage(task, stage)) is not None]
        random.Random(f"{seed}-{stage.name}").shuffle(in_stage)
        in_order += in_stage
    if not in_order:
        raise InputError("no task is in any stage", where="curriculum")
    return tuple(in_order)


def _check(policy: str, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if name not in _VALUES[policy]:
            parameters = ", ".join(sorted(_VALUES[policy])) or "nothing"
            raise InputError(f"the curriculum {policy} has no {name!r}", hint=f"it has {parameters}")
        is_names = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
        if not (isinstance(value, bool) if name == "free" else is_names):
            expected = "true or false" if name == "free" else "a list of techniques"
            raise InputError(f"{name} must be {expected}", where="curriculum")
