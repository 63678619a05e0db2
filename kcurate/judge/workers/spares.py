"""The pool of run workers of one judge: warm spares, one primed spare, and workers of recent references.

Only the workers of pairs that kcurate ships, and of candidates that the caller vouches for, serve further
candidates, emptied, as long as all goes well; a candidate that fails in such a worker is judged again in
unused ones. Every other candidate gets unused workers. A reference's worker is kept, with its side, for
further candidates with the same reference. Ending the last candidate's workers, opening the device, loading
our timing kernels and generating the timed inputs all happen while the compilers work. The first three wait
for others' timings: a context that is opened or closed takes time from the kernel that runs. Not covered:
what a worker does with a side (`kcurate.judge.workers.side_proxy`).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from kcurate.backends.base import Compiled
from kcurate.core import resources, store, time_limits
from kcurate.errors import BackendError, KcurateError
from kcurate.judge.gpu_lock import GpuLock, lock_name
from kcurate.judge.workers import compiling
from kcurate.judge.workers.messages import pack_compiled
from kcurate.judge.workers.nursery import Nursery, Role, Worker
from kcurate.judge.workers.requests import Generate
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.judge.workers.timing_requests import Helpers
from kcurate.records import Candidate, Environment
from kcurate.records.pair import SideName, other_side
from kcurate.verdicts.keys import verdict_key

# A context takes some hundred megabytes, so a GPU with less memory than this gets fewer workers.
LARGE_GPU_BYTES = 60 << 30
# References whose workers are kept, on a large GPU and on others.
KEPT_REFERENCES = (2, 1)
# Spares on a GPU that is not large.
FEW_SPARES = 2


class RunWorkerPool:
    """The run workers of one judge. Not thread safe; call `close` at the end.

    Raises:
        MissingDependencyError: there is no such device. BackendError: the first worker did not start.
    """

    def __init__(
        self, nursery: Nursery, role: Role, spares: int, vouched: frozenset[str] = frozenset()
    ) -> None:
        self._vouched = vouched
        self._timeout_s = time_limits.RUN_S[role.backend]
        self._role = role
        self._nursery = nursery
        self._speaking: dict[str, WarmWorkers] = {}
        self._helpers: Compiled | None = None
        self._references: dict[str, SideProxy] = {}
        self._primed: SideProxy | None = None
        self._thread = ThreadPoolExecutor(1)
        self._work: Future[Any] | None = None
        self._priming: Future[None] | None = None
        self._ended: list[Worker] = []
        self._emptied: list[SideProxy] = []
        self._asked: tuple[Candidate, bool] | None = None
        self._spares = WarmWorkers(nursery, role, 1)
        greeting = self._spares.first().ready()
        assert greeting.environment is not None, "a run worker names its device"
        self.environment: Environment = greeting.environment
        self.arch: str | None = greeting.arch
        self.lock = GpuLock(lock_name(self.environment))
        large = int(self.environment.details.get("memory_bytes") or 0) >= LARGE_GPU_BYTES
        self._kept = KEPT_REFERENCES[0 if large else 1] if role.backend == "cuda" else 0
        self._spares.resize(spares if large or role.backend != "cuda" else min(spares, FEW_SPARES))

    def close(self) -> None:
        """End all workers."""
        self._thread.shutdown()
        self.start_afresh()
        if self._primed is not None:
            self._primed.worker.kill()
        self._end()
        self.lock.close()
        self._spares.close()
        for spares in self._speaking.values():
            spares.close()

    def refill(self) -> None:
        """End released workers and replace missing spares in the background.

        A failure to start one is raised by the next `take`. Call it between candidates.
        """
        self._work = self._thread.submit(self._refill)

    def _refill(self) -> None:
        with self.lock.shared():
            for proxy in self._emptied:
                if proxy.clear_for_reuse(unload=True):
                    proxy.worker.used = True
                    self._ended += self._spares.give(proxy.worker)
            self._emptied.clear()
            self._end()
            with contextlib.suppress(BackendError):
                self._spares.refill()
                for spares in self._speaking.values():
                    spares.refill()
            if self._helpers is not None:
                self._prime_spare()

    def _end(self) -> None:
        for worker in [*self._ended, *(proxy.worker for proxy in self._emptied)]:
            worker.kill()
        self._ended.clear()
        self._emptied.clear()

    def prime(self, candidate: Candidate, reference: SideName, inputs: Sequence[Generate]) -> Future[None]:
        """Prepare both workers of a candidate in the background, up to the timed `inputs`.

        Wait for the result before `take`; a candidate that is rejected before it runs need not wait.
        """
        if self._priming is not None:
            self._priming.cancel()  # for a candidate that was rejected before it ran
        self._priming = self._thread.submit(self._prime, candidate, reference, inputs)
        self._work = self._priming
        return self._priming

    def _prime(self, candidate: Candidate, reference: SideName, inputs: Sequence[Generate]) -> None:
        kept = self._references.get(store.side_key(candidate, reference))
        if kept is not None and kept.worker.alive:
            dataclasses.replace(kept, side=reference).prefetch(candidate, inputs)
        unused = not self.shares(candidate)
        with contextlib.nullcontext() if self._suiting_primed(unused) else self.lock.shared():
            primed = self._prime_spare(unused)
        primed.side = other_side(reference)
        primed.prefetch(candidate, inputs)

    def shares(self, candidate: Candidate) -> bool:
        """Whether a candidate's workers may have served others, and may serve others after it."""
        if self._asked is None or self._asked[0] is not candidate:
            ours = is_shipped(candidate) or verdict_key(candidate) in self._vouched
            self._asked = (candidate, ours)
        return self._asked[1]

    def _suiting_primed(self, unused: bool) -> SideProxy | None:
        """The primed spare, if it is alive, and `unused` where it must be."""
        primed = self._primed
        suits = primed is not None and primed.worker.alive and not (unused and primed.worker.used)
        return primed if suits else None

    def _prime_spare(self, unused: bool = False) -> SideProxy:
        """A spare that has loaded our timing kernels."""
        primed = self._suiting_primed(unused)
        if primed is None:
            if self._primed is not None and self._primed.worker.alive:
                self._ended += self._spares.give(self._primed.worker)
            primed = self._primed = SideProxy("fast", self._spares.take(unused=unused), self._timeout_s)
        if self._helpers is not None:
            self.load_helpers(primed)
        return primed

    def take(self, candidate: Candidate, reference: SideName) -> dict[SideName, SideProxy]:
        """A worker for the side on trial, and for the reference a kept one or another."""
        trial = self._empty(candidate, other_side(reference), primed=True)
        try:
            kept = self.reference(candidate, reference)
            for proxy in (trial, kept):
                proxy.wait_for_prefetched()
        except BaseException:
            trial.worker.kill()
            raise
        return {"slow": kept, "fast": trial} if reference == "slow" else {"slow": trial, "fast": kept}

    def reference(self, candidate: Candidate, side: SideName) -> SideProxy:
        """A kept worker of a reference, or one that holds no side."""
        key = store.side_key(candidate, side)
        kept = self._references.pop(key, None)
        if kept is not None and kept.worker.used and not self.shares(candidate):
            self._give_up(kept)
            kept = None
        if kept is None or not kept.worker.alive:
            kept = self._empty(candidate, side)
        return dataclasses.replace(kept, side=side, key=key)

    def _empty(self, candidate: Candidate, side: SideName, *, primed: bool = False) -> SideProxy:
        """A worker that holds no side, and has never held one unless the candidate `shares` workers.

        It has imported torch for a side in PyTorch, Triton for one to interpret.
        """
        language = getattr(candidate, side).language
        if language == "cuda" or (language == "triton" and self._role.backend == "cuda"):
            return self.fresh(side, primed=primed, unused=not self.shares(candidate))
        return self._fresh_speaking(side, language)

    def _fresh_speaking(self, side: SideName, language: str) -> SideProxy:
        """An unused worker forked from a nursery that has imported what the language needs."""
        self._wait_for_work()
        if language not in self._speaking:  # importing takes seconds
            self._speaking[language] = WarmWorkers(self._nursery.speaking(language), self._role, 1)
        return SideProxy(side, self._speaking[language].take(), self._timeout_s)

    def fresh(self, side: SideName, *, primed: bool = False, unused: bool = True) -> SideProxy:
        """A worker that holds no side; `unused`: that has never held one."""
        self._wait_for_work()
        if primed and (ready := self._suiting_primed(unused)) is not None:
            self._primed = None
            return dataclasses.replace(ready, side=side)
        return SideProxy(side, self._spares.take(unused=unused), self._timeout_s)

    def _wait_for_work(self) -> None:
        """One thread at a time takes from the spares, and speaks with a nursery."""
        if self._work is not None:
            wait([self._work])

    def release(self, sides: Mapping[SideName, SideProxy], keep: SideName | None) -> None:
        """Give the workers up, except a GPU's `keep`, which is kept for further candidates.

        Those of sides that are `shipped` are emptied by the next `refill`.
        """
        for side, proxy in sides.items():
            if side == keep and proxy.key and self._kept and proxy.clear_for_reuse():
                self._references[proxy.key] = proxy
                while len(self._references) > self._kept:
                    self._give_up(self._references.pop(next(iter(self._references))))
            else:
                self._give_up(proxy)

    def _give_up(self, proxy: SideProxy) -> None:
        if proxy.shipped and proxy.worker.alive and proxy.worker.helped:
            self._emptied.append(proxy)
        else:
            self._ended.append(proxy.worker)

    def start_afresh(self) -> None:
        """Kill the workers of recent references, and the spares that have been used."""
        self._wait_for_work()
        for proxy in self._references.values():
            proxy.worker.kill()
        self._references.clear()
        if self._primed is not None and self._primed.worker.used:
            self._primed.worker.kill()
        self._spares.kill_used()

    def load_helpers(self, proxy: SideProxy) -> None:
        """Load our own kernels into a worker, unless it has them."""
        if not proxy.worker.helped:
            assert self._helpers is not None, "compiled first"
            described, blobs = pack_compiled(self._helpers)
            proxy.call(Helpers(described), blobs)
            proxy.worker.helped = True

    def compile_helpers(self, compilers: compiling.CompileWorkers) -> None:
        """Compile our timing kernels once.

        Raises:
            BackendError: they do not compile.
        """
        if self._helpers is None:
            self._helpers = compiling.our_kernels(compilers)


