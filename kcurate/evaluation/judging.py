"""Judges completions with the same pool, outcomes and rules for copies as in training.

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
    """The rows with the judge's findings, and the records that the pool returned.

    Raises:
        InputError: a task is missing, or has changed since the completion. KcurateError: this machine cannot
            judge.
    """
    task_of_row = tasks_of(rows, tasks)
    judged = asyncio.run(pool.score(task_of_row, [answer_of(row) for row in rows]))
    return [_row(*entry) for entry in zip(rows, task_of_row, judged, strict=True)], judged


def short(detail: str) -> str:
    """A detail, cut to the length that a row of completions holds."""
    return detail[:MAX_DETAIL_CHARS].encode("utf-8", "replace").decode()


def answer_of(row: Completion) -> str | prompts.Answer:
    """The answer in a row, for the pool: text, or the input of the answer tool (empty text if unreadable)."""
    if row.form == "text":
        return row.reply
    reply = prompts.read_reply(row.reply, "tool")
    return "" if isinstance(reply, prompts.Unreadable) else reply


def tasks_of(rows: Sequence[Completion], tasks: Sequence[Task]) -> list[Task]:
    """The task of each row.

    Raises:
        InputError: one is missing, or has changed since the completion.
    """
    by_id = {task.id: task for task in tasks}
    hashes = {name: given_hash(by_id[name]) for name in {row.task for row in rows} & set(by_id)}
    for row in rows:
        if row.task not in by_id:
            raise InputError("no such task any more", where=row.task, hint="generate again")
        if hashes[row.task] != row.given:
            raise InputError("the task has changed since it was asked", where=row.task, hint="generate again")
    return [by_id[row.task] for row in rows]


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
