"""Chat-completion servers (vLLM, Ollama, llama.cpp, OpenAI itself) through the official `openai` client.

Answers are text in the form that models are trained on here (`kcurate.prompts.replies`), because few of
these servers can be forced to call a tool.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from kcurate.deopt.models.client import Request, TryAgain
from kcurate.deopt.models.failures import lost, root_cause, sort_status, transport_errors
from kcurate.errors import MissingDependencyError, RemoteError
from kcurate.prompts import chat
from kcurate.prompts.replies import Form
from kcurate.records import Exchange, ReplyStatus, Usage

KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
HOST = "api.openai.com"
# A local server may still be loading the model, or think for a long time before the first token.
TIMEOUT_S = 600.0
CONNECT_TIMEOUT_S = 15.0


def sdk() -> ModuleType:
    """The `openai` package.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import openai
    except ImportError as error:
        raise MissingDependencyError("the openai package is missing", hint="pip install openai") from error
    return openai


@dataclass
class _Reading:
    """A completion, as far as it has been received."""

    text: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    refused: bool = False
    usage: Usage | None = None

    def take(self, chunk: Any) -> None:
        """Process one chunk of the stream."""
        if chunk.usage is not None:
            self.usage = _usage(chunk.usage)
        for choice in chunk.choices[:1]:
            self.finish_reason = choice.finish_reason or self.finish_reason
            if choice.delta is not None:
                self.text.append(choice.delta.content or "")
                self.refused = self.refused or bool(choice.delta.refusal)


class CompatibleClient:
    """One model of one chat-completion server. Thread-safe."""

    form: Form = "text"

    def __init__(self, model: str, base_url: str | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        self.model = model
        self._sdk = openai = sdk()
        base_url = base_url or os.environ.get(URL_VARIABLE) or None
        key = os.environ.get(KEY_VARIABLE)
        if not key and (base_url is None or HOST in base_url):
            raise MissingDependencyError("no API key for OpenAI", hint=f"set {KEY_VARIABLE}")
        self.api = openai.OpenAI(
            api_key=key or "none",  # a local server needs no key, but the client requires a value
            base_url=base_url,
            max_retries=0,
            timeout=openai.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
        )
        self.where = str(self.api.base_url).rstrip("/")
        self._broken = transport_errors(openai)

    def ask(self, request: Request) -> Exchange:
        """One exchange, tried once.

        Raises:
            TryAgain: it may work later. RemoteError: it will not work for any request.
        """
        started = time.monotonic()
        reading = _Reading()
        sdk = self._sdk
        try:
            stream = self.api.chat.completions.create(**self._body(request))
            request_id = stream.response.headers.get("x-request-id")
            with stream:
                for chunk in stream:
                    reading.take(chunk)
        except sdk.APITimeoutError as error:
            raise TryAgain("the server took too long", began=True, usage=reading.usage) from error
        except sdk.APIConnectionError as error:
            raise lost(sdk, error, began=bool(reading.text), usage=reading.usage) from error
        except sdk.APIStatusError as error:
            return self._refused(error)
        except self._broken as error:
            raise lost(sdk, error, began=True, usage=reading.usage) from error
        except sdk.APIError as error:  # an error event inside the stream
            raise TryAgain(
                f"the server failed: {root_cause(error)}", began=True, usage=reading.usage
            ) from error
        except (ValueError, AttributeError, TypeError) as error:  # not JSON, or incomplete chunks
            raise TryAgain(
                f"the server's response is malformed: {root_cause(error)}", usage=reading.usage
            ) from error
        except sdk.OpenAIError as error:
            raise RemoteError(root_cause(error), where=self.where, hint=f"check {KEY_VARIABLE}") from error
        if reading.finish_reason is None:
            raise TryAgain("the server's response ended early", began=True, usage=reading.usage)
        return Exchange(
            _status(reading),
            reply="".join(reading.text),
            usage=reading.usage,
            stop_reason=reading.finish_reason,
            request_id=request_id,
            wall_s=round(time.monotonic() - started, 3),
        )

    def close(self) -> None:
        """Close its connections."""
        self.api.close()

    def _body(self, request: Request) -> dict[str, Any]:
        limit = "max_completion_tokens" if HOST in self.where else "max_tokens"
        return {
            "model": self.model,
            "messages": chat(request.prompt),
            limit: request.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def _refused(self, error: Any) -> Exchange:
        return sort_status(
            error.status_code,
            None,
            str(getattr(error, "message", error)),
            headers=error.response.headers,
            model=self.model,
            where=self.where,
            key=KEY_VARIABLE,
        )


def _status(reading: _Reading) -> ReplyStatus:
    if reading.refused or reading.finish_reason == "content_filter":
        return ReplyStatus.REFUSAL
    return ReplyStatus.TRUNCATED if reading.finish_reason == "length" else ReplyStatus.ANSWERED


def _usage(counted: Any) -> Usage:
    """The token counts from the server; tokens read from its cache are counted separately."""
    details = getattr(counted, "prompt_tokens_details", None)
    cached = (getattr(details, "cached_tokens", None) or 0) if details is not None else 0
    prompt = counted.prompt_tokens or 0
    return Usage(max(0, prompt - cached), counted.completion_tokens or 0, cache_read_tokens=cached)