def is_shipped(candidate: Candidate) -> bool:
    """Whether kcurate ships this very pair; what its record says of its origin is no proof."""
    root = resources.pairs_dir().resolve()
    folder = (root / candidate.id).resolve()
    if candidate.origin.kind != "curated" or not folder.is_relative_to(root):
        return False
    try:
        return verdict_key(store.read_candidate(folder)) == verdict_key(candidate)
    except KcurateError:
        return False


class WarmWorkers:
    """Workers of one role that hold no side and have opened their device, once `refill` has returned."""

    def __init__(self, nursery: Nursery, role: Role, count: int) -> None:
        self._nursery = nursery
        self._role = role
        self._count = count
        self._idle = [nursery.fork(role) for _ in range(count)]

    def resize(self, count: int) -> None:
        """Keep `count` workers from now on; the missing ones start now."""
        self._count = count
        self._start()

    def _start(self) -> None:
        while len(self._idle) < self._count:
            self._idle.append(self._nursery.fork(self._role))

    def first(self) -> Worker:
        """The worker that `take` will return next."""
        return self._idle[0]

    def take(self, *, unused: bool = False) -> Worker:
        """A worker, ready; `unused`: that has never held a side."""
        suiting = (worker for worker in self._idle if not (unused and worker.used))
        worker = next(suiting, None) or self._nursery.fork(self._role)
        self._idle = [idle for idle in self._idle if idle is not worker]
        worker.ready()
        return worker

    def give(self, worker: Worker) -> list[Worker]:
        """Take an emptied worker back; which are now too many."""
        self._idle.insert(0, worker)
        surplus = self._idle[self._count :]
        del self._idle[self._count :]
        return surplus

    def kill_used(self) -> None:
        """Kill the workers that have held a side."""
        for worker in self._idle:
            if worker.used:
                worker.kill()
        self._idle = [worker for worker in self._idle if worker.alive]

    def refill(self) -> None:
        """Start the missing workers, and wait for them."""
        self._start()
        for worker in self._idle:
            worker.ready()

    def close(self) -> None:
        """Kill the unused workers."""
        for worker in self._idle:
            worker.kill()
        self._idle.clear()
