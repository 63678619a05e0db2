"""The judge as a reward function of `trl.GRPOTrainer`, and a summary per step for the metrics.

Each process judges its own completions. Not covered: judging (`reward.pool`), what an outcome earns
(`reward.schemes`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kcurate.local_models.form import Form
from kcurate.reward.task import Judged, Pool, Task
from kcurate.train.next_prompts import NextPrompts
from kcurate.train.run_folder import RunFolder


@dataclass
class Tally:
    """What the completions of a step earned, mergeable over processes. `step`: the one they are used in."""

    step: int = 0
    judged: list[Judged] = field(default_factory=list)
    waited_s: float = 0.0

    def line(self) -> dict[str, Any]:
        """The numbers for a line of metrics; empty if nothing was judged."""
        count = len(self.judged)
        if not count:
            return {}
        names = sorted({name for one in self.judged for name in one.components})
        rewards = [one.reward for one in self.judged]
        return {
            "answers": count,
            "judged_reward": sum(rewards) / count,
            "components": {n: sum(one.components.get(n, 0.0) for one in self.judged) / count for n in names},
            "outcomes": dict(sorted(Counter(one.outcome for one in self.judged).items())),
            "cheats": sum(one.cheat for one in self.judged),
            "audits": sum(one.audit for one in self.judged),
            "cached": sum(one.cached for one in self.judged),
            "truncated": sum(one.truncated for one in self.judged),
            "judge_s": round(sum(one.judge_s for one in self.judged), 3),
            "waited_s": round(self.waited_s, 3),
            "best_speedup": max((one.speedup for one in self.judged if one.speedup), default=None),
        }


class Rewards:
    """The reward function of a GRPO trainer, and what it judged since the last line of metrics.

    `ends`: the tokens that end a completion. `writes`: this process writes what was judged. `next_prompts`
    is told what every completion earned.
    """

    def __init__(
        self,
        pool: Pool,
        tasks: Mapping[str, Task],
        form: Form,
        ends: Collection[int],
        run: RunFolder,
        *,
        writes: bool,
        next_prompts: NextPrompts | None = None,
    ):
        self._pool = pool
        self._tasks = tasks
        self._form = form
        self._ends = ends
        self._next = next_prompts
        self._run = run
        self._writes = writes
        self._tally = Tally()

    def function(self) -> Callable[..., Any]:
        """The reward function: one reward per completion of a batch."""

        async def judged_reward(
            completions: Any, completion_ids: Any, task_id: Any, trainer_state: Any, **more: Any
        ) -> list[float]:
            synchronize()
            started_s = time.monotonic()
            shown = more.get("shown", [""] * len(task_id))
            tasks = [replace(self._tasks[one], shown=code) for one, code in zip(task_id, shown, strict=True)]
            replies = more.get("reply") or [self._form.reply(one) for one in completions]
            judged = await self._pool.score(tasks, replies)
            self._tally.waited_s += time.monotonic() - started_s
            self._tally.judged += [
                replace(one, truncated=not ids or ids[-1] not in self._ends)
                for one, ids in zip(judged, completion_ids, strict=True)
            ]
            if self._next is not None:
                for told in zip(tasks, replies, judged, strict=True):
                    self._next.saw(*told)
            self._tally.step = trainer_state.global_step + 1
            return [one.reward for one in judged]

        return judged_reward

    def take(self) -> dict[str, Any]:
        """The numbers since the last call, of all processes (all must call); writes what was judged."""
        tally, self._tally = self._tally, Tally()
        import torch

        if torch.distributed.is_available() and torch.distributed.is_initialized():
            everyone: list[Any] = [None] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(everyone, tally)
            tally = Tally(
                max(one.step for one in everyone),
                [judged for one in everyone for judged in one.judged],
                max(one.waited_s for one in everyone),
            )
        if self._writes:
            for judged in tally.judged:
                self._run.judged.append({"stage": "grpo", "step": tally.step, **line_of(judged)})
        return tally.line()


def line_of(one: Judged) -> dict[str, Any]:
    """A judged completion as a line of `judged.jsonl`."""
    return {
        "task": one.task_id,
        "outcome": one.outcome,
        "reward": one.reward,
        "speedup": one.speedup,
        "detail": one.detail[:300],
        "judge_s": round(one.judge_s, 3),
        "cached": one.cached,
        "audit": one.audit,
        "truncated": one.truncated,
    }


def sampled(lines: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """What GRPO really sampled, from the lines of `judged.jsonl`."""
    listed = [line for line in lines if line.get("stage") == "grpo"]
    return {
        "prompts": len({line["task"] for line in listed}),
        "completions": len(listed),
        "truncated": sum(bool(line.get("truncated")) for line in listed),
    }


def synchronize() -> None:
    """Wait for the GPU to finish training work: nothing else may run on it during timing."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
