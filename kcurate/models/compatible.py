"""Chat-completion servers (vLLM, Ollama, llama.cpp, OpenAI itself) through the official `openai` client.

Answers come as text in the form that models are trained on here (`kcurate.prompts.replies`), since few of
these servers can be made to call a tool.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from kcurate.errors import MissingDependencyError
from kcurate.models.client import Request
from kcurate.models.streamed import Reading, StreamedClient, sdk
from kcurate.prompts import chat
from kcurate.prompts.replies import Form
from kcurate.records import Exchange, ReplyStatus, Usage

KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
HOST = "api.openai.com"
_OPTIONS = {"effort": "reasoning_effort"}
# A local server may be loading the model, or think long before its first token.
TIMEOUT_S = 600.0
CONNECT_TIMEOUT_S = 15.0


@dataclass
class _Reading(Reading):
    refused: bool = False

    def take(self, chunk: Any) -> None:
        """One chunk of the stream."""
        if chunk.usage is not None:
            self.usage = _usage(chunk.usage)
        for choice in chunk.choices[:1]:
            self.stop_reason = choice.finish_reason or self.stop_reason
            if choice.delta is not None:
                self.text.append(choice.delta.content or "")
                self.refused = self.refused or bool(choice.delta.refusal)

    def exchange(self) -> Exchange | None:
        """The text, whole or cut off."""
        if self.stop_reason is None:
            return None
        status = ReplyStatus.TRUNCATED if self.stop_reason == "length" else ReplyStatus.ANSWERED
        if self.refused or self.stop_reason == "content_filter":
            status = ReplyStatus.REFUSAL
        return Exchange(status, reply="".join(self.text), usage=self.usage, stop_reason=self.stop_reason)


class CompatibleClient(StreamedClient):
    """One model of one chat-completion server. Thread-safe."""

    form: Form = "text"
    reading, key, id_header = _Reading, KEY_VARIABLE, "x-request-id"
    garbled = (*StreamedClient.garbled, TypeError)

    def __init__(self, model: str, base_url: str | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        openai = sdk("openai")
        base_url = base_url or os.environ.get(URL_VARIABLE) or None
        key = os.environ.get(KEY_VARIABLE)
        if not key and (base_url is None or HOST in base_url):
            raise MissingDependencyError("no API key for OpenAI", hint=f"set {KEY_VARIABLE}")
        api = openai.OpenAI(
            api_key=key or "none",  # a server of one's own asks for no key, the client for a word
            base_url=base_url,
            max_retries=0,
            timeout=openai.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
        )
        super().__init__(model, openai, api, openai.OpenAIError)

    def open_stream(self, request: Request) -> Any:
        """The chunks of a completion."""
        limit = "max_completion_tokens" if HOST in self.where else "max_tokens"
        return self.api.chat.completions.create(
            model=self.model,
            messages=[*chat(request.prompt), *request.turns()],
            stream=True,
            stream_options={"include_usage": True},
            **{limit: request.max_tokens},
            **{_OPTIONS.get(name, name): value for name, value in request.options.items()},
        )

    def said(self, error: Any) -> tuple[str | None, str]:
        """The message; the types differ from server to server."""
        return None, str(getattr(error, "message", error))


def _usage(counted: Any) -> Usage:
    """The tokens that the server counted; those read from its cache are counted apart."""
    details = getattr(counted, "prompt_tokens_details", None)
    cached = (getattr(details, "cached_tokens", None) or 0) if details is not None else 0
    prompt = counted.prompt_tokens or 0
    return Usage(max(0, prompt - cached), counted.completion_tokens or 0, cache_read_tokens=cached)
