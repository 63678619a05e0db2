"""Rewards asked of a `kcurate serve` instead of judges of this machine.

The server must have the same tasks, which it knows by their ids. While it is away, the call waits and says
so. Not covered: a user's own reward and stages of permitted techniques, which a server does not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any

from kcurate import own_files, prompts
from kcurate.client import Answer, Client, Result
from kcurate.errors import InputError
from kcurate.notes import Note
from kcurate.problem.shown import shown_code
from kcurate.train.settings import TrainSettings
from kcurate.train.task import Judged, Task

# How long a server that went away is waited for.
RETRY_S = 1800.0
# Answers in one request; a group stays in one, since some schemes compare its members.
MOST_ANSWERS = 256
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
        known = {one.id: one.given.code for one in self._client.every_task()}
        wrong = [one.id for one in tasks if known.get(one.id) != shown_code(one.template.slow.code)]
        if wrong:
            what = f"the server lacks {len(wrong)} of {len(tasks)} tasks, such as {wrong[0]}"
            raise InputError(what, where="--judge", hint="start it with the same --dataset")

    async def score(self, tasks: Sequence[Task], replies: Sequence[str | prompts.Answer]) -> list[Judged]:
        """See `RewardPool.score`.

        Raises:
            RemoteError: the server was away for `RETRY_S` seconds, or its judges failed.
        """
        found: dict[int, Judged] = {}
        for part in _requests(tasks):
            answers = [_answer(tasks[i], replies[i]) for i in part]
            job = await asyncio.to_thread(
                self._client.judge, answers, scheme=self._scheme, values=self._values
            )
            found |= {i: _judged(tasks[i], one) for i, one in zip(part, job.results, strict=True)}
        return [found[i] for i in range(len(tasks))]

    def close(self) -> None:
        """Nothing stays open."""


def remote_pool(settings: TrainSettings, note: Note) -> RemotePool:
    """The server that a run names.

    Raises:
        InputError: not an address, a wrong token, or a setting that a server cannot follow.
        RemoteError: no server there.
    """
    own = settings.judge
    if ":" in settings.reward.scheme:
        raise InputError("a server has no reward of your own", where="--judge", hint="choose a scheme")
    if settings.curriculum.policy == "sqd" or settings.curriculum.pool or settings.tasks.source != "pairs":
        what = "a server judges pairs, and permits all techniques"
        raise InputError(what, where="--judge", hint="leave it out")
    token = own_files.token(Path(own.token_file)) if own.token_file else None
    Client(own.url, token=token, retry_s=0).health()  # here, so that a wrong address is an error at once
    client = Client(own.url, token=token, retry_s=RETRY_S, note=note)
    return RemotePool(client, settings.reward.scheme, settings.reward.values)


def _requests(tasks: Sequence[Task]) -> Iterator[list[int]]:
    """The indices of each request: whole groups, as many as fit."""
    order = sorted(range(len(tasks)), key=lambda i: tasks[i].id)
    part: list[int] = []
    for _, group in groupby(order, key=lambda i: tasks[i].id):
        members = list(group)
        if part and len(part) + len(members) > MOST_ANSWERS:
            yield part
            part = []
        part = part + members
    if part:
        yield part


def _answer(task: Task, reply: str | prompts.Answer) -> Answer:
    if isinstance(reply, str):
        return Answer(task.id, reply=reply.encode("utf-8", "replace").decode())
    return Answer(task.id, code=reply.code, plan=reply.plan, buffers=reply.buffers)


def _judged(task: Task, one: Result) -> Judged:
    given = {key: value for key, value in vars(one).items() if key in _JUDGED}
    return Judged(task_id=task.id, **{**given, "key": one.key or ""})
