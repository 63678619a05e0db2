"""Verdicts on answers, kept: by the task's problem and side, and the answer's normalised code and launch.

In memory the most recent ones; on disk, where a file is given, all that are final, so that a resumed run
judges nothing twice. A file serves one device: verdicts of another are passed over. Safe to use from many
threads. Not covered: asking for verdicts (`reward_pool`).
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from kcurate import codec, store
from kcurate.cuda_source import normalise
from kcurate.judge import PROTOCOL
from kcurate.records import Candidate, Environment, Outcome, SideReport, Verdict

_BLANKS = re.compile(r"[ \t]+")
# What a line of the file keeps of a compiler's log.
MAX_LOG_CHARS = 2000


def answer_key(candidate: Candidate, device: str, *, timed: bool) -> str:
    """The hash of what an answer is judged by; comments, blanks and line ends do not change it.

    Line breaks count (they end a preprocessor's line), and so do names (some have a meaning).
    """
    plain = normalise(candidate.fast.code.encode("utf-8", "replace")).decode("utf-8", "replace")
    code = "\n".join(_BLANKS.sub(" ", line).strip() for line in plain.splitlines())
    side = replace(candidate.fast, code=code)
    parts = (candidate.problem, candidate.slow, side)
    data = codec.canonical_json([None if part is None else codec.to_data(part) for part in parts])
    return store.content_id("answer", PROTOCOL, device, str(timed), data)


class VerdictCache:
    """At most `size` keys in memory. Close it: what is to be written is on disk then.

    A key has one verdict, or two where the first was audited.
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
        """Read the file's verdicts of this device; once."""
        if self._read or self._path is None:
            return
        self._read = True
        for verdict in store.read_jsonl(self._path, Verdict):
            if verdict.environment.device == environment.device:
                self.keep(verdict.key, (*self._known.get(verdict.key, ())[:1], verdict))

    def find(self, key: str) -> tuple[Verdict, ...]:
        """What is known of a key: nothing, one verdict, or two."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key, ())

    def keep(self, key: str, verdicts: tuple[Verdict, ...]) -> None:
        """Put verdicts in memory."""
        with self._lock:
            self._known[key] = verdicts
            self._known.move_to_end(key)
            while len(self._known) > self._size:
                self._known.popitem(last=False)

    def add(self, key: str, verdict: Verdict) -> None:
        """Keep a new verdict beside those of its key, if it is final, and have it written down.

        Raises:
            InputError: an earlier one could not be written.
        """
        if not lasting(verdict):
            return
        self.keep(key, (*self.find(key)[:1], verdict))
        if self._path is not None:
            writing = self._writer.submit(store.append_jsonl, self._path, _short(verdict, key))
            with self._lock:
                written = [one for one in self._written if one.done()]
                self._written = [one for one in (*self._written, writing) if one not in written]
            for one in written:
                one.result()

    def close(self) -> None:
        """Wait for what is to be written."""
        self._writer.shutdown()


def lasting(verdict: Verdict) -> bool:
    """Whether a verdict may be used again; one that failed on our side, or told nothing, may not."""
    return verdict.outcome.final and verdict.outcome is not Outcome.HARNESS_ERROR


def _short(verdict: Verdict, key: str) -> Verdict:
    """A verdict without samples, resources and readings, under the answer's key."""
    details: Mapping[str, str | float | int | bool | None] = {}
    environment = replace(verdict.environment, details=details)
    log = None if verdict.log is None else verdict.log[:MAX_LOG_CHARS]
    slow, fast = (
        side and SideReport(binary_sha256=side.binary_sha256) for side in (verdict.slow, verdict.fast)
    )
    return replace(verdict, key=key, environment=environment, slow=slow, fast=fast, log=log, stages_s={})
