"""What a server's refusal means: end the run, try again, or an outcome of one request. Sorted by status and
by the error types that the APIs document, never by message.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from kcurate.deopt.models.client import TryAgain, retry_after_s
from kcurate.errors import RemoteError
from kcurate.records import Exchange, ReplyStatus, Usage

# Request timeout, conflict, rate limit; everything from 500 on is the server's own trouble (529: overloaded).
PASSING = frozenset({408, 409, 429})
# An error inside a stream comes with status 200: the Messages API's types for what may pass.
PASSING_TYPES = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})
# What to do about a refusal that holds for every request.
_FOR_GOOD = {
    401: ("the API key was refused", "check {key}"),
    402: ("the account has no credit", "see the provider's billing page"),
    403: ("the API key may not do this", "check what {key} may use"),
    404: ("no model {model!r} here", "check --model and the base URL"),
}
MAX_DETAIL_CHARS = 300


def sort_status(
    status: int,
    error_type: str | None,
    message: str,
    *,
    headers: object = None,
    model: str,
    where: str,
    key: str,
    usage: Usage | None = None,
) -> Exchange:
    """The outcome of a request that a server refused; `key` is the variable that holds the API key.

    Raises:
        TryAgain: it may pass. RemoteError: every request will be refused.
    """
    said = " ".join(message.split())[:MAX_DETAIL_CHARS]
    if status in PASSING or status >= 500 or (status < 400 and error_type in PASSING_TYPES):
        name = error_type or f"status {status}"
        raise TryAgain(f"{name}: {said}", after_s=retry_after_s(headers), usage=usage)
    if status in _FOR_GOOD:
        what, hint = _FOR_GOOD[status]
        raise RemoteError(what.format(model=model), where=where, hint=hint.format(key=key))
    return Exchange(ReplyStatus.REJECTED, usage=usage, detail=f"status {status}: {said}")


def _libraries(sdk: ModuleType) -> list[ModuleType]:
    """The HTTP library below an SDK: its own affair (httpx or httpx2), so found through its client class."""
    roots = {base.__module__.partition(".")[0] for base in sdk.DefaultHttpxClient.__mro__}
    return [importlib.import_module(root) for root in sorted(roots) if root.startswith("httpx")]


def transport_errors(sdk: ModuleType) -> tuple[type[Exception], ...]:
    """What a broken connection raises from the middle of a stream, where an SDK does not wrap it."""
    return tuple(
        error for library in _libraries(sdk) for error in (library.TransportError, library.StreamError)
    )


def lost(
    sdk: ModuleType, error: BaseException, *, began: bool = False, usage: Usage | None = None
) -> TryAgain:
    """A connection that could not be made, or broke: the two are told apart by what caused `error`."""
    unmade = tuple(e for library in _libraries(sdk) for e in (library.ConnectError, library.ConnectTimeout))
    link: BaseException | None = error
    while link is not None and not isinstance(link, unmade):
        link = link.__cause__
    if link is not None:
        return TryAgain(f"cannot be reached: {root_cause(error)}", connected=False)
    return TryAgain(f"the connection broke: {root_cause(error)}", began=began, usage=usage)


def root_cause(error: BaseException) -> str:
    """The root of a chain of exceptions, in a few words."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())[:200] or type(error).__name__
