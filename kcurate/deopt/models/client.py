"""The seam to a model: a `Request` in, an `Exchange` out; how failures are sorted, and when to try again.

What a server refuses for good ends the run in one line (`RemoteError`); what may pass (rate limits,
overload, broken connections) is tried again with growing pauses; what concerns one request alone is the
outcome of that exchange. Not covered: how each API is spoken (`claude`, `compatible`), what is kept
(`transcripts`), what may be spent (`budget`).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kcurate.errors import RemoteError
from kcurate.prompts.replies import Form
from kcurate.records import Exchange, Prompt, Usage

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """What one exchange asks for; `key` is its transcript's."""

    key: str
    prompt: Prompt
    sample: int
    max_tokens: int

    @property
    def size_bytes(self) -> int:
        """The prompt's length, with room for what the API adds to it (tool definitions, roles)."""
        prompt = self.prompt
        return 2048 + sum(len(part.encode()) for part in (prompt.system, prompt.context, prompt.task))


class Client(Protocol):
    """One model behind one API. Safe to use from many threads."""

    model: str
    form: Form

    def ask(self, request: Request) -> Exchange:
        """One exchange, one try.

        Raises:
            TryAgain: it may work later. RemoteError: it will not work for any request.
        """
        ...

    def close(self) -> None:
        """Give its connections back."""
        ...


class TryAgain(Exception):  # noqa: N818 - a turn of events, not an error of ours
    """The exchange failed in a way that may pass.

    `after_s` is what the server asks to wait. `began` says that it may have worked on the answer already,
    and so counts it; `usage` is what it had counted by then. `connected` is False where nothing was reached.
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
    """How often to try, and how long to pause in between: `first_s` doubled each time, up to `most_s`.

    Where nothing can be reached at all, fewer tries are enough to be sure.
    """

    tries: int = 8
    unreachable_tries: int = 4
    first_s: float = 1.0
    most_s: float = 60.0


# The longest pause that a server is believed to mean.
MAX_RETRY_AFTER_S = 300.0


def with_patience(
    one_try: Callable[[], T],
    patience: Patience,
    *,
    where: str,
    stop: threading.Event,
    failed: Callable[[TryAgain], None] = lambda _: None,
) -> T:
    """Call `one_try` until it works; `failed` hears of every failure.

    Raises:
        RemoteError: it will never work, or did not in all tries, or `stop` was set meanwhile.
    """
    pause_s = patience.first_s
    for count in range(1, patience.tries + 1):
        try:
            return one_try()
        except TryAgain as failure:
            failed(failure)
            limit = patience.tries if failure.connected else patience.unreachable_tries
            if count >= limit:
                raise gave_up(failure.what, where, count) from failure
            wait_s = min(pause_s, patience.most_s) * random.uniform(0.75, 1.25)
            if failure.after_s is not None:
                wait_s = max(wait_s, min(failure.after_s, MAX_RETRY_AFTER_S))
            pause_s *= 2
            if stop.wait(wait_s):
                raise RemoteError("stopped", where=where) from failure
    raise AssertionError("the last try returns or raises")


def gave_up(what: str, where: str, tries: int) -> RemoteError:
    """The error for a server that did not answer however often it was asked."""
    return RemoteError(
        f"{what}, {tries} times", where=where, hint="all answers so far are on file; run again to go on"
    )


def retry_after_s(headers: object) -> float | None:
    """The pause that a response's headers ask for, in seconds."""
    get = getattr(headers, "get", None)
    if get is None:
        return None
    for name, unit_s in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            return max(0.0, float(get(name)) * unit_s)
        except (TypeError, ValueError):
            continue
    return None
