"""One streamed exchange through an official SDK, its failures sorted: what `claude` and `compatible` share.

The SDKs of Anthropic and OpenAI name their errors alike. Not covered: how each API is spoken.
"""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, ClassVar

from kcurate.core.notes import silent
from kcurate.errors import MissingDependencyError, RemoteError
from kcurate.models.client import Heard, Request, TryAgain
from kcurate.models.failures import lost, root_cause, sort_status, transport_errors
from kcurate.prompts.replies import Form
from kcurate.records import Exchange, Usage

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
    """A reply as far as it has come."""

    text: list[str] = field(default_factory=list)
    usage: Usage | None = None
    stop_reason: str | None = None
    now: str = ""  # what is being received: thinking, writing, or the name of a tool

    def take(self, event: Any) -> None:
        """One event of the stream."""
        raise NotImplementedError

    def exchange(self) -> Exchange | None:
        """The exchange, once the reply has come to its end."""
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
        self._sdk, self._failure = package, failure
        self._broken = transport_errors(package)

    def ask(self, request: Request, heard: Heard = silent) -> Exchange:
        """One exchange, one try; `heard` is called with every event.

        Raises:
            TryAgain: it may work later. RemoteError: it will not work for any request.
        """
        started_s, sdk, reading = time.monotonic(), self._sdk, self.reading()
        try:
            stream = self.open_stream(request)
            request_id = stream.response.headers.get(self.id_header)
            with stream:
                for event in stream:
                    reading.take(event)
                    heard(reading.now)
        except sdk.APITimeoutError as error:
            raise TryAgain("the server took too long", began=True, usage=reading.usage) from error
        except sdk.APIConnectionError as error:
            raise lost(sdk, error, began=bool(reading.text), usage=reading.usage) from error
        except sdk.APIStatusError as error:
            return self.refused(error, reading.usage)
        except self._broken as error:
            raise lost(sdk, error, began=True, usage=reading.usage) from error
        except sdk.APIError as error:  # an error event inside the stream
            what = f"the server failed: {root_cause(error)}"
            raise TryAgain(what, began=True, usage=reading.usage) from error
        except self.garbled as error:
            what = f"the server's answer is not one: {root_cause(error)}"
            raise TryAgain(what, usage=reading.usage) from error
        except self._failure as error:  # credentials that cannot be read, and the like
            raise RemoteError(root_cause(error), where=self.where, hint=f"check {self.key}") from error
        exchange = reading.exchange()
        if exchange is None:
            raise TryAgain("the server's answer ended too early", began=True, usage=reading.usage)
        return replace(exchange, request_id=request_id, wall_s=round(time.monotonic() - started_s, 3))

    def close(self) -> None:
        """Give its connections back."""
        self.api.close()

    def open_stream(self, request: Request) -> Any:
        """The SDK's stream of a reply."""
        raise NotImplementedError

    def refused(self, error: Any, usage: Usage | None = None) -> Exchange:
        """What an `APIStatusError` means (see `failures.sort_status`)."""
        kind, what = self.said(error)
        headers = error.response.headers
        return sort_status(
            error.status_code, kind, what, headers=headers, model=self.model, where=self.where, key=self.key,
            usage=usage,
        )  # fmt: skip

    def said(self, error: Any) -> tuple[str | None, str]:
        """The type (None: none that is documented) and the message of an `APIStatusError`."""
        raise NotImplementedError
