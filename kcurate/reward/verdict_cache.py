"""A cache of verdicts, keyed by problem, slow side, and the completion's normalised code and launch.

Memory holds the most recently used verdicts. The file, if there is one, holds all final ones, so that a
resumed run judges nothing twice; verdicts of other devices in it are ignored. Thread-safe. Not covered:
requesting verdicts (`reward.pool`).
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from kcurate.core import codec, store
from kcurate.cuda_source import normalise
from kcurate.records import Candidate, Environment, SideReport, Verdict
from kcurate.verdicts.keys import PROTOCOL

_BLANKS = re.compile(r"[ \t]+")
# Longest compiler log in a line of the file.
MAX_LOG_CHARS = 2000


def answer_key(candidate: Candidate, device: str, *, timed: bool) -> str:
    """The cache key of a completion; comments, spaces and line-end style do not change it.

    Line breaks change it (they end preprocessor lines), and so do names (some have a meaning).
    """
    plain = normalise(candidate.fast.code.encode("utf-8", "replace")).decode("utf-8", "replace")
    code = "\n".join(_BLANKS.sub(" ", line).strip() for line in plain.splitlines())
    side = replace(candidate.fast, code=code)
    parts = (candidate.problem, candidate.slow, side)
    data = codec.canonical_json([None if part is None else codec.to_data(part) for part in parts])
    return store.content_id("answer", PROTOCOL, device, str(timed), data)


class VerdictCache:
    """At most `size` keys in memory. `close` flushes the file.

    A key has one verdict, or two if the first was audited.
    """

    def __init__(self, size: int, path: Path | None = None) -> None:
        self._size = size
        self._path = path
        self._known: OrderedDict[str, tuple[Verdict, ...]] = OrderedDict()
        self._lock = threading.Lock()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="verdicts")
        self._written: list[Future[None]] = []
        self._read = path is None

    def open(self, environment: Environment) -> None:
        """Read the file's verdicts of this device, once."""
        if self._read or self._path is None:
            return
        self._read = True
        for verdict in store.read_jsonl(self._path, Verdict):
            if verdict.environment.device == environment.device:
                self.keep(verdict.key, (*self._known.get(verdict.key, ())[:1], verdict))

    def find(self, key: str) -> tuple[Verdict, ...]:
        """The verdicts of a key: none, one, or two."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key, ())

    def keep(self, key: str, verdicts: tuple[Verdict, ...]) -> None:
        """Keep verdicts in memory."""
        with self._lock:
            self._known[key] = verdicts
            self._known.move_to_end(key)
            while len(self._known) > self._size:
                self._known.popitem(last=False)

    def add(self, key: str, verdict: Verdict) -> None:
        """Add a verdict under its key, if it is final, and write it to the file in the background.

        Raises:
            InputError: an earlier verdict could not be written.
        """
        if not verdict.outcome.final:
            return
        self.keep(key, (*self.find(key)[:1], verdict))
        if self._path is not None:
            writing = self._writer.submit(store.append_jsonl, self._path, short(verdict, key))
            with self._lock:
                written = [write for write in self._written if write.done()]
                self._written = [write for write in (*self._written, writing) if write not in written]
            for write in written:
                write.result()

    def close(self) -> None:
        """Wait for pending writes."""
        self._writer.shutdown()


def short(verdict: Verdict, key: str) -> Verdict:
    """A verdict under the completion's key, without samples, resources and readings."""
    details: Mapping[str, str | float | int | bool | None] = {}
    environment = replace(verdict.environment, details=details)
    log = None if verdict.log is None else verdict.log[:MAX_LOG_CHARS]
    slow, fast = (
        side and SideReport(binary_sha256=side.binary_sha256) for side in (verdict.slow, verdict.fast)
    )
    return replace(verdict, key=key, environment=environment, slow=slow, fast=fast, log=log, stages_s={})
