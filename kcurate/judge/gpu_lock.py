"""A lock between all processes that use a GPU: shared by any number of workers, or exclusive for one timing.

Judges of different users wait for each other (`kcurate.core.lock_files`). The GPU idles while a timing waits
for the last worker to finish, so timings are batched: one waits up to `PATIENCE_S` for a moment without
workers or for a second timing; then all waiting timings run one after the other before any worker enters. Not
covered: what needs which lock (`kcurate.judge.judging`, `kcurate.judge.verifying`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections import defaultdict
from collections.abc import Iterator

from kcurate.core.lock_files import held, is_free, open_lock
from kcurate.records import Environment

# How long a timing waits before it keeps workers out, and its polling interval, in seconds.
PATIENCE_S = 0.5
LOOK_S = 0.004


class GpuLock:
    """The lock of one GPU. Not reentrant.

    `seconds`: how long it was waited for (`gpu_wait`) and held (`gpu_shared`, `gpu_alone`) so far.
    """

    def __init__(self, name: str) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        # Workers enter one by one, when no timing holds or waits for the lock.
        self._entry, self._workers, self._timings, self._turn = (
            open_lock(f"{name}-{part}") for part in ("entry", "workers", "timings", "turn")
        )

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Use the GPU together with other workers; no timing runs meanwhile."""
        asked_s = time.monotonic()
        with held(self._entry, fcntl.LOCK_EX), held(self._timings, fcntl.LOCK_EX):
            fcntl.flock(self._workers, fcntl.LOCK_SH)
        try:
            with self._counted(asked_s, "gpu_shared"):
                yield
        finally:
            fcntl.flock(self._workers, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Use the GPU alone."""
        asked_s = time.monotonic()
        until = asked_s + PATIENCE_S
        while not (is_free(self._workers) or not is_free(self._timings) or time.monotonic() > until):
            time.sleep(LOOK_S)
        with (
            held(self._timings, fcntl.LOCK_SH),
            held(self._turn, fcntl.LOCK_EX),
            held(self._workers, fcntl.LOCK_EX),
            self._counted(asked_s, "gpu_alone"),
        ):
            yield

    @contextlib.contextmanager
    def _counted(self, asked_s: float, how: str) -> Iterator[None]:
        got_s = time.monotonic()
        self.seconds["gpu_wait"] += got_s - asked_s
        try:
            yield
        finally:
            self.seconds[how] += time.monotonic() - got_s

    def close(self) -> None:
        """Close the lock files."""
        for handle in (self._entry, self._workers, self._timings, self._turn):
            os.close(handle)


def lock_name(environment: Environment) -> str:
    """The lock's name: the GPU's UUID, since processes may number the same GPUs differently."""
    return environment.device_uuid or environment.backend
