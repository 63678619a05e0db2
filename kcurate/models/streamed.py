"""Streamed exchanges through an official SDK, with classified failures, for `claude` and `compatible`.

The SDKs of Anthropic and OpenAI name their errors alike. A server's refusal ends the run, is tried again, or
fails one request, by status and by the error types that the APIs document, never by message. Not covered: how
each API is spoken.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, ClassVar

from kcurate.core.notes import silent
from kcurate.errors import MissingDependencyError, RemoteError
from kcurate.models.client import Heard, Request, TryAgain, retry_after_s
from kcurate.prompts.replies import Form
from kcurate.records import Exchange, ReplyStatus, Usage

# Request timeout, conflict, rate limit; all statuses from 500 up are server problems (529: overloaded).
PASSING = frozenset({408, 409, 429})
# Errors inside a stream have status 200: the Messages API's types for transient ones.
PASSING_TYPES = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})
# Refusals that apply to every request: message and hint.
_FOR_GOOD = {
    401: ("the API key was refused", "check {key}"),
    402: ("the account has no credit", "see the provider's billing page"),
    403: ("the API key may not do this", "check what {key} may use"),
    404: ("no model {model!r} here", "check --model and the base URL"),
}
MAX_DETAIL_CHARS = 300


def _libraries(sdk: ModuleType) -> list[ModuleType]:
    """The HTTP library that an SDK uses (httpx or httpx2), found through its client class."""
    roots = {base.__module__.partition(".")[0] for base in sdk.DefaultHttpxClient.__mro__}
    return [importlib.import_module(root) for root in sorted(roots) if root.startswith("httpx")]


def _transport_errors(sdk: ModuleType) -> tuple[type[Exception], ...]:
    """Exceptions of a connection that breaks mid-stream, for SDKs that do not wrap them."""
    return tuple(
        error for library in _libraries(sdk) for error in (library.TransportError, library.StreamError)
    )


def _lost(
    sdk: ModuleType, error: BaseException, *, began: bool = False, usage: Usage | None = None
) -> TryAgain:
    """The failure for a connection that could not be made or broke, distinguished by the cause of `error`."""
    unmade = tuple(e for library in _libraries(sdk) for e in (library.ConnectError, library.ConnectTimeout))
    link: BaseException | None = error
    while link is not None and not isinstance(link, unmade):
        link = link.__cause__
    if link is not None:
        return TryAgain(f"cannot be reached: {root_cause(error)}", connected=False)
    return TryAgain(f"the connection broke: {root_cause(error)}", began=began, usage=usage)


def root_cause(error: BaseException) -> str:
    """The root of an exception chain, in a few words."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())[:200] or type(error).__name__


# What brings each SDK.
_FROM = {"anthropic": "kcurate", "openai": "kcurate[openai]"}


def sdk(name: str) -> ModuleType:
    """The package `anthropic` or `openai`.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingDependencyError(
            f"the {name} package is missing", hint=f"pip install '{_FROM[name]}'"
        ) from error


@dataclass
class Reading:
    """The part of a reply that has arrived."""

    text: list[str] = field(default_factory=list)
    usage: Usage | None = None
    stop_reason: str | None = None
    now: str = ""  # what is being received: thinking, writing, or the name of a tool

    def take(self, event: Any) -> None:
        """One event of the stream."""
        raise NotImplementedError

    def exchange(self) -> Exchange | None:
        """The exchange, when the reply is complete."""
        raise NotImplementedError


class StreamedClient:
    """One model through an SDK's client. Thread-safe."""

    form: Form
    reading: ClassVar[type[Reading]]
    key: ClassVar[str]  # the variable with the API key
    id_header: ClassVar[str]
    # What the SDK raises where a reply is not JSON, or its events lack their parts.
    garbled: ClassVar[tuple[type[Exception], ...]] = (ValueError, AttributeError)

    def __init__(self, model: str, package: ModuleType, api: Any, failure: type[Exception]) -> None:
        self.model = model
        self.api = api
        self.where = str(api.base_url).rstrip("/")
        self.sdk, self._failure = package, failure
        self._broken = _transport_errors(package)

    def ask(self, request: Request, heard: Heard = silent) -> Exchange:
        """One exchange, without retries; `heard` is called with every event.

        Raises:
            TryAgain: it may work later. RemoteError: it will not work for any request.
        """
        started_s, reading = time.monotonic(), self.reading()
        try:
            with self.sorted_failures(reading):
                stream = self.open_stream(request)
                request_id = stream.response.headers.get(self.id_header)
                with stream:
                    for event in stream:
                        reading.take(event)
                        heard(reading.now)
        except self.sdk.APIStatusError as error:
            return self.refused(error, reading.usage)
        exchange = reading.exchange()
        if exchange is None:
            raise TryAgain("the server's answer ended too early", began=True, usage=reading.usage)
        return replace(exchange, request_id=request_id, wall_s=round(time.monotonic() - started_s, 3))

    @contextlib.contextmanager
    def sorted_failures(self, reading: Reading) -> Iterator[None]:
        """Turn exceptions of the SDK into ours, except `APIStatusError` (see `refused`).

        Raises:
            TryAgain: it may work later. RemoteError: it will not work for any request.
        """
        sdk = self.sdk
        try:
            yield
        except sdk.APIStatusError:
            raise
        except sdk.APITimeoutError as error:
            raise TryAgain("the server took too long", began=True, usage=reading.usage) from error
        except sdk.APIConnectionError as error:
            raise _lost(sdk, error, began=bool(reading.text), usage=reading.usage) from error
        except self._broken as error:
            raise _lost(sdk, error, began=True, usage=reading.usage) from error
        except sdk.APIError as error:  # an error event inside the stream
            what = f"the server failed: {root_cause(error)}"
            raise TryAgain(what, began=True, usage=reading.usage) from error
        except self.garbled as error:
            what = f"the server's answer is not one: {root_cause(error)}"
            raise TryAgain(what, usage=reading.usage) from error
        except self._failure as error:  # credentials that cannot be read, and the like
            raise RemoteError(root_cause(error), where=self.where, hint=f"check {self.key}") from error

    def close(self) -> None:
        """Close the connections."""
        self.api.close()

    def open_stream(self, request: Request) -> Any:
        """The SDK's stream of a reply."""
        raise NotImplementedError

    def refused(self, error: Any, usage: Usage | None = None) -> Exchange:
        """The outcome of a request that the server refused, by the status and type of an `APIStatusError`.

        Raises:
            TryAgain: it may be transient. RemoteError: every request will be refused.
        """
        status, (error_type, message) = error.status_code, self.said(error)
        said = " ".join(message.split())[:MAX_DETAIL_CHARS]
        if status in PASSING or status >= 500 or (status < 400 and error_type in PASSING_TYPES):
            name, after_s = error_type or f"status {status}", retry_after_s(error.response.headers)
            raise TryAgain(f"{name}: {said}", after_s=after_s, usage=usage)
        if status in _FOR_GOOD:
            what, hint = _FOR_GOOD[status]
            raise RemoteError(what.format(model=self.model), where=self.where, hint=hint.format(key=self.key))
        return Exchange(ReplyStatus.REJECTED, usage=usage, detail=f"status {status}: {said}")

    def said(self, error: Any) -> tuple[str | None, str]:
        """The type (None: none that is documented) and the message of an `APIStatusError`."""
        raise NotImplementedError
