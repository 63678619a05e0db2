"""The Messages API through the `anthropic` client: one streamed exchange with prompt caching and one tool.

The rules and the kernel are marked for the server's prompt cache. A call of the answer tool is demanded
where the model lets it be, and asked for in the prompt where it does not. Not covered: batches (`batches`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kcurate.errors import MissingDependencyError
from kcurate.models import prices
from kcurate.models.client import Request
from kcurate.models.streamed import Reading, StreamedClient, sdk
from kcurate.prompts.replies import Form
from kcurate.records import Exchange, ReplyStatus, Usage

KEY_VARIABLE = "ANTHROPIC_API_KEY"
# Between two events of a stream; the server sends pings while a model thinks.
TIMEOUT_S = 180.0
CONNECT_TIMEOUT_S = 15.0
_CACHED = {"type": "ephemeral"}
_STATUS = {
    "refusal": ReplyStatus.REFUSAL,
    "max_tokens": ReplyStatus.TRUNCATED,
    "model_context_window_exceeded": ReplyStatus.TRUNCATED,
}


def open_sdk(*, timeout_s: float = TIMEOUT_S) -> Any:
    """The real client; key and base URL come from its own environment variables. It never retries itself.

    Raises:
        MissingDependencyError: there is no API key.
    """
    anthropic = sdk("anthropic")
    if not (os.environ.get(KEY_VARIABLE) or os.environ.get("ANTHROPIC_AUTH_TOKEN")):
        raise MissingDependencyError("no API key for Claude", hint=f"set {KEY_VARIABLE}")
    return anthropic.Anthropic(max_retries=0, timeout=anthropic.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S))


def body(model: str, request: Request) -> dict[str, Any]:
    """The request as the Messages API takes it (the same in a batch)."""
    prompt, use = request.prompt, prices.tool_use(model)
    choice: dict[str, Any] = {"type": "auto"}
    if use != "auto":
        choice = {"type": "tool", "name": request.tool["name"]}
    message: dict[str, Any] = {
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
        "tools": [dict(request.tool)],
        "tool_choice": choice | {"disable_parallel_tool_use": True},
        **request.sampling,
    }
    if use == "forced-without-thinking":
        message["thinking"] = {"type": "disabled"}
    return message


@dataclass
class _Reading(Reading):
    tool: list[str] | None = None
    in_tool: bool = False

    def take(self, event: Any) -> None:
        """One event of the stream; kinds that are not known (thinking, pings) are passed over."""
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

    def exchange(self) -> Exchange | None:
        """The answer of the tool, or the text."""
        if self.stop_reason is None or self.usage is None:
            return None
        reply, form = reply_of("".join(self.text), self.tool)
        status = status_of(self.stop_reason)
        return Exchange(status, reply=reply, form=form, usage=self.usage, stop_reason=self.stop_reason)


class ClaudeClient(StreamedClient):
    """One Claude model. Thread-safe."""

    form: Form = "tool"
    reading, key, id_header = _Reading, KEY_VARIABLE, "request-id"

    def __init__(self, model: str, *, timeout_s: float = TIMEOUT_S) -> None:
        package = sdk("anthropic")
        super().__init__(model, package, open_sdk(timeout_s=timeout_s), package.AnthropicError)

    def open_stream(self, request: Request) -> Any:
        """The events of a message."""
        return self.api.messages.create(**body(self.model, request), stream=True)

    def said(self, error: Any) -> tuple[str | None, str]:
        """The API's own type and message."""
        return getattr(error, "type", None), getattr(error, "api_message", None) or str(error)


def reply_of(text: str, tool: Iterable[str] | None) -> tuple[str, Form]:
    """The answer in a message: the tool's input if it was called, else the text."""
    if tool is None:
        return text, "text"
    return "".join(tool) or "{}", "tool"


def status_of(stop_reason: str | None) -> ReplyStatus:
    """How a message ended."""
    return _STATUS.get(stop_reason or "", ReplyStatus.ANSWERED)


def usage_of(counted: Any) -> Usage:
    """The tokens that the server counted."""
    return Usage(
        input_tokens=counted.input_tokens or 0,
        output_tokens=counted.output_tokens or 0,
        cache_write_tokens=counted.cache_creation_input_tokens or 0,
        cache_read_tokens=counted.cache_read_input_tokens or 0,
    )


def _later(first: Usage | None, counted: Any) -> Usage:
    """The counts at the end; those that are not given again hold."""
    start = first or Usage(0, 0)
    read = {
        "input_tokens": getattr(counted, "input_tokens", None),
        "output_tokens": getattr(counted, "output_tokens", None),
        "cache_write_tokens": getattr(counted, "cache_creation_input_tokens", None),
        "cache_read_tokens": getattr(counted, "cache_read_input_tokens", None),
    }
    known = {name: value for name, value in read.items() if value is not None}
    return Usage(**(vars(start) | known))
