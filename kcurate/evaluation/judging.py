"""What the judge finds of completions: the same pool, outcomes and copies as in training.

Not covered: what an outcome earns (`reward.schemes`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from kcurate import prompts
from kcurate.errors import InputError
from kcurate.evaluation.completions import Completion
from kcurate.reward.task import Judged, Pool, Task, given_hash

MAX_DETAIL_CHARS = 300


def judge(
    rows: Sequence[Completion], tasks: Sequence[Task], pool: Pool
) -> tuple[list[Completion], list[Judged]]:
    """The rows with what was found, and the same as the pool returns it.

    Raises:
        InputError: a task is missing, or is not the one that was asked. KcurateError: this machine cannot
            judge.
    """
    asked = asked_of(rows, tasks)
    judged = asyncio.run(pool.score(asked, [answer_of(row) for row in rows]))
    return [_row(*entry) for entry in zip(rows, asked, judged, strict=True)], judged


def short(detail: str) -> str:
    """A detail as a row of completions holds it."""
    return detail[:MAX_DETAIL_CHARS].encode("utf-8", "replace").decode()


def answer_of(row: Completion) -> str | prompts.Answer:
    """What the pool is to read: text, or the answer in the input of a tool (empty text if there is none)."""
    if row.form == "text":
        return row.reply
    reply = prompts.read_reply(row.reply, "tool")
    return "" if isinstance(reply, prompts.Unreadable) else reply


def asked_of(rows: Sequence[Completion], tasks: Sequence[Task]) -> list[Task]:
    """The task of each row.

    Raises:
        InputError: one is missing, or is not the one that was asked.
    """
    known = {task.id: task for task in tasks}
    hashes = {name: given_hash(known[name]) for name in {row.task for row in rows} & set(known)}
    for row in rows:
        if row.task not in known:
            raise InputError("no such task any more", where=row.task, hint="generate again")
        if hashes[row.task] != row.given:
            raise InputError("the task has changed since it was asked", where=row.task, hint="generate again")
    return [known[row.task] for row in rows]


def _row(row: Completion, task: Task, judgement: Judged) -> Completion:
    return replace(
        row,
        outcome=judgement.outcome,
        reward=judgement.reward,
        speedup=judgement.speedup,
        known=task.known,
        detail=short(judgement.detail),
        judge_s=(row.judge_s or 0.0) + judgement.judge_s,
        audit=judgement.audit,
        cheat=judgement.cheat,
        key=judgement.key or None,
    )
