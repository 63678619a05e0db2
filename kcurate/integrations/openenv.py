"""An OpenEnv environment whose action is a model's reply, and its server.

    JUDGE_URL=http://127.0.0.1:8077 uvicorn --factory kcurate.integrations.openenv:app

Settings are environment variables, since OpenEnv creates an environment for each session: `JUDGE_URL`,
`JUDGE_TOKEN`, `JUDGE_SCHEME`, `JUDGE_SPLIT` (train, held_out), `JUDGE_TURNS` (replies per episode, with
feedback between them).
"""

from __future__ import annotations

import os
import random
from functools import cache
from typing import Any

from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

from kcurate.client import DEFAULT_URL, Client, Task
from kcurate.integrations import judged, numbers

SESSIONS = 64


class KernelAction(Action):
    """The model's reply."""

    reply: str


class KernelObservation(Observation):
    """The messages for the model: those of the task first, then the feedback on its reply."""

    task: str
    messages: list[dict[str, str]]
    outcome: str = ""
    numbers: dict[str, float] | None = None


class KernelEnvironment(Environment[KernelAction, KernelObservation, State]):
    """One task per episode: the one of `reset(task=ID)`, else a random one, by `seed` if given."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._client = Client(os.environ.get("JUDGE_URL", DEFAULT_URL), token=os.environ.get("JUDGE_TOKEN"))
        self._scheme = os.environ.get("JUDGE_SCHEME", "pairs")
        self._turns = int(os.environ.get("JUDGE_TURNS", "1"))
        self._state = State()
        self._task: Task | None = None

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, *, task: str | None = None, **_: Any
    ) -> KernelObservation:
        """Begin an episode.

        Raises:
            ValueError: no such task.
        """
        tasks = _tasks(os.environ.get("JUDGE_URL", DEFAULT_URL), os.environ.get("JUDGE_SPLIT", ""))
        if task is not None and task not in tasks:
            raise ValueError(f"unknown task {task!r}")
        self._task = tasks[task or random.Random(seed).choice(sorted(tasks))]
        self._state = State(episode_id=episode_id, step_count=0)
        return KernelObservation(
            task=self._task.id, messages=[dict(message) for message in self._task.prompt]
        )

    def step(self, action: KernelAction, timeout_s: float | None = None, **_: Any) -> KernelObservation:
        """Judge a reply.

        Raises:
            ValueError: no episode has begun.
        """
        if self._task is None:
            raise ValueError("reset first")
        result = judged(self._client, self._task.id, action.reply, self._scheme)
        self._state.step_count += 1
        return KernelObservation(
            task=self._task.id,
            messages=[{"role": "user", "content": result.feedback}],
            outcome=result.outcome,
            numbers=numbers(result),
            reward=result.reward,
            done=self._state.step_count >= self._turns,
        )

    @property
    def state(self) -> State:
        """The episode's id and its number of replies so far."""
        return self._state


@cache
def _tasks(url: str, split: str) -> dict[str, Task]:
    client = Client(url, token=os.environ.get("JUDGE_TOKEN"))
    filters = {"split": split} if split else {}
    return {task.id: task for task in client.every_task(**filters)}


def app() -> Any:
    """The server, as a FastAPI application."""
    return create_fastapi_app(
        KernelEnvironment, KernelAction, KernelObservation, max_concurrent_envs=SESSIONS
    )
