"""Rewards from a `kcurate serve` server instead of local judges.

The server must have the same tasks under the same ids. While it is unreachable, a call waits and reports
that. Not covered, since a server has neither: a user's own reward, and curriculum stages that restrict
techniques.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import groupby
from typing import Any

from kcurate import prompts
from kcurate.client import Answer, Client, Result
from kcurate.core import codec
from kcurate.errors import InputError
from kcurate.problem.shown import launch_data, shown_code
from kcurate.reward.task import Judged, Task

# How long to wait for an unreachable server.
RETRY_S = 1800.0
# Limits of one request: answers, and bytes of their text (a server accepts 16 MiB by default). A group goes
# into one request if it fits, since some schemes compare its members.
MOST_ANSWERS = 256
MOST_BYTES = 8 << 20


class RemotePool:
    """A server that judges for a training run; `timed`: it judges on a GPU."""

    def __init__(self, client: Client, scheme: str, values: Mapping[str, Any]) -> None:
        self._client, self._scheme, self._values = client, scheme, values
        self.timed = client.health().timed

    def check(self, tasks: Sequence[Task]) -> None:
        """Check, before training, that the server has these tasks.

        Raises:
            InputError: it lacks a task, or has a different one under the same id.
        """
        served = {task.id: _canonical(task.problem, asdict(task.given)) for task in self._client.every_task()}
        missing = [task.id for task in tasks if served.get(task.id) != _task_content(task)]
        if missing:
            why = f"the server lacks {len(missing)} of {len(tasks)} tasks, such as {missing[0]}"
            raise InputError(why, where="--judge", hint="start it with the same --dataset")

    async def score(self, tasks: Sequence[Task], replies: Sequence[str | prompts.Answer]) -> list[Judged]:
        """See `RewardPool.score`.

        Raises:
            RemoteError: the server was unreachable for `RETRY_S` seconds, or its judges failed.
        """
        judged: dict[int, Judged] = {}
        answers = [_answer(*pair) for pair in zip(tasks, replies, strict=True)]
        sizes = [len(json.dumps(asdict(answer))) for answer in answers]
        for part in _requests([task.id for task in tasks], sizes):
            job = await asyncio.to_thread(
                self._client.judge, [answers[i] for i in part], scheme=self._scheme, values=self._values
            )
            judged |= {i: _judged(tasks[i], result) for i, result in zip(part, job.results, strict=True)}
        return [judged[i] for i in range(len(tasks))]

    def close(self) -> None:
        """Does nothing, since no connection stays open."""


def _requests(tasks: Sequence[str], sizes: Sequence[int]) -> Iterator[list[int]]:
    """The indices of each request: as many whole groups as fit. A group that is too large alone is split.

    `sizes`: bytes of each answer.
    """

    def fits(members: Sequence[int]) -> bool:
        return len(members) <= MOST_ANSWERS and sum(sizes[i] for i in members) <= MOST_BYTES

    order = sorted(range(len(tasks)), key=tasks.__getitem__)
    part: list[int] = []
    for _, group in groupby(order, key=tasks.__getitem__):
        members = list(group)
        for added in [members] if fits(members) else [[i] for i in members]:
            if part and not fits([*part, *added]):
                yield part
                part = []
            part = part + added
    if part:
        yield part


def _task_content(task: Task) -> bytes:
    """A task's problem and given side, in the form in which the server lists them."""
    slow, problem = task.template.slow, task.template.problem
    return _canonical(codec.to_data(problem), {"code": shown_code(slow.code), **launch_data(slow)})


def _canonical(problem: Any, slow: Mapping[str, Any]) -> bytes:
    return codec.canonical_json({"problem": problem, "given": {**slow, "buffers": slow.get("buffers") or {}}})


def _answer(task: Task, reply: str | prompts.Answer) -> Answer:
    if isinstance(reply, str):
        return Answer(task.id, reply=reply.encode("utf-8", "replace").decode())
    return Answer(task.id, code=reply.code, plan=reply.plan, buffers=reply.buffers)


def _judged(task: Task, result: Result) -> Judged:
    names = {member.name for member in fields(Judged)}
    values = {key: value for key, value in vars(result).items() if key in names}
    return Judged(task_id=task.id, **{**values, "key": result.key or ""})
