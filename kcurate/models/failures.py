"""The meaning of a server's refusal: end the run, retry, or fail one request. Classified by status and by
the error types that the APIs document, never by message.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from kcurate.errors import RemoteError
from kcurate.models.client import TryAgain, retry_after_s
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
        TryAgain: it may be transient. RemoteError: every request will be refused.
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
    """The HTTP library that an SDK uses (httpx or httpx2), found through its client class."""
    roots = {base.__module__.partition(".")[0] for base in sdk.DefaultHttpxClient.__mro__}
    return [importlib.import_module(root) for root in sorted(roots) if root.startswith("httpx")]


def transport_errors(sdk: ModuleType) -> tuple[type[Exception], ...]:
    """Exceptions of a connection that breaks mid-stream, for SDKs that do not wrap them."""
    return tuple(
        error for library in _libraries(sdk) for error in (library.TransportError, library.StreamError)
    )


def lost(
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
