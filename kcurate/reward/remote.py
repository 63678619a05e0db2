"""Rewards from a `kcurate serve` server instead of local judges.

The server must have the same tasks, which it knows by their ids. While it is unreachable, the call waits and
says so. Not covered: a user's own reward and curriculum stages that restrict techniques, which a server does
not have.
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
# Answers in one request, and bytes of their text; a group stays in one if it fits, since some schemes compare
# its members. A server takes 16 MiB by default.
MOST_ANSWERS = 256
MOST_BYTES = 8 << 20
_JUDGED = {one.name for one in fields(Judged)}


class RemotePool:
    """A server as the judges of a training run; `timed`: it judges on a GPU."""

    def __init__(self, client: Client, scheme: str, values: Mapping[str, Any]) -> None:
        self._client, self._scheme, self._values = client, scheme, values
        self.timed = client.health().timed

    def check(self, tasks: Sequence[Task]) -> None:
        """Check, before training, that the server has these tasks.

        Raises:
            InputError: it lacks one, or has another one under its id.
        """
        known = {task.id: _canonical(task.problem, asdict(task.given)) for task in self._client.every_task()}
        wrong = [task.id for task in tasks if known.get(task.id) != _task_content(task)]
        if wrong:
            what = f"the server lacks {len(wrong)} of {len(tasks)} tasks, such as {wrong[0]}"
            raise InputError(what, where="--judge", hint="start it with the same --dataset")

    async def score(self, tasks: Sequence[Task], replies: Sequence[str | prompts.Answer]) -> list[Judged]:
        """See `RewardPool.score`.

        Raises:
            RemoteError: the server was unreachable for `RETRY_S` seconds, or its judges failed.
        """
        judged: dict[int, Judged] = {}
        given = [_answer(*pair) for pair in zip(tasks, replies, strict=True)]
        for part in _requests([task.id for task in tasks], [_size(answer) for answer in given]):
            answers = [given[i] for i in part]
            job = await asyncio.to_thread(
                self._client.judge, answers, scheme=self._scheme, values=self._values
            )
            judged |= {i: _judged(tasks[i], result) for i, result in zip(part, job.results, strict=True)}
        return [judged[i] for i in range(len(tasks))]

    def close(self) -> None:
        """No-op: no connection is kept."""


def _requests(tasks: Sequence[str], sizes: Sequence[int]) -> Iterator[list[int]]:
    """The indices of each request: whole groups, as many as fit; a group that is too large in parts.

    `sizes`: bytes of each answer.
    """

    def fits(members: Sequence[int]) -> bool:
        return len(members) <= MOST_ANSWERS and sum(sizes[i] for i in members) <= MOST_BYTES

    order = sorted(range(len(tasks)), key=tasks.__getitem__)
    part: list[int] = []
    for _, group in groupby(order, key=tasks.__getitem__):
        members = list(group)
        for some in [members] if fits(members) else [[i] for i in members]:
            if part and not fits([*part, *some]):
                yield part
                part = []
            part = part + some
    if part:
        yield part


def _size(answer: Answer) -> int:
    return len(json.dumps(asdict(answer)))


def _task_content(task: Task) -> bytes:
    """A task's problem and given side, in the form that the server lists them."""
    slow, problem = task.template.slow, task.template.problem
    return _canonical(codec.to_data(problem), {"code": shown_code(slow.code), **launch_data(slow)})


def _canonical(problem: Any, slow: Mapping[str, Any]) -> bytes:
    return codec.canonical_json({"problem": problem, "given": {**slow, "buffers": slow.get("buffers") or {}}})


def _answer(task: Task, reply: str | prompts.Answer) -> Answer:
    if isinstance(reply, str):
        return Answer(task.id, reply=reply.encode("utf-8", "replace").decode())
    return Answer(task.id, code=reply.code, plan=reply.plan, buffers=reply.buffers)


def _judged(task: Task, result: Result) -> Judged:
    values = {key: value for key, value in vars(result).items() if key in _JUDGED}
    return Judged(task_id=task.id, **{**values, "key": result.key or ""})
