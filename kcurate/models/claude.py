"""The Messages API through the `anthropic` client: one streamed exchange of a conversation with tools.

The model decides how much it thinks and whether it calls a tool: to force a call would turn thinking off. The
rules, the kernel and the conversation so far are marked for the server's prompt cache. Not covered: what
follows an exchange (`conversation`), batches (`kcurate.deopt.models.batches`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kcurate.core import codec
from kcurate.errors import MissingDependencyError
from kcurate.models import prices
from kcurate.models.client import Request
from kcurate.models.streamed import Reading, StreamedClient, sdk
from kcurate.prompts.replies import Form
from kcurate.records import Exchange, ReplyStatus, Turn, Usage

KEY_VARIABLE = "ANTHROPIC_API_KEY"
# Between two events of a stream; the server sends pings while a model thinks.
TIMEOUT_S = 180.0
CONNECT_TIMEOUT_S = 15.0
# The fewest tokens of thinking that may be asked for.
LEAST_THINKING = 1024
# Levels of lists and objects in the input of a tool; a plan has ten with loops in loops.
MOST_LEVELS = 64
# What stands for an answer of which nothing can be shown to the model again.
_NOTHING = ({"type": "text", "text": "(no answer)"},)
_STATUS = {
    "refusal": ReplyStatus.REFUSAL,
    "max_tokens": ReplyStatus.TRUNCATED,
    "model_context_window_exceeded": ReplyStatus.TRUNCATED,
}
# What a model does while a block of this type comes in; of a tool call its name says it.
_DOING = {"thinking": "thinking", "redacted_thinking": "thinking", "text": "writing"}


def open_sdk(*, timeout_s: float = TIMEOUT_S) -> Any:
    """The real client; key and base URL come from its own environment variables. It never retries itself.

    Raises:
        MissingDependencyError: there is no API key.
    """
    anthropic = sdk("anthropic")
    if not (os.environ.get(KEY_VARIABLE) or os.environ.get("ANTHROPIC_AUTH_TOKEN")):
        raise MissingDependencyError("no API key for Claude", hint=f"set {KEY_VARIABLE}")
    return anthropic.Anthropic(max_retries=0, timeout=anthropic.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S))


def body(model: str, request: Request, *, batch: bool = False) -> dict[str, Any]:
    """The request as the Messages API takes it. What a batch caches is kept for an hour: it may take long."""
    prompt, facts = request.prompt, prices.facts(model)
    cached = {"type": "ephemeral"} | ({"ttl": "1h"} if batch else {})
    first = [
        {"type": "text", "text": prompt.context, "cache_control": cached},
        {"type": "text", "text": prompt.task},
    ]
    message: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "system": [{"type": "text", "text": prompt.system, "cache_control": cached}],
        "messages": [{"role": "user", "content": first}, *_turns(request)],
    }
    if request.history:
        message["cache_control"] = cached  # moves on with the conversation
    if request.tools:
        message["tools"] = [dict(tool) for tool in request.tools]
        message["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    if facts.adaptive:
        message["thinking"] = {"type": "adaptive"}
    elif request.max_tokens >= 2 * LEAST_THINKING:
        message["thinking"] = {"type": "enabled", "budget_tokens": request.max_tokens // 2}
    if effort := request.options.get("effort"):
        message["output_config"] = {"effort": effort}
    return message


def _turns(request: Request) -> Iterator[dict[str, Any]]:
    """The turns after the prompt, as API messages."""
    for exchange, turn in request.history:
        content = _shown_again(exchange)
        yield {"role": "assistant", "content": list(content)}
        if turn is not None:
            yield {"role": "user", "content": list(_said(turn, content))}


def _shown_again(exchange: Exchange) -> Sequence[Mapping[str, Any]]:
    """The blocks of an answer, unchanged; if it was cut off, only its complete texts."""
    content: Sequence[Mapping[str, Any]] = exchange.content
    if exchange.status is ReplyStatus.TRUNCATED:
        content = [block for block in content if block["type"] == "text" and block["text"].strip()]
    if not content and exchange.reply.strip() and exchange.form == "text":
        content = [{"type": "text", "text": exchange.reply}]
    return content or _NOTHING


def _said(turn: Turn, content: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """A user turn as message blocks: every tool call of the previous answer gets a result."""
    calls = [block["id"] for block in content if block["type"] == "tool_use"]
    for call in calls:
        ours = call == turn.call
        text = turn.text if ours else "Not run: one call at a time."
        block = {"type": "tool_result", "tool_use_id": call, "content": text}
        yield block | ({"is_error": True} if turn.failed or not ours else {})
    if turn.call not in calls:
        yield {"type": "text", "text": turn.text}


@dataclass
class _Reading(Reading):
    blocks: list[dict[str, Any]] = field(default_factory=list)
    tool: str | None = None  # the input of the first call, as it came
    refusal: str = ""
    _input: list[str] = field(default_factory=list)

    def take(self, event: Any) -> None:
        """Process one event of the stream; unknown kinds (pings) are ignored."""
        kind = getattr(event, "type", None)
        if kind == "message_start":
            self.usage = _usage(event.message.usage)
        elif kind == "content_block_start":
            self.blocks.append(event.content_block.to_dict(mode="json"))
            self._input = []
            self.now = _DOING.get(self.blocks[-1]["type"], self.blocks[-1].get("name", ""))
        elif kind == "content_block_delta":
            self._add(event.delta)
        elif kind == "content_block_stop" and self.blocks[-1]["type"] == "tool_use":
            self._end_call("".join(self._input))
        elif kind == "message_delta":
            self.stop_reason = event.delta.stop_reason
            self.refusal = _refusal(event.delta)
            self.usage = _usage(event.usage, self.usage)

    def _add(self, delta: Any) -> None:
        if delta.type == "text_delta":
            self.text.append(delta.text)
        elif delta.type == "input_json_delta":
            self._input.append(delta.partial_json)
        name = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}.get(
            delta.type
        )
        if name is not None:
            self.blocks[-1][name] = self.blocks[-1].get(name, "") + getattr(delta, name)

    def _end_call(self, text: str) -> None:
        """End a tool call; drop it if its input was cut off, since the server would reject it later."""
        if self.tool is None:
            self.tool = text or "{}"
        try:
            self.blocks[-1]["input"] = json.loads(text or "{}")
        except (ValueError, RecursionError):
            del self.blocks[-1]

    def exchange(self) -> Exchange | None:
        """The input of the first tool call, or the text; and all blocks, for the next turn."""
        if self.stop_reason is None or self.usage is None:
            return None
        text = "".join(self.text)
        return _exchange(text, self.tool, self.stop_reason, self.usage, self.refusal, self.blocks)


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


def exchange_of(message: Any) -> Exchange:
    """The exchange of a message that was not streamed, in the same form as of one that was."""
    text = "".join(block.text for block in message.content if block.type == "text")
    tools = [block.input for block in message.content if block.type == "tool_use"]
    tool = codec.canonical_json(tools[0]).decode() if tools else None
    blocks = [block.to_dict(mode="json") for block in message.content]
    return _exchange(text, tool, message.stop_reason, _usage(message.usage), _refusal(message), blocks)


def _exchange(
    text: str,
    tool: str | None,
    stop_reason: str | None,
    usage: Usage,
    refusal: str,
    blocks: Sequence[Mapping[str, Any]],
) -> Exchange:
    """The answer in a message is the input of its first tool call, else the text."""
    return Exchange(
        _STATUS.get(stop_reason or "", ReplyStatus.ANSWERED),
        reply=text if tool is None else tool,
        form="text" if tool is None else "tool",
        usage=usage,
        stop_reason=stop_reason,
        detail=refusal,
        content=_whole(blocks),
    )


def _whole(blocks: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Blocks as they are saved: lone surrogates, which UTF-8 cannot encode, are replaced.

    Calls with an input nested deeper than `MOST_LEVELS` are dropped, since records are written recursively.
    """
    blocks = [block for block in blocks if block["type"] != "tool_use" or _flat(block["input"])]
    text = json.dumps(blocks, ensure_ascii=False).encode("utf-8", "replace").decode()
    return tuple(json.loads(text))


def _flat(data: Any) -> bool:
    """Whether data has at most `MOST_LEVELS` levels."""
    level = [data]
    for _ in range(MOST_LEVELS):
        inner = [
            part.values() if isinstance(part, dict) else part
            for part in level
            if isinstance(part, dict | list)
        ]
        level = [element for parts in inner for element in parts]
    return not any(isinstance(part, dict | list) for part in level)


def _refusal(ended: Any) -> str:
    """The policy that a refusal names; empty if it names none."""
    details = getattr(ended, "stop_details", None)
    return getattr(details, "category", None) or ""


def _usage(counted: Any, before: Usage | None = None) -> Usage:
    """The tokens that the server counted; missing numbers are taken from `before`."""
    read = {
        "input_tokens": getattr(counted, "input_tokens", None),
        "output_tokens": getattr(counted, "output_tokens", None),
        "cache_write_tokens": getattr(counted, "cache_creation_input_tokens", None),
        "cache_read_tokens": getattr(counted, "cache_read_input_tokens", None),
    }
    known = {name: value for name, value in read.items() if value is not None}
    return replace(before or Usage(0, 0), **known)
