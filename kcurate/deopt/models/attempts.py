"""The outcome of every answer, one per line in `attempts/<model>.jsonl`; the last line with an id counts."""

from __future__ import annotations

import threading
from pathlib import Path

from kcurate.core import store
from kcurate.records import Attempt


class Attempts:
    """The saved attempts of one model. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._known = {attempt.id: attempt for attempt in store.read_jsonl(path, Attempt)}

    def find(self, attempt_id: str) -> Attempt | None:
        """The attempt of an earlier run, if any."""
        return self._known.get(attempt_id)

    def add(self, attempt: Attempt) -> None:
        """Save an attempt; it is on disk when this returns.

        Raises:
            InputError: the file cannot be written.
        """
        with self._lock:
            if self._known.get(attempt.id) != attempt:
                store.append_jsonl(self.path, attempt)
                self._known[attempt.id] = attempt
