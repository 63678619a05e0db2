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
from kcurate.train.stopping import from_all_processes


@dataclass
class Tally:
    """The judged completions of a step; `step`: the training step that uses them."""

    step: int = 0
    judged: list[Judged] = field(default_factory=list)
    waited_s: float = 0.0

    def line(self) -> dict[str, Any]:
        """The numbers for a line of metrics; empty if nothing was judged."""
        count = len(self.judged)
        if not count:
            return {}
        names = sorted({name for answer in self.judged for name in answer.components})
        rewards = [answer.reward for answer in self.judged]
        return {
            "answers": count,
            "judged_reward": sum(rewards) / count,
            "components": {
                key: sum(answer.components.get(key, 0.0) for answer in self.judged) / count for key in names
            },
            "outcomes": dict(sorted(Counter(answer.outcome for answer in self.judged).items())),
            "cheats": sum(answer.cheat for answer in self.judged),
            "audits": sum(answer.audit for answer in self.judged),
            "cached": sum(answer.cached for answer in self.judged),
            "truncated": sum(answer.truncated for answer in self.judged),
            "judge_s": round(sum(answer.judge_s for answer in self.judged), 3),
            "waited_s": round(self.waited_s, 3),
            "best_speedup": max((answer.speedup for answer in self.judged if answer.speedup), default=None),
        }


@dataclass(eq=False)
class Rewards:
    """The reward function of a GRPO trainer, and the completions judged since the last line of metrics.

    `ends`: the tokens that end a completion. `writes`: this process writes `judged.jsonl`. `next_prompts`
    learns what each completion earned.
    """

    pool: Pool
    tasks: Mapping[str, Task]
    form: Form
    ends: Collection[int]
    run: RunFolder
    writes: bool
    next_prompts: NextPrompts | None = None
    _tally: Tally = field(default_factory=Tally)

    def function(self) -> Callable[..., Any]:
        """The reward function: one reward per completion of a batch."""

        async def judged_reward(
            completions: Any, completion_ids: Any, task_id: Any, trainer_state: Any, **columns: Any
        ) -> list[float]:
            synchronize()
            started_s = time.monotonic()
            in_prompts = columns.get("shown", [""] * len(task_id))
            tasks = [
                replace(self.tasks[name], shown=code) for name, code in zip(task_id, in_prompts, strict=True)
            ]
            replies = columns.get("reply") or [self.form.reply(completion) for completion in completions]
            judged = await self.pool.score(tasks, replies)
            self._tally.waited_s += time.monotonic() - started_s
            self._tally.judged += [
                replace(answer, truncated=not ids or ids[-1] not in self.ends)
                for answer, ids in zip(judged, completion_ids, strict=True)
            ]
            if self.next_prompts is not None:
                for task, reply, answer in zip(tasks, replies, judged, strict=True):
                    self.next_prompts.saw(task, reply, answer)
            self._tally.step = trainer_state.global_step + 1
            return [answer.reward for answer in judged]

        return judged_reward

    def take(self) -> dict[str, Any]:
        """The numbers since the last call, of all processes (all must call); writes `judged.jsonl`."""
        tallies = from_all_processes(self._tally)
        self._tally = Tally()
        tally = Tally(
            max(tally.step for tally in tallies),
            [judged for tally in tallies for judged in tally.judged],
            max(tally.waited_s for tally in tallies),
        )
        if self.writes:
            for judged in tally.judged:
                self.run.judged.append({"stage": "grpo", "step": tally.step, **line_of(judged)})
        return tally.line()


def line_of(judged: Judged) -> dict[str, Any]:
    """A judged completion as a line of `judged.jsonl`."""
    return {
        "task": judged.task_id,
        "outcome": judged.outcome,
        "reward": judged.reward,
        "speedup": judged.speedup,
        "detail": judged.detail[:300],
        "judge_s": round(judged.judge_s, 3),
        "cached": judged.cached,
        "audit": judged.audit,
        "truncated": judged.truncated,
    }


def how_completions_ended(lines: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many GRPO completions ended by themselves and how many at the length limit, from `judged.jsonl`."""
    sampled = [line for line in lines if line.get("stage") == "grpo"]
    truncated = sum(bool(line.get("truncated")) for line in sampled)
    return {"ended": len(sampled) - truncated, "truncated": truncated}


def synchronize() -> None:
    """Wait for the GPU to finish training work: nothing else may run on it during timing."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
