"""The Messages API through the `anthropic` client: one streamed exchange with prompt caching and one tool.

The rules and the kernel are marked for the server's prompt cache. The answer tool is forced for models that
allow it, and requested in the prompt for the others. Not covered: batches (`batches`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from kcurate.deopt.models import prices
from kcurate.deopt.models.client import Request, TryAgain
from kcurate.deopt.models.failures import lost, root_cause, sort_status, transport_errors
from kcurate.errors import MissingDependencyError, RemoteError
from kcurate.prompts import ANSWER_TOOL
from kcurate.prompts.replies import Form
from kcurate.records import Exchange, ReplyStatus, Usage

KEY_VARIABLE = "ANTHROPIC_API_KEY"
# Between two events of a stream; the server sends pings while the model thinks.
TIMEOUT_S = 180.0
CONNECT_TIMEOUT_S = 15.0
_CACHED = {"type": "ephemeral"}
_STATUS = {
    "refusal": ReplyStatus.REFUSAL,
    "max_tokens": ReplyStatus.TRUNCATED,
    "model_context_window_exceeded": ReplyStatus.TRUNCATED,
}


def sdk() -> ModuleType:
    """The `anthropic` package.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import anthropic
    except ImportError as error:
        raise MissingDependencyError(
            "the anthropic package is missing", hint="pip install anthropic"
        ) from error
    return anthropic


def open_sdk(*, timeout_s: float = TIMEOUT_S) -> Any:
    """The real client; its key and base URL come from its own environment variables. It never retries.

    Raises:
        MissingDependencyError: there is no API key.
    """
    anthropic = sdk()
    if not (os.environ.get(KEY_VARIABLE) or os.environ.get("ANTHROPIC_AUTH_TOKEN")):
        raise MissingDependencyError("no API key for Claude", hint=f"set {KEY_VARIABLE}")
    return anthropic.Anthropic(max_retries=0, timeout=anthropic.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S))


def body(model: str, request: Request) -> dict[str, Any]:
    """The request in the form of the Messages API (the same in a batch)."""
    prompt, use = request.prompt, prices.tool_use(model)
    choice: dict[str, Any] = {"type": "auto"}
    if use != "auto":
        choice = {"type": "tool", "name": ANSWER_TOOL["name"]}
    made: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "system": [{"type": "text", "text": prompt.system, "cache_control": _CACHED}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": prompt.context, "cache_control": _CACHED},
                    {"type": "text", "text": prompt.task},
                ],
            }
        ],
        "tools": [dict(ANSWER_TOOL)],
        "tool_choice": choice | {"disable_parallel_tool_use": True},
    }
    if use == "forced-without-thinking":
        made["thinking"] = {"type": "disabled"}
    return made


@dataclass
class _Reading:
    """A message, as far as it has been received."""

    usage: Usage | None = None
    stop_reason: str | None = None
    text: list[str] = field(default_factory=list)
    tool: list[str] | None = None
    in_tool: bool = False

    def take(self, event: Any) -> None:
        """Process one stream event; unknown kinds (thinking, pings) are ignored."""
        kind = getattr(event, "type", None)
        if kind == "message_start":
            self.usage = usage_of(event.message.usage)
        elif kind == "content_block_start":
            self.in_tool = event.content_block.type == "tool_use" and self.tool is None
            if self.in_tool:
                self.tool = []
        elif kind == "content_block_delta":
            if event.delta.type == "text_delta":
                self.text.append(event.delta.text)
            elif event.delta.type == "input_json_delta" and self.in_tool and self.tool is not None:
                self.tool.append(event.delta.partial_json)
        elif kind == "content_block_stop":
            self.in_tool = False
        elif kind == "message_delta":
            self.stop_reason = event.delta.stop_reason
            self.usage = _later(self.usage, event.usage)


class ClaudeClient:
    """One Claude model. Thread-safe."""

    form: Form = "tool"

    def __init__(self, model: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.model = model
        self._sdk = sdk()
        self.api = open_sdk(timeout_s=timeout_s)
        self.where = str(self.api.base_url).rstrip("/")
        self._broken = transport_errors(self._sdk)

    def ask(self, request: Request) -> Exchange:
        """One exchange, tried once.

        Raises:
            TryAgain: it may work later. RemoteError: it will not work for any request.
        """
        started = time.monotonic()
        reading = _Reading()
        sdk = self._sdk
        try:
            stream = self.api.messages.create(**body(self.model, request), stream=True)
            request_id = stream.response.headers.get("request-id")
            with stream:
                for event in stream:
                    reading.take(event)
        except sdk.APITimeoutError as error:
            raise TryAgain("the server took too long", began=True, usage=reading.usage) from error
        except sdk.APIConnectionError as error:
            raise lost(sdk, error) from error
        except sdk.APIStatusError as error:
            return self.refused(error, reading.usage)
        except self._broken as error:
            raise lost(sdk, error, began=True, usage=reading.usage) from error
        except (ValueError, AttributeError) as error:  # not JSON, or incomplete events
            raise TryAgain(
                f"the server's response is malformed: {root_cause(error)}", usage=reading.usage
            ) from error
        except sdk.AnthropicError as error:  # for example, unreadable credentials
            raise RemoteError(root_cause(error), where=self.where, hint=f"check {KEY_VARIABLE}") from error
        if reading.stop_reason is None or reading.usage is None:
            raise TryAgain("the server's response ended early", began=True, usage=reading.usage)
        status = _STATUS.get(reading.stop_reason, ReplyStatus.ANSWERED)
        reply, form = reply_of("".join(reading.text), reading.tool)
        return Exchange(
            status,
            reply=reply,
            form=form,
            usage=reading.usage,
            stop_reason=reading.stop_reason,
            request_id=request_id,
            wall_s=round(time.monotonic() - started, 3),
        )

    def close(self) -> None:
        """Close its connections."""
        self.api.close()

    def refused(self, error: Any, usage: Usage | None = None) -> Exchange:
        """The meaning of an `APIStatusError` (see `failures.sort_status`)."""
        return sort_status(
            error.status_code,
            getattr(error, "type", None),
            getattr(error, "api_message", None) or str(error),
            headers=error.response.headers,
            model=self.model,
            where=self.where,
            key=KEY_VARIABLE,
            usage=usage,
        )


def reply_of(text: str, tool: Iterable[str] | None) -> tuple[str, Form]:
    """The answer in a message: the tool input if the tool was called, else the text."""
    if tool is None:
        return text, "text"
    return "".join(tool) or "{}", "tool"


def status_of(stop_reason: str | None) -> ReplyStatus:
    """How a message ended."""
    return _STATUS.get(stop_reason or "", ReplyStatus.ANSWERED)


def usage_of(counted: Any) -> Usage:
    """The token counts from the server."""
    return Usage(
        input_tokens=counted.input_tokens or 0,
        output_tokens=counted.output_tokens or 0,
        cache_write_tokens=counted.cache_creation_input_tokens or 0,
        cache_read_tokens=counted.cache_read_input_tokens or 0,
    )


def _later(first: Usage | None, counted: Any) -> Usage:
    """The final counts; those not repeated keep their first value."""
    start = first or Usage(0, 0)
    read = {
        "input_tokens": getattr(counted, "input_tokens", None),
        "output_tokens": getattr(counted, "output_tokens", None),
        "cache_write_tokens": getattr(counted, "cache_creation_input_tokens", None),
        "cache_read_tokens": getattr(counted, "cache_read_input_tokens", None),
    }
    known = {name: value for name, value in read.items() if value is not None}
    return Usage(**(vars(start) | known))
