"""Samples completions from a model: every task several times, each in one or more turns.

From the second turn on, the model gets the judge's findings, worded as in `kcurate deopt`: in the same
conversation if it can hold one, else by a new prompt that contains the previous answer. Not covered: the
models (`local_model`, `endpoint`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from kcurate import prompts
from kcurate.core.notes import Note, silent
from kcurate.evaluation.completions import Completion
from kcurate.evaluation.judging import answer_of, judge
from kcurate.records import Prompt
from kcurate.reward.feedback import again, feedback_on
from kcurate.reward.task import Judged, Pool, Task, given_hash


@dataclass(frozen=True)
class Reply:
    """A model's reply, and its cost; None where unknown.

    `key`: the exchange from which the conversation can continue; None: it cannot.
    """

    text: str
    form: str = "text"
    status: str = "answered"
    input_tokens: int | None = None
    output_tokens: int | None = None
    usd: float | None = None
    gpu_s: float | None = None
    key: str | None = None


class Sampler(Protocol):
    """A model."""

    def sample(self, asked: Sequence[tuple[Prompt, int]]) -> list[Reply]:
        """One reply per prompt, in order; the number distinguishes equal prompts."""
        ...


@runtime_checkable
class HoldsConversations(Protocol):
    """A model that holds conversations."""

    def go_on(self, turns: Sequence[tuple[str, str, int]]) -> list[Reply]:
        """One reply per turn, in order. A turn: a `Reply.key`, the message after it, the number of the
        sample."""
        ...


@dataclass(eq=False)
class _Conversation:
    """One sample of a task: the chat so far, and the next message.

    The next turn sends `next_message` in the conversation `key`, or `prompt` if there is none.
    """

    task: Task
    sample: int
    prompt: Prompt
    chat: list[dict[str, str]]
    next_message: str = ""
    key: str | None = None


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
    chains = [
        _Conversation(task, sample, task.prompt, prompts.chat(task.prompt))
        for task in tasks
        for sample in range(samples)
    ]
    completions: list[Completion] = []
    for turn in range(1, turns + 1):
        replies = _replies(sampler, chains)
        rows = [_completion(chain, turn, reply) for chain, reply in zip(chains, replies, strict=True)]
        if turn < turns:
            assert pool is not None, "turns need a judge"
            judged = judge(rows, tasks, pool)[1]
            note(f"turn {turn} of {turns}: {sum(result.verdict is not None for result in judged)} judged")
            for chain, reply, row, result in zip(chains, replies, rows, judged, strict=True):
                _prepare_next_turn(chain, reply, row, result)
            # The judge step finds these verdicts cached.
            rows = [replace(row, judge_s=result.judge_s) for row, result in zip(rows, judged, strict=True)]
        completions += rows
    return completions


def _replies(sampler: Sampler, chains: Sequence[_Conversation]) -> list[Reply]:
    """A reply for each chain: in its conversation if there is one, else to its prompt."""
    talks = [isinstance(sampler, HoldsConversations) and chain.key is not None for chain in chains]
    asked = [
        (chain.prompt, chain.sample) for chain, goes_on in zip(chains, talks, strict=True) if not goes_on
    ]
    fresh = iter(sampler.sample(asked) if asked else ())
    messages = [
        (chain.key or "", chain.next_message, chain.sample)
        for chain, goes_on in zip(chains, talks, strict=True)
        if goes_on
    ]
    further = iter(sampler.go_on(messages) if isinstance(sampler, HoldsConversations) and messages else ())
    return [next(further if goes_on else fresh) for goes_on in talks]


def _prepare_next_turn(chain: _Conversation, reply: Reply, row: Completion, result: Judged) -> None:
    """Set the next message of a chain, after its reply was judged."""
    chain.key = reply.key
    if chain.key is None:
        chain.prompt = again(chain.task, answer_of(row), result)
        chain.chat = prompts.chat(chain.prompt)
        return
    right = result.verdict is not None and result.verdict.outcome.correct
    chain.next_message = prompts.go_on("improve" if right else "repair", feedback_on(result))
    chain.chat = [
        *chain.chat,
        {"role": "assistant", "content": reply.text},
        {"role": "user", "content": chain.next_message},
    ]


def _completion(chain: _Conversation, turn: int, reply: Reply) -> Completion:
    text, task = json.dumps(chain.chat, ensure_ascii=False), chain.task
    return Completion(
        task=task.id,
        family=task.family,
        given=given_hash(task),
        sample=chain.sample,
        turn=turn,
        prompt=text,
        prompt_sha256=hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(),
        reply=reply.text.encode("utf-8", "replace").decode(),
        form=reply.form,
        status=reply.status,
        **_cost_columns(reply),
    )


def _cost_columns(reply: Reply) -> dict[str, Any]:
    return {name: getattr(reply, name) for name in ("input_tokens", "output_tokens", "usd", "gpu_s")}
