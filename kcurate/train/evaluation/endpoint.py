"""A model behind an API: Claude, or any server that speaks OpenAI's chat completions.

Every exchange is saved before it is used, so an interrupted command sends no prompt twice. Not covered:
retries, prices, the APIs themselves (`kcurate.models`).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from kcurate.core import progress
from kcurate.models.asking import Asking
from kcurate.records import Prompt
from kcurate.train.evaluation.sampling import Reply


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
        with ThreadPoolExecutor(self._concurrency) as threads:
            coming = [threads.submit(self._one, *one) for one in asked]
            try:
                return [one.result() for one in progress.each(coming, "asking", len(coming), "prompt")]
            except BaseException:
                self._asking.stop.set()
                for one in coming:
                    one.cancel()
                raise

    def _one(self, prompt: Prompt, sample: int) -> Reply:
        found = self._asking.answer(self._asking.request(prompt, sample))
        usage = found.usage
        return Reply(
            found.reply,
            found.form,
            found.status.value,
            None
            if usage is None
            else usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
            None if usage is None else usage.output_tokens,
            found.cost_usd,
        )
