"""verifiers (0.4 and newer): a task set. The module that `vf-eval` and `vf-validate` load is in
examples/integrations.

A reply is text, and nothing of it runs in the task's runtime. Not covered: tools.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

import verifiers.v1 as vf

from kcurate.client import DEFAULT_URL, Answer
from kcurate.integrations import client_of, judged_beside, numbers


class KernelTaskConfig(vf.TaskConfig):
    """The server that judges. `pairs`: a folder of pairs, which have the known answers for `vf-validate`."""

    url: str = DEFAULT_URL
    token: str | None = None
    scheme: str = "pairs"
    pairs: Path | None = None


class KernelTasksetConfig(vf.TasksetConfig):
    """Which tasks; `brief`: with the short rules. `task`: its server offers them."""

    split: Literal["train", "held_out"] | None = None
    brief: bool = False
    task: KernelTaskConfig = KernelTaskConfig()


class KernelData(vf.TaskData):
    """A task of the server, identified by `id`."""

    family: str


class KernelTask(vf.Task[KernelData, vf.State, KernelTaskConfig]):
    """A slow kernel to make faster; the reply is the last message."""

    @property
    def key(self) -> str:
        """The server's id of the task."""
        return str(self.data.id)

    @vf.reward()
    async def judged(self, trace: vf.Trace) -> float:
        """The reward of the reply; the other numbers are logged."""
        config = self.config
        result = await judged_beside(
            client_of(config.url, token=config.token), self.key, trace.last_reply, config.scheme
        )
        values = numbers(result)
        reward = values.pop("reward")
        trace.record_metrics(values)
        return reward

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """Whether the known answer is correct, and faster if it is timed; None without a known answer."""
        config = self.config
        answer = None if config.pairs is None else known_answer(config.pairs, self.key)
        if answer is None:
            return None
        client = client_of(config.url, token=config.token)
        (result,) = client.judge([answer], scheme=config.scheme).results
        return result.outcome == ("correct" if result.speedup is None else "confirmed")


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):
    """The tasks of a server."""

    def load(self) -> Iterator[KernelTask]:
        """The tasks; the system prompt has the rules."""
        config = self.config
        filters = {"brief": config.brief} | ({} if config.split is None else {"split": config.split})
        for task in client_of(config.task.url, token=config.task.token).every_task(**filters):
            texts = {message["role"]: message["content"] for message in task.prompt}
            data = KernelData(
                id=task.id,
                name=task.id,
                prompt=texts["user"],
                system_prompt=texts["system"],
                family=task.family,
            )
            yield KernelTask(data, config.task)


def known_answer(pairs: Path, task: str) -> Answer | None:
    """The fast side of the pair with this id; None if the folder has no such pair."""
    folder = _pairs(pairs).get(task)
    if folder is None:
        return None
    side = json.loads((folder / "pair.json").read_bytes())["fast"]
    code = (folder / side["file"]).read_text(encoding="utf-8")
    return Answer(task, code=code, plan=side["plan"], buffers=side.get("buffers", {}))


@cache
def _pairs(root: Path) -> dict[str, Path]:
    """The folder of each pair, by its id."""
    return {json.loads(path.read_bytes())["id"]: path.parent for path in sorted(root.rglob("pair.json"))}
