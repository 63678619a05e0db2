"""Which prompts a model is sent: every task several times, each in one or more turns.

From the second turn on, the prompt has the answer before and what the judge found, in the words that `kcurate
deopt` uses. Not covered: the models (`local_model`, `endpoint`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kcurate import prompts
from kcurate.core.notes import Note, silent
from kcurate.records import Prompt
from kcurate.train.evaluation.completions import Completion, given_hash
from kcurate.train.evaluation.judging import answer_of, judge
from kcurate.train.reward.feedback import again
from kcurate.train.reward.trl_reward import Pool
from kcurate.train.task import Task


@dataclass(frozen=True)
class Reply:
    """What a model returned, and what it cost; None where nobody counted."""

    text: str
    form: str = "text"
    status: str = "answered"
    input_tokens: int | None = None
    output_tokens: int | None = None
    usd: float | None = None
    gpu_s: float | None = None


class Sampler(Protocol):
    """A model."""

    def sample(self, asked: Sequence[tuple[Prompt, int]]) -> list[Reply]:
        """One reply per prompt, in order; the number tells equal prompts apart."""
        ...


def generate(
    tasks: Sequence[Task],
    sampler: Sampler,
    *,
    samples: int,
    turns: int = 1,
    pool: Pool | None = None,
    note: Note = silent,
) -> list[Completion]:
    """`samples` completions of every task, in `turns` turns each. `pool` judges between the turns."""
    chains = [(task, sample) for task in tasks for sample in range(samples)]
    asked = [task.prompt for task, _ in chains]
    found: list[Completion] = []
    for turn in range(1, turns + 1):
        replies = sampler.sample([(prompt, n) for prompt, (_, n) in zip(asked, chains, strict=True)])
        made = [
            _completion(*chain, turn, prompt, reply)
            for chain, prompt, reply in zip(chains, asked, replies, strict=True)
        ]
        if turn < turns:
            assert pool is not None, "turns need a judge"
            judged = judge(made, tasks, pool)[1]
            note(f"turn {turn} of {turns}: {sum(one.verdict is not None for one in judged)} judged")
            asked = [
                again(task, answer_of(row), one)
                for (task, _), row, one in zip(chains, made, judged, strict=True)
            ]
            # The judge step finds these verdicts cached.
            made = [replace(row, judge_s=one.judge_s) for row, one in zip(made, judged, strict=True)]
        found += made
    return found


def _completion(task: Task, sample: int, turn: int, prompt: Prompt, reply: Reply) -> Completion:
    text = json.dumps(prompts.chat(prompt), ensure_ascii=False)
    return Completion(
        task=task.id,
        family=task.family,
        given=given_hash(task),
        sample=sample,
        turn=turn,
        prompt=text,
        prompt_sha256=hashlib.sha256(text.encode()).hexdigest(),
        reply=reply.text.encode("utf-8", "replace").decode(),
        form=reply.form,
        status=reply.status,
        **_counted(reply),
    )


def _counted(reply: Reply) -> dict[str, Any]:
    return {name: getattr(reply, name) for name in ("input_tokens", "output_tokens", "usd", "gpu_s")}
