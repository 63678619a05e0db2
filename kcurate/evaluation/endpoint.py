"""A model behind an API: Claude, or any server that speaks OpenAI's chat completions.

It answers in text, as it was asked, and thinks as much as it decides to. Several turns are one conversation.
Every exchange is saved before it is used, so an interrupted command sends no prompt twice. Not covered:
retries, prices, the APIs themselves (`kcurate.models`).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from kcurate.core import progress
from kcurate.evaluation.sampling import Reply
from kcurate.models.asking import Asking
from kcurate.models.client import Request
from kcurate.records import Prompt, ReplyStatus, Turn


class Endpoint:
    """A model behind `asking`, with `concurrency` requests at a time."""

    def __init__(self, asking: Asking, concurrency: int) -> None:
        self._asking = asking
        self._concurrency = concurrency

    def sample(self, asked: Sequence[tuple[Prompt, int]]) -> list[Reply]:
        """See `Sampler`.

        Raises:
            BudgetSpentError: the next request may cost more than is left. RemoteError: no answer.
        """
        return self._all([self._asking.request(prompt, sample) for prompt, sample in asked])

    def go_on(self, told: Sequence[tuple[str, str, int]]) -> list[Reply]:
        """See `Talking`.

        Raises:
            BudgetSpentError, RemoteError: as `sample`.
        """
        return self._all([self._asking.going_on(key, Turn(words), sample) for key, words, sample in told])

    def _all(self, requests: Sequence[Request]) -> list[Reply]:
        with ThreadPoolExecutor(self._concurrency) as threads:
            coming = [threads.submit(self._one, request) for request in requests]
            try:
                return [reply.result() for reply in progress.each(coming, "asking", len(coming), "prompt")]
            except BaseException:
                self._asking.stop.set()
                for reply in coming:
                    reply.cancel()
                raise

    def _one(self, request: Request) -> Reply:
        answer = self._asking.answer(request)
        usage = answer.usage
        # A model that refused would refuse again with that in view.
        goes_on = answer.status in (ReplyStatus.ANSWERED, ReplyStatus.TRUNCATED)
        return Reply(
            answer.reply,
            answer.form,
            answer.status.value,
            None
            if usage is None
            else usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
            None if usage is None else usage.output_tokens,
            answer.cost_usd,
            key=request.key if goes_on else None,
        )
