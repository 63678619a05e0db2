"""The run workers of one judge: warm spares, one made ready while others compile, references that stay.

A candidate's side gets a worker that nobody has used; a reference's worker may stay for further candidates
against the same reference. What can be done before a binary is there (opening the device, loading our
timing kernels, making the inputs of the timed runs) is done while the compilers work. Not covered: what
a worker is asked to do with a side (`kcurate.judge.workers.side_proxy`, `kcurate.judge.verifying`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from kcurate import codec, store, time_limits
from kcurate.backends.base import Compiled, CompileFailure
from kcurate.errors import BackendError
from kcurate.judge.gpu_lock import GpuLock, lock_name
from kcurate.judge.workers import compiling
from kcurate.judge.workers.messages import Compile, Generate, Helpers, pack_compiled
from kcurate.judge.workers.nursery import Nursery, Role, Spares
from kcurate.judge.workers.side_proxy import RunningSide
from kcurate.records import Candidate, Environment
from kcurate.records.pair import SideName, other_side

# A GPU context takes some hundred megabytes; a GPU with less memory than this gets fewer of them.
LARGE_GPU_BYTES = 60 << 30
# References whose workers stay, on a large GPU and on others.
KEPT_REFERENCES = (4, 1)
# Spares on a GPU that is not large.
FEW_SPARES = 2


class Stock:
    """Workers of one role. Not thread safe; `close` it.

    Raises:
        MissingDependencyError: the device is not there. BackendError: its worker broke.
    """

    def __init__(self, nursery: Nursery, role: Role, spares: int) -> None:
        self._timeout_s = time_limits.RUN_S[role.backend]
        self._role = role
        self._python: tuple[Nursery, Spares] | None = None
        self._helpers: Compiled | None = None
        self._references: dict[str, RunningSide] = {}
        self._primed: RunningSide | None = None
        self._thread = ThreadPoolExecutor(1)
        self._work: Future[Any] | None = None
        self._priming: Future[None] | None = None
        self._spares = Spares(nursery, role, 1)
        greeting = self._spares.first().ready()
        assert greeting.environment is not None, "a run worker says where it is"
        self.environment: Environment = greeting.environment
        self._lock = GpuLock(lock_name(self.environment))
        self.arch: str | None = greeting.arch
        large = int(self.environment.details.get("memory_bytes") or 0) >= LARGE_GPU_BYTES
        self._kept = KEPT_REFERENCES[0 if large else 1] if role.backend == "cuda" else 0
        self._spares.resize(spares if large or role.backend != "cuda" else min(spares, FEW_SPARES))

    def close(self) -> None:
        """End all workers."""
        self._thread.shutdown()
        for running in (*self._references.values(), *([self._primed] if self._primed else [])):
            running.worker.kill()
        self._spares.close()
        self._lock.close()
        if self._python is not None:
            self._python[1].close()
            self._python[0].close()

    def refill(self) -> None:
        """Order what is missing; not while times are taken, which opening a device would disturb.

        Done in the thread that primes, which may still be at the last candidate's workers. When nobody can
        start workers any more, whoever needs the next one is told.
        """
        self._work = self._thread.submit(self._refill)

    def _refill(self) -> None:
        with contextlib.suppress(BackendError):
            self._spares.refill()
            if self._python is not None:
                self._python[1].refill()
        if self._helpers is not None:
            self._prime_spare()

    def prime(self, candidate: Candidate, reference: SideName, inputs: Sequence[Generate]) -> Future[None]:
        """Start getting both workers ready that the candidate will need, in a thread of ours.

        `inputs` are the requests for inputs that need no binary. Wait for the answer before workers are
        taken; a candidate that needs none any more need not wait.
        """
        if self._priming is not None:
            self._priming.cancel()  # of a candidate that never came to run
        self._priming = self._thread.submit(self._prime, candidate, reference, inputs)
        self._work = self._priming
        return self._priming

    def _prime(self, candidate: Candidate, reference: SideName, inputs: Sequence[Generate]) -> None:
        made = other_side(reference)
        kept = self._references.get(side_key(candidate, reference))
        if kept is not None and kept.worker.alive:
            dataclasses.replace(kept, side=reference).prefetch(candidate, inputs)
        primed = self._prime_spare()
        primed.side = made
        primed.prefetch(candidate, inputs)

    def _prime_spare(self) -> RunningSide:
        """A spare with our timing kernels in it."""
        if self._primed is None or not self._primed.worker.alive:
            self._primed = RunningSide("fast", self._spares.take(), self._timeout_s)
        if self._helpers is not None and not self._primed.helped:
            with self._lock.shared():
                self.give_helpers(self._primed)
            self._primed.helped = True
        return self._primed

    def take(self, candidate: Candidate, reference: SideName) -> dict[SideName, RunningSide]:
        """A fresh worker for the side on trial; the reference's may have served the same reference before."""
        made = other_side(reference)
        trial = self.fresh(made, primed=True)
        try:
            kept = self._reference(candidate, reference)
            for running in (trial, kept):
                running.settle()
        except BaseException:
            trial.worker.kill()
            raise
        return {"slow": kept, "fast": trial} if reference == "slow" else {"slow": trial, "fast": kept}

    def _reference(self, candidate: Candidate, side: SideName) -> RunningSide:
        key = side_key(candidate, side)
        kept = self._references.pop(key, None)
        if kept is None or not kept.worker.alive:
            python = getattr(candidate, side).language == "torch"
            kept = self._fresh_python(side) if python else self.fresh(side)
        return dataclasses.replace(kept, side=side, key=key)

    def fresh(self, side: SideName, *, primed: bool = False) -> RunningSide:
        """A worker that has run nothing."""
        if self._work is not None:  # one thread at a time takes from the stock
            wait([self._work])
        if primed and self._primed is not None:
            ready, self._primed = self._primed, None
            if ready.worker.alive:
                return dataclasses.replace(ready, side=side)
        return RunningSide(side, self._spares.take(), self._timeout_s)

    def _fresh_python(self, side: SideName) -> RunningSide:
        """A worker whose process had imported torch, which takes seconds, before it was forked."""
        if self._python is None:
            nursery = Nursery(self._role.backend, "torch")
            self._python = (nursery, Spares(nursery, self._role, 1))
        return RunningSide(side, self._python[1].take(), self._timeout_s)

    def release(self, sides: Mapping[SideName, RunningSide], keep: SideName | None) -> None:
        """End the workers, but for a GPU's reference that stays for other candidates against it."""
        for side, running in sides.items():
            if side == keep and running.key and self._kept and running.rest():
                self._references[running.key] = running
                while len(self._references) > self._kept:
                    self._references.pop(next(iter(self._references))).worker.kill()
            else:
                running.worker.kill()

    def give_helpers(self, running: RunningSide) -> None:
        """Load our timing kernels into a worker, with a fresh salt for its sums; done already when primed."""
        if running.helped:
            running.helped = False
            return
        assert self._helpers is not None, "compiled first"
        described, blobs = pack_compiled(self._helpers)
        running.call(Helpers(described, secrets.randbits(62)), blobs)

    def compile_helpers(self, compilers: compiling.CompileWorkers) -> None:
        """Compile our timing kernels, once.

        Raises:
            BackendError: they do not compile.
        """
        if self._helpers is not None:
            return
        from kcurate.backends.cuda import bench

        made = compilers.compile([Compile(bench.HELPERS, bench.HELPER_ENTRIES, ())])[0]
        if isinstance(made, CompileFailure):
            raise BackendError(f"our own timing kernels do not compile: {made.log}")
        self._helpers = made


def side_key(candidate: Candidate, side: SideName) -> str:
    """What tells one reference from another: its problem, code and plan."""
    data = codec.to_data((candidate.problem, getattr(candidate, side)))
    return store.content_id(json.dumps(data, sort_keys=True))
