"""The single path for requests: an answer comes from the saved transcripts, else from the server, with
retries and within the budget, and is saved before it is used.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from typing import Any

from kcurate.core.notes import Note, silent
from kcurate.errors import RemoteError
from kcurate.models.client import Client, Heard, Patience, Request, TryAgain, with_patience
from kcurate.models.prices import Budget, Price
from kcurate.models.transcripts import Transcripts, next_key, request_key
from kcurate.records import Exchange, Prompt, ReplyStatus, Turn, Usage

# A request that is not answered for so long is mentioned once.
SILENT_S = 10.0


class RequestSource(StrEnum):
    """Where the answer to a request came from."""

    SENT = "sent"
    BATCHED = "batched"
    ON_FILE = "on_file"


@dataclass(eq=False)
class Asking:
    """A client with its transcripts, price and budget. Thread-safe.

    `stop` ends all waiting; `counts` tells where the answers of this run came from.
    """

    client: Client
    transcripts: Transcripts
    _: KW_ONLY
    price: Price | None
    budget: Budget
    max_tokens: int
    patience: Patience = field(default_factory=Patience)
    options: Mapping[str, float | str] = field(default_factory=dict)
    note: Note = silent
    stop: threading.Event = field(default_factory=threading.Event)
    heard: Heard = silent
    counts: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=lambda: Usage(0, 0))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _refusals: int = 0

    def request(self, prompt: Prompt, sample: int, tools: Sequence[Mapping[str, Any]] = ()) -> Request:
        """The request for a prompt; a model with tools may call `tools`."""
        key = request_key(self.client.model, prompt, sample, self.max_tokens, self.options)
        return Request(key, prompt, sample, self.max_tokens, tuple(tools), self.options)

    def following(self, request: Request, exchange: Exchange, turn: Turn | None, key: str) -> Request:
        """The request that continues after an exchange with `turn`; `key`: from `next_key`."""
        history = (*request.history, (exchange, turn))
        return replace(request, key=key, history=history, after=request.key)

    def going_on(
        self, after: str, turn: Turn, sample: int, tools: Sequence[Mapping[str, Any]] = ()
    ) -> Request:
        """The request that continues a saved conversation, after the exchange under a key.

        Raises:
            KeyError: that exchange is not saved.
        """
        prompt, history = self.transcripts.history(after)
        request = Request(after, prompt, sample, self.max_tokens, tuple(tools), self.options, history)
        exchange = self.transcripts.find(after)
        assert exchange is not None, "its history is on file"
        return self.following(request, exchange, turn, next_key(after, sample, turn.text))

    def on_file(self, request: Request) -> Exchange | None:
        """The saved answer to a request, if any."""
        exchange = self.transcripts.find(request.key)
        if exchange is not None:
            self._count(RequestSource.ON_FILE)
        return exchange

    def answer(self, request: Request) -> Exchange:
        """The answer to a request.

        Raises:
            BudgetSpentError: it may cost more than the budget has left.
            RemoteError: no answer could be obtained.
        """
        exchange = self.on_file(request)
        if exchange is not None:
            return exchange
        where = getattr(self.client, "where", "")
        return with_patience(
            lambda: self._try(request), self.patience, where=where, stop=self.stop, note=self.note
        )

    def _try(self, request: Request) -> Exchange:
        if self.stop.is_set():
            raise RemoteError("stopped", where=self.client.model)
        held = self.most_usd(request)
        self.budget.hold(held)
        cost = 0.0
        silence = threading.Timer(SILENT_S, self._note_silence)
        silence.daemon = True
        silence.start()

        def heard(what: str) -> None:
            silence.cancel()
            self.heard(what)

        try:
            exchange = self.keep(request, self.client.ask(request, heard))
            rejected = exchange.status is ReplyStatus.REJECTED
            cost = (0.0 if rejected else held) if exchange.cost_usd is None else exchange.cost_usd
        except TryAgain as failure:
            if failure.began:
                known = self.cost_usd(failure.usage)
                cost = held if known is None else known
                broken = Exchange(ReplyStatus.INTERRUPTED, usage=failure.usage, detail=failure.what)
                self.keep(request, broken)
            raise
        finally:
            silence.cancel()
            self.budget.settle(held, cost)
        self._count(RequestSource.SENT)
        self._end_if_refused(exchange)
        return exchange

    def _note_silence(self) -> None:
        where = getattr(self.client, "where", self.client.model)
        self.note(f"{where}: no answer for {SILENT_S:.0f} s, still waiting")

    def keep(self, request: Request, exchange: Exchange, *, batch: bool = False) -> Exchange:
        """Save an exchange with its cost."""
        priced = replace(
            exchange,
            # A reply may contain a lone surrogate, which UTF-8 cannot encode.
            reply=exchange.reply.encode("utf-8", "replace").decode(),
            cost_usd=self.cost_usd(exchange.usage, batch=batch),
        )
        if exchange.usage is not None:
            self._add_usage(exchange.usage)
        self.transcripts.add(request, priced)
        return priced

    def most_usd(self, request: Request, *, batch: bool = False) -> float:
        """An upper bound on the cost of a request; 0 without a price (and so without a budget)."""
        if self.price is None:
            return 0.0
        return self.price.most_usd(request.most_tokens, request.max_tokens, batch=batch)

    def cost_usd(self, usage: Usage | None, *, batch: bool = False) -> float | None:
        """The cost of tokens; None if unknown."""
        if self.price is None or usage is None:
            return None
        return self.price.cost_usd(usage, batch=batch)

    def spent(self) -> str:
        """How many requests this run sent and what they cost, in one line."""
        usage, counts = self.usage, self.counts
        price = f"${self.budget.spent_usd:.4f}" if self.price else "price unknown"
        return (
            f"{self.client.model}: {sum(counts.values())} answers ({counts['on_file']} already saved), "
            f"{usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens} tokens in "
            f"({usage.cache_read_tokens} from the prompt cache), {usage.output_tokens} out: {price}"
        )

    def _count(self, source: RequestSource) -> None:
        with self._lock:
            self.counts[source] += 1

    def count_batched(self, number: int) -> None:
        """Count answers that came with a batch."""
        with self._lock:
            self.counts[RequestSource.BATCHED] += number

    def _add_usage(self, usage: Usage) -> None:
        with self._lock:
            old, new = self.usage, usage
            self.usage = Usage(
                old.input_tokens + new.input_tokens,
                old.output_tokens + new.output_tokens,
                old.cache_write_tokens + new.cache_write_tokens,
                old.cache_read_tokens + new.cache_read_tokens,
            )

    def _end_if_refused(self, exchange: Exchange) -> None:
        """A server that rejects each of the first three requests would reject all: stop the run."""
        with self._lock:
            rejected = exchange.status is ReplyStatus.REJECTED
            self._refusals = self._refusals + 1 if rejected and self._refusals >= 0 else -1
            if not rejected:
                return
        if self._refusals >= MAX_REJECTED_IN_A_ROW:
            raise RemoteError(
                f"the server rejects every request: {exchange.detail}",
                where=getattr(self.client, "where", self.client.model),
                hint="check the model's name, and that the server speaks this API",
            )


# After this many rejections from the start and no success, the cause is not the individual request.
MAX_REJECTED_IN_A_ROW = 3
