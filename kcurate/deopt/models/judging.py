"""The judge as searches see it: a candidate in, a verdict out, from any thread.

Owns a few warm judges, opened when needed; the decision is `kcurate.judge`'s alone.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence

from kcurate import backends
from kcurate.judge import pool
from kcurate.judge.judge import Judge, JudgeConfig
from kcurate.records import Candidate, Verdict


class Judges:
    """At most `jobs` judges (0: as suits the machine), spread over GPUs. Call `close` at the end.

    Opening it proves that this machine can judge, before anything is paid for.

    Raises:
        InputError: no such backend. MissingDependencyError: it is not to be had here.
    """

    def __init__(self, backend: str, *, gpus: Sequence[int] = (0,), jobs: int = 0) -> None:
        self.backend = backends.resolve(backend)
        self._gpus = tuple(gpus)
        self._all = [self._open(0)]
        self._idle: queue.SimpleQueue[Judge] = queue.SimpleQueue()
        self._idle.put(self._all[0])
        self._room = (jobs or pool.default_jobs(self.backend, len(self._gpus))) - 1
        self._lock = threading.Lock()
        self.device = self._all[0].environment().device

    def __call__(self, candidate: Candidate) -> Verdict:
        """Judge one candidate; waits for a judge if all are busy."""
        judge = self._take()
        try:
            return judge.judge(candidate)
        finally:
            self._idle.put(judge)

    def _take(self) -> Judge:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            pass
        with self._lock:
            if self._room > 0:
                self._room -= 1
                opened = self._open(len(self._all))
                self._all.append(opened)
                return opened
        return self._idle.get()

    def _open(self, number: int) -> Judge:
        return Judge(JudgeConfig(backend=self.backend, gpu=self._gpus[number % len(self._gpus)]))

    def close(self) -> None:
        """End all judges."""
        for judge in self._all:
            judge.close()
