"""A model behind an API: Claude, or any server that speaks OpenAI's chat completions.

Every exchange is saved before it is used, so an interrupted command sends no prompt twice. Not covered:
retries, prices, the APIs themselves (`kcurate.models`).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from kcurate.core import progress
from kcurate.evaluation.sampling import Reply
from kcurate.models.asking import Asking
from kcurate.records import Prompt


class Endpoint:
    """A model behind an API, with `concurrency` requests at a time."""

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
