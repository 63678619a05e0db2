"""Rewards asked of a `kcurate serve` instead of judges of this machine.

The server must have the same tasks, which it knows by their ids. While it is away, the call waits and says
so. Not covered: a user's own reward and stages of permitted techniques, which a server does not have.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import groupby
from pathlib import Path
from typing import Any

from kcurate import prompts
from kcurate.client import Answer, Client, Result
from kcurate.core import codec, own_files
from kcurate.core.notes import Note
from kcurate.errors import InputError
from kcurate.problem.shown import launch_data, shown_code
from kcurate.train.settings import TrainSettings
from kcurate.train.task import Judged, Task

# How long a server that went away is waited for.
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
        known = {one.id: _asked(one.problem, asdict(one.given)) for one in self._client.every_task()}
        wrong = [one.id for one in tasks if known.get(one.id) != _asked_of(one)]
        if wrong:
            what = f"the server lacks {len(wrong)} of {len(tasks)} tasks, such as {wrong[0]}"
            raise InputError(what, where="--judge", hint="start it with the same --dataset")

    async def score(self, tasks: Sequence[Task], replies: Sequence[str | prompts.Answer]) -> list[Judged]:
        """See `RewardPool.score`.

        Raises:
            RemoteError: the server was away for `RETRY_S` seconds, or its judges failed.
        """
        found: dict[int, Judged] = {}
        given = [_answer(*one) for one in zip(tasks, replies, strict=True)]
        for part in _requests([task.id for task in tasks], [_size(one) for one in given]):
            answers = [given[i] for i in part]
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


def _asked_of(task: Task) -> bytes:
    """What a task asks, as a server shows it."""
    given, problem = task.template.slow, task.template.problem
    return _asked(codec.to_data(problem), {"code": shown_code(given.code), **launch_data(given)})


def _asked(problem: Any, given: Mapping[str, Any]) -> bytes:
    return codec.canonical_json(
        {"problem": problem, "given": {**given, "buffers": given.get("buffers") or {}}}
    )


def _answer(task: Task, reply: str | prompts.Answer) -> Answer:
    if isinstance(reply, str):
        return Answer(task.id, reply=reply.encode("utf-8", "replace").decode())
    return Answer(task.id, code=reply.code, plan=reply.plan, buffers=reply.buffers)


def _judged(task: Task, one: Result) -> Judged:
    given = {key: value for key, value in vars(one).items() if key in _JUDGED}
    return Judged(task_id=task.id, **{**given, "key": one.key or ""})
