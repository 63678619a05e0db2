"""verifiers (0.4 and newer): a task set. Its module for `vf-eval` and `vf-validate` is examples/integrations.

Not covered: anything that runs beside the model. A reply is text; nothing of it runs in the task's runtime.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

import verifiers.v1 as vf

from kcurate.client import DEFAULT_URL, Answer, Client
from kcurate.integrations import judged_beside, numbers

_client = cache(Client)


class KernelTaskConfig(vf.TaskConfig):
    """Who judges. `pairs`: a folder of pairs with the known answers, for `vf-validate`; none are served."""

    url: str = DEFAULT_URL
    token: str | None = None
    scheme: str = "pairs"
    pairs: Path | None = None


class KernelTasksetConfig(vf.TasksetConfig):
    """Which tasks; `brief`: with the short rules. The server is that of the task's configuration."""

    split: Literal["train", "held_out"] | None = None
    brief: bool = False
    task: KernelTaskConfig = KernelTaskConfig()


class KernelData(vf.TaskData):
    """A task of the server's, by its `id`."""

    family: str


class KernelTask(vf.Task[KernelData, vf.State, KernelTaskConfig]):
    """A slow kernel to make faster; the reply is the last message."""

    @property
    def key(self) -> str:
        """The server's id of the task."""
        return str(self.data.id)

    @vf.reward()
    async def judged(self, trace: vf.Trace) -> float:
        """What the reply earns under the scheme; the rest is logged."""
        own = self.config
        result = await judged_beside(
            _client(own.url, token=own.token), self.key, trace.last_reply, own.scheme
        )
        found = numbers(result)
        reward = found.pop("reward")
        trace.record_metrics(found)
        return reward

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """Whether the known answer is correct, and faster where times are taken; None: it is not known."""
        own = self.config
        answer = None if own.pairs is None else known_answer(own.pairs, self.key)
        if answer is None:
            return None
        client = _client(own.url, token=own.token)
        (result,) = client.judge([answer], scheme=own.scheme).results
        return result.outcome == ("correct" if result.speedup is None else "confirmed")


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):
    """The tasks of a server."""

    def load(self) -> Iterator[KernelTask]:
        """A task each; the rules are its system prompt."""
        own = self.config
        wanted = {"brief": own.brief} | ({} if own.split is None else {"split": own.split})
        for one in _client(own.task.url, token=own.task.token).every_task(**wanted):
            texts = {message["role"]: message["content"] for message in one.prompt}
            data = KernelData(
                id=one.id,
                name=one.id,
                prompt=texts["user"],
                system_prompt=texts["system"],
                family=one.family,
            )
            yield KernelTask(data, own.task)


def known_answer(pairs: Path, task: str) -> Answer | None:
    """The fast side of the pair of this id; None: there is no such pair below the folder."""
    found = _pairs(pairs).get(task)
    if found is None:
        return None
    side = json.loads((found / "pair.json").read_bytes())["fast"]
    code = (found / side["file"]).read_text(encoding="utf-8")
    return Answer(task, code=code, plan=side["plan"], buffers=side.get("buffers", {}))


@cache
def _pairs(root: Path) -> dict[str, Path]:
    """The folder of each pair, by its id."""
    return {json.loads(path.read_bytes())["id"]: path.parent for path in sorted(root.rglob("pair.json"))}
