"""Which prompts are sent to a model: every task several times, each in one or more turns.

From the second turn on, the prompt contains the previous answer and the judge's findings, in the wording of
`kcurate deopt`. Not covered: models in this process (`local_model`), APIs with their prices and retries
(`kcurate.models`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from kcurate import prompts
from kcurate.core import progress
from kcurate.core.notes import Note, silent
from kcurate.evaluation.completions import Completion
from kcurate.evaluation.judging import answer_of, judge
from kcurate.records import Prompt
from kcurate.reward.feedback import again
from kcurate.reward.task import Pool, Task, given_hash

if TYPE_CHECKING:
    from kcurate.models.asking import Asking


@dataclass(frozen=True)
class Reply:
    """A model's reply and its cost; None for what was not counted."""

    text: str
    form: str = "text"
    status: str = "answered"
    input_tokens: int | None = None
    output_tokens: int | None = None
    usd: float | None = None
    gpu_s: float | None = None


class Sampler(Protocol):
    """A model."""

    def sample(self, prompts: Sequence[tuple[Prompt, int]]) -> list[Reply]:
        """One reply per prompt, in order; the number distinguishes equal prompts."""
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
    turn_prompts = [task.prompt for task, _ in chains]
    completions: list[Completion] = []
    for turn in range(1, turns + 1):
        replies = sampler.sample([(prompt, n) for prompt, (_, n) in zip(turn_prompts, chains, strict=True)])
        rows = [
            _completion(*chain, turn, prompt, reply)
            for chain, prompt, reply in zip(chains, turn_prompts, replies, strict=True)
        ]
        if turn < turns:
            assert pool is not None, "turns need a judge"
            judged = judge(rows, tasks, pool)[1]
            note(f"turn {turn} of {turns}: {sum(result.verdict is not None for result in judged)} judged")
            turn_prompts = [
                again(task, answer_of(row), result)
                for (task, _), row, result in zip(chains, rows, judged, strict=True)
            ]
            # Noted here, since the judge step will find these verdicts in the cache.
            rows = [replace(row, judge_s=result.judge_s) for row, result in zip(rows, judged, strict=True)]
        completions += rows
    return completions


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
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        usd=reply.usd,
        gpu_s=reply.gpu_s,
    )


class Endpoint:
    """A model behind an API (Claude, or OpenAI's chat completions), with `concurrency` requests at a time.

    Every exchange is saved before it is used, so an interrupted command sends no prompt twice.
    """

    def __init__(self, asking: Asking, concurrency: int) -> None:
        self._asking = asking
        self._concurrency = concurrency

    def sample(self, prompts: Sequence[tuple[Prompt, int]]) -> list[Reply]:
        """See `Sampler`.

        Raises:
            BudgetSpentError: the next request may cost more than is left. RemoteError: no answer.
        """
        with ThreadPoolExecutor(self._concurrency) as threads:
            replies = [threads.submit(self._reply, *prompt) for prompt in prompts]
            try:
                return [reply.result() for reply in progress.each(replies, "asking", len(replies), "prompt")]
            except BaseException:  # an interrupt too: nothing more is paid for
                self._asking.stop.set()
                for reply in replies:
                    reply.cancel()
                raise

    def _reply(self, prompt: Prompt, sample: int) -> Reply:
        answer = self._asking.answer(self._asking.request(prompt, sample))
        tokens: tuple[int | None, int | None] = (None, None)
        if (usage := answer.usage) is not None:
            read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
            tokens = (read, usage.output_tokens)
        return Reply(answer.reply, answer.form, answer.status.value, *tokens, answer.cost_usd)
