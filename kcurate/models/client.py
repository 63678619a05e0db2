"""The seam to a model: a `Request` in, an `Exchange` out; classification of failures, and when to retry.

A permanent refusal by the server ends the run with one error (`RemoteError`); transient failures (rate
limits, overload, broken connections) are retried with growing delays; a failure of a single request becomes
the outcome of its exchange. Not covered: the individual APIs (`claude`, `compatible`), what is saved
(`transcripts`), spending (`prices`).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from kcurate.core import codec
from kcurate.core.notes import Note, silent
from kcurate.errors import RemoteError
from kcurate.prompts.replies import Form
from kcurate.records import Exchange, Prompt, Turn, Usage

T = TypeVar("T")


# Bytes, or tokens, that an API may add to a request: roles, the system text of tool use.
ALLOWANCE = 2048
# What became of a prompt so far: each exchange, and what was said after it (None: the model had paused).
History = tuple[tuple[Exchange, Turn | None], ...]
# Is called with what is being received: `thinking`, `writing`, or the name of a tool.
Heard = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """The input of one exchange; `key` is its transcript key, `tools` what a model with tools may call.

    `history`: of a conversation, what came before; `after` is the key of its last exchange. `options`:
    `temperature`, `top_p` and `effort`, where they are not the server's own.
    """

    key: str
    prompt: Prompt
    sample: int
    max_tokens: int
    tools: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)
    options: Mapping[str, float | str] = field(default_factory=dict)
    history: History = ()
    after: str | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes of everything sent, plus `ALLOWANCE`."""
        prompt = self.prompt
        parts = [part.encode() for part in (prompt.system, prompt.context, prompt.task)]
        parts += [codec.canonical_json(self.tools)]
        parts += [codec.canonical_json(exchange.content) for exchange, _ in self.history]
        parts += [exchange.reply.encode() for exchange, _ in self.history if not exchange.content]
        parts += [turn.text.encode() for _, turn in self.history if turn is not None]
        return ALLOWANCE + sum(map(len, parts))

    @property
    def most_tokens(self) -> int:
        """An upper bound on the tokens that are sent: what the server counted last time, and the bytes since.

        Of a first turn all bytes: no tokenizer makes more tokens than there are bytes.
        """
        usage = self.history[-1][0].usage if self.history else None
        if usage is None:
            return self.size_bytes
        counted = (
            usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens + usage.output_tokens
        )
        said = len(self.turn.text.encode()) if self.turn is not None else 0
        return min(self.size_bytes, ALLOWANCE + counted + said)

    def turns(self) -> Iterator[dict[str, str]]:
        """The turns after the prompt, as plain chat messages."""
        for exchange, turn in self.history:
            yield {"role": "assistant", "content": exchange.reply or "(no answer)"}
            if turn is not None:
                yield {"role": "user", "content": turn.text}

    @property
    def turn(self) -> Turn | None:
        """The last turn of the user; None if only the prompt was sent, or the model had paused."""
        return self.history[-1][1] if self.history else None


class Client(Protocol):
    """One model behind one API. Thread-safe."""

    model: str
    form: Form

    def ask(self, request: Request, heard: Heard = silent) -> Exchange:
        """One exchange, without retries; `heard` is called as the reply streams in.

        Raises:
            TryAgain: it may work later. RemoteError: it will not work for any request.
        """
        ...

    def close(self) -> None:
        """Close its connections."""
        ...


class TryAgain(Exception):  # noqa: N818 - a retry signal, not an error of ours
    """The exchange failed in a way that may be transient.

    `after_s` is the delay requested by the server. `began`: the server may have started on the answer and
    billed it; `usage` is what it had counted by then. `connected` is False if the server was not reached.
    """

    def __init__(
        self,
        what: str,
        *,
        after_s: float | None = None,
        began: bool = False,
        usage: Usage | None = None,
        connected: bool = True,
    ) -> None:
        super().__init__(what)
        self.what = " ".join(what.split())
        self.after_s = after_s
        self.began = began or usage is not None
        self.usage = usage
        self.connected = connected


@dataclass(frozen=True)
class Patience:
    """Number of tries and the delay between them: `first_s`, doubled each time, up to `most_s`.

    If the server cannot be reached at all, fewer tries suffice.
    """

    tries: int = 8
    unreachable_tries: int = 4
    first_s: float = 1.0
    most_s: float = 60.0


# Longest `retry-after` that is honoured.
MAX_RETRY_AFTER_S = 300.0


def with_patience(
    one_try: Callable[[], T], patience: Patience, *, where: str, stop: threading.Event, note: Note = silent
) -> T:
    """Call `one_try` until it succeeds; `note` is called for each failure after the first that is retried.

    Raises:
        RemoteError: it can never work, failed in every try, or `stop` was set.
    """
    pause_s = patience.first_s
    for count in range(1, patience.tries + 1):
        try:
            return one_try()
        except TryAgain as failure:
            limit = patience.tries if failure.connected else patience.unreachable_tries
            if count >= limit:
                raise gave_up(failure.what, where, count) from failure
            wait_s = min(pause_s, patience.most_s) * random.uniform(0.75, 1.25)
            if failure.after_s is not None:
                wait_s = max(wait_s, min(failure.after_s, MAX_RETRY_AFTER_S))
            pause_s *= 2
            if count > 1:
                note(f"{where}: {failure.what}; try {count + 1} of {limit} in {wait_s:.0f} s")
            if stop.wait(wait_s):
                raise RemoteError("stopped", where=where) from failure
    raise AssertionError("the last try returns or raises")


def gave_up(what: str, where: str, tries: int) -> RemoteError:
    """The error for a server that failed in every try."""
    return RemoteError(
        f"{what}, {tries} times", where=where, hint="all answers so far are saved; rerun to continue"
    )


def retry_after_s(headers: object) -> float | None:
    """The delay requested by a response's headers, in seconds."""
    get = getattr(headers, "get", None)
    if get is None:
        return None
    for name, unit_s in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            return max(0.0, float(get(name)) * unit_s)
        except (TypeError, ValueError):
            continue
    return None
