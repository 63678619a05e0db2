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
from kcurate.records import Exchange, Prompt, Transcript


def request_key(
    model: str,
    prompt: Prompt,
    sample: int,
    max_tokens: int | None,
    sampling: Mapping[str, float] | None = None,
) -> str:
    """The hash of everything that determines what a server is asked."""
    parts = [model, prompt.system, prompt.context, prompt.task, str(sample), str(max_tokens)]
    if sampling:
        parts.append(str(sorted(sampling.items())))
    return store.content_id("request", *parts)


def utc_now() -> str:
    """The current time, ISO 8601, in seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Transcripts:
    """The saved exchanges with one model. Thread-safe."""

    def __init__(self, path: Path, model: str) -> None:
        self.path = path
        self.model = model
        self._lock = threading.Lock()
        self._known: dict[str, Transcript] = {}
        for line in store.read_jsonl(path, Transcript):
            if line.exchange.status.final:
                self._known[line.key] = line

    def find(self, key: str) -> Exchange | None:
        """The finished exchange under a key."""
        found = self._known.get(key)
        return found.exchange if found else None

    def add(self, key: str, prompt: Prompt, sample: int, max_tokens: int | None, exchange: Exchange) -> None:
        """Save an exchange; it is on disk when this returns.

        Raises:
            InputError: the file cannot be written.
        """
        line = Transcript(key, self.model, prompt, exchange, utc_now(), sample, max_tokens)
        with self._lock:
            store.append_jsonl(self.path, line)
            if exchange.status.final:
                self._known[key] = line
