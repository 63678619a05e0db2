"""Every exchange with a model, one line each in `transcripts/<model>.jsonl`, found again by its key.

A line is on disk before its answer is used, so no answer is paid for twice, whenever the run is killed.
Interrupted exchanges stay in the file (they cost money) and are requested again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from kcurate.core import store
from kcurate.models.client import History, Request
from kcurate.records import Exchange, Prompt, Transcript, Turn


def request_key(
    model: str,
    prompt: Prompt,
    sample: int,
    max_tokens: int | None,
    options: Mapping[str, float | str] | None = None,
) -> str:
    """The hash of everything that determines what a server is asked."""
    parts = [model, prompt.system, prompt.context, prompt.task, str(sample), str(max_tokens)]
    if options:
        parts.append(str(sorted(options.items())))
    return store.content_id("request", *parts)


def next_key(after: str, sample: int, said: str) -> str:
    """The key of the exchange that follows `after` in a conversation.

    `said` is what was said in between, or where a tool was called the id of the call: what a tool finds, such
    as a time, may differ from run to run, and what it found first is replayed.
    """
    return store.content_id("turn", after, str(sample), said)


def utc_now() -> str:
    """The current time, ISO 8601, in seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Transcripts:
    """The saved exchanges with one model. Thread-safe."""

    def __init__(self, path: Path, model: str) -> None:
        self.path = path
        self.model = model
        self._lock = threading.Lock()
        self._known: dict[str, Transcript] = {}  # by key
        for line in store.read_jsonl(path, Transcript):
            if line.exchange.status.final:
                self._known[line.key] = line

    def find(self, key: str) -> Exchange | None:
        """The finished exchange under a key."""
        transcript = self._known.get(key)
        return transcript.exchange if transcript else None

    def turn(self, key: str) -> Turn | None:
        """What was said before the finished exchange under a key."""
        transcript = self._known.get(key)
        return transcript.turn if transcript else None

    def history(self, key: str) -> tuple[Prompt, History]:
        """The conversation before the finished exchange under a key: its prompt, and all exchanges so far.

        Raises:
            KeyError: it, or one before it, is not on file.
        """
        line, history = self._known[key], list[tuple[Exchange, Turn | None]]()
        while line.after is not None:
            said, line = line.turn, self._known[line.after]
            history.append((line.exchange, said))
        return line.prompt, tuple(reversed(history))

    def add(self, request: Request, exchange: Exchange) -> None:
        """Save an exchange; it is on disk when this returns.

        Raises:
            InputError: the file cannot be written.
        """
        line = Transcript(
            request.key, self.model, request.prompt, exchange, utc_now(), request.sample, request.max_tokens,
            request.after, request.turn,
        )  # fmt: skip
        with self._lock:
            store.append_jsonl(self.path, line)
            if exchange.status.final:
                self._known[request.key] = line
