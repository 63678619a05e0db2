"""A model behind an API: Claude, or any server that speaks OpenAI's chat completions.

It answers in text, and decides itself how much it thinks. Several turns are one conversation, in which Claude
may have tools that call the judge (no profiler). Every exchange is saved before it is used, so an interrupted
command sends no prompt twice. Not covered: retries, prices, the APIs themselves (`kcurate.models`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from kcurate import prompts
from kcurate.core import codec, progress
from kcurate.evaluation.sampling import Reply
from kcurate.models.asking import Asking
from kcurate.models.client import Request
from kcurate.models.conversation import (
    Bench,
    Call,
    CannotRun,
    Conversation,
    Limits,
    called,
    handed_in,
    numbered,
    versions,
)
from kcurate.problem.shown import launch_data
from kcurate.prompts import Unreadable, tools
from kcurate.prompts.tasks import TEXT_FORM
from kcurate.records import Exchange, Outcome, Prompt, ReplyStatus, Turn
from kcurate.reward.feedback import feedback_on
from kcurate.reward.task import Judged, Pool, Task

RUNS = tools.RUNS - {tools.PROFILE}
_LATER = list(Outcome).index(Outcome.COMPILE_ERROR)


@dataclass(frozen=True)
class TaskBench(Bench):
    """The tools of one task. The pool judges a version once."""

    task: Task
    pool: Pool

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The definitions of all tools."""
        return tools.tools("cuda", launch_data(self.task.template.slow)["plan"], RUNS)

    @property
    def runs(self) -> frozenset[str]:
        """The names of those that do not end a conversation."""
        return RUNS

    def run(self, call: Call, before: Sequence[Exchange]) -> str:
        """See `Bench`."""
        if call.name == tools.COMPILE:
            judged = self._judged(call.arguments)
            number = len(versions(before)) + 1
            verdict = judged.verdict
            compiles = verdict is not None and list(Outcome).index(verdict.outcome) > _LATER
            return f"Version {number} compiles." if compiles else f"Version {number}: {feedback_on(judged)}"
        judged = self._judged(numbered(call, before))
        correct = judged.verdict is not None and judged.verdict.outcome.correct
        if call.name == tools.RUN and correct:
            return "All tests pass: every element of every output agrees at all sizes and inputs."
        return feedback_on(judged)

    def prompt(self, limits: Limits) -> Prompt:
        """The task's prompt, with a description of the tools in place of the text format."""
        prompt = self.task.prompt
        how = tools.told("cuda", limits.calls, limits.seconds, RUNS)
        return replace(prompt, system=prompt.system.removesuffix(TEXT_FORM) + how)

    def _judged(self, arguments: Mapping[str, Any]) -> Judged:
        answer = prompts.read_reply(codec.canonical_json(arguments).decode(), "tool")
        if isinstance(answer, Unreadable):
            raise CannotRun(answer.reason)
        return asyncio.run(self.pool.score([self.task], [answer]))[0]


class Endpoint:
    """A model behind `asking`, with `concurrency` conversations at a time.

    `benches`: by the context of a prompt, the tools that a model with tools has for it, within `limits`.
    """

    def __init__(self, asking: Asking, concurrency: int) -> None:
        self._asking = asking
        self._concurrency = concurrency
        self.benches: Mapping[str, TaskBench] = {}
        self.limits = Limits()

    def sample(self, asked: Sequence[tuple[Prompt, int]]) -> list[Reply]:
        """See `Sampler`.

        Raises:
            BudgetSpentError: the next request may cost more than is left. RemoteError: no answer.
        """
        talks = []
        for prompt, sample in asked:
            bench = self.benches.get(prompt.context)
            shown = bench.prompt(self.limits) if bench else prompt
            talks.append(self._talk(self._asking.request(shown, sample, bench.tools if bench else ()), bench))
        return self._all(talks)

    def go_on(self, turns: Sequence[tuple[str, str, int]]) -> list[Reply]:
        """See `HoldsConversations`.

        Raises:
            BudgetSpentError, RemoteError: as `sample`.
        """
        talks = []
        for key, words, sample in turns:
            prompt, _ = self._asking.transcripts.history(key)
            bench = self.benches.get(prompt.context)
            last = self._asking.transcripts.find(key)
            call = called(last) if last is not None and last.status is ReplyStatus.ANSWERED else None
            turn = Turn(words, call.id if call else None)
            request = self._asking.going_on(key, turn, sample, bench.tools if bench else ())
            talks.append(self._talk(request, bench))
        return self._all(talks)

    def _talk(self, request: Request, bench: TaskBench | None) -> Conversation:
        return Conversation(self._asking, request, bench or Bench(), self.limits)

    def _all(self, talks: Sequence[Conversation]) -> list[Reply]:
        with ThreadPoolExecutor(self._concurrency) as threads:
            coming = [threads.submit(self._one, talk) for talk in talks]
            try:
                return [reply.result() for reply in progress.each(coming, "asking", len(coming), "prompt")]
            except BaseException:
                self._asking.stop.set()
                for reply in coming:
                    reply.cancel()
                raise

    def _one(self, talk: Conversation) -> Reply:
        exchanges = [self._asking.answer(talk.request)]
        while not talk.absorb(exchanges[-1]):
            exchanges.append(self._asking.answer(talk.request))
        last, usages = exchanges[-1], [exchange.usage for exchange in exchanges]
        try:
            before = [exchange for exchange, _ in talk.request.history]
            text, form = handed_in(talk.bench, last, before)
        except CannotRun:
            text, form = "", "text"
        counted = [usage for usage in usages if usage is not None]
        costs = [exchange.cost_usd for exchange in exchanges]
        # A model that refused would refuse again with that in view.
        goes_on = last.status in (ReplyStatus.ANSWERED, ReplyStatus.TRUNCATED)
        return Reply(
            text,
            form,
            last.status.value,
            sum(u.input_tokens + u.cache_read_tokens + u.cache_write_tokens for u in counted)
            if len(counted) == len(usages)
            else None,
            sum(u.output_tokens for u in counted) if len(counted) == len(usages) else None,
            None if None in costs else sum(cost or 0.0 for cost in costs),
            key=talk.request.key if goes_on else None,
        )
