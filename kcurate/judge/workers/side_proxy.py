"""The judge's end of a run worker that holds one side; the worker's faults become rulings.

Not covered: the worker's end (`kcurate.judge.workers.inside.side_server`), comparing outputs
(`kcurate.judge.verifying`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kcurate.backends.base import Compiled, KernelFault
from kcurate.core import time_limits
from kcurate.errors import BackendError, ProblemError
from kcurate.judge.case import Ruling
from kcurate.judge.workers.messages import pack_compiled
from kcurate.judge.workers.nursery import InvalidAnswer, Worker, WorkerDied, WorkerTimeout
from kcurate.judge.workers.protocol import Blob
from kcurate.judge.workers.requests import AskEnvironment, Drop, Generate, Load, Reply, Request, Text
from kcurate.records import Candidate, Environment, Outcome
from kcurate.records.pair import SIDES, SideName

T = TypeVar("T")
A = TypeVar("A")

OUTCOMES = {
    "launch_error": Outcome.LAUNCH_ERROR,
    "timeout": Outcome.TIMEOUT,
    "out_of_bounds": Outcome.MISMATCH,
    "unsupported": Outcome.UNSUPPORTED,
    "out_of_memory": Outcome.HARNESS_ERROR,
}


def on_both_sides(action: Callable[[SideName], T]) -> dict[SideName, T]:
    """Run `action` for both sides in parallel threads; the slow side's exception takes precedence."""
    with ThreadPoolExecutor(len(SIDES)) as threads:
        jobs = {side: threads.submit(action, side) for side in SIDES}
    return {side: job.result() for side, job in jobs.items()}


@dataclass
class SideProxy:
    """One side in a worker of its own.

    `key` identifies a reference. `loaded`: its texts. `shipped`: of a pair that kcurate
    ships, and passed, so that another side may follow in its worker.
    `requested` and `prefetched` are (slot, seed) of inputs that are being and have been generated ahead.
    """

    side: SideName
    worker: Worker
    timeout_s: float
    key: str | None = None
    loaded: set[Text] = field(default_factory=set)
    shipped: bool = False
    requested: list[tuple[str, int]] = field(default_factory=list)
    prefetched: set[tuple[str, int]] = field(default_factory=set)

    def load(self, candidate: Candidate, compiled: Compiled, text: Text = "own") -> None:
        """Load the binary and the plan, unless they are loaded.

        Raises:
            Ruling: the side failed; so do the other methods.
        """
        if text in self.loaded:
            return
        assert candidate.problem is not None
        described, blobs = pack_compiled(compiled)
        side = replace(getattr(candidate, self.side), code="")
        self.call(Load(described, candidate.problem, side, text), blobs)
        self.loaded.add(text)

    def prefetch(self, candidate: Candidate, requests: Iterable[Generate]) -> None:
        """Request inputs before the side is loaded, without waiting. A dead worker is noticed later."""
        self.wait_for_prefetched()
        side = replace(getattr(candidate, self.side), code="")
        try:
            for request in requests:
                self.worker.ask(replace(request, problem=candidate.problem, side=side))
                self.requested.append((request.slot, request.seed))
        except (WorkerDied, BackendError):
            self.worker.kill()

    def wait_for_prefetched(self) -> None:
        """Wait for requested inputs. A failure is ignored here: it recurs when they are requested again."""
        for request in self.requested:
            try:
                self.wait_for_inputs()
                self.prefetched.add(request)
            except (Ruling, BackendError):
                if not self.worker.alive:
                    break
        self.requested.clear()

    def environment(self) -> Environment:
        """The device's current state."""
        return self.call(AskEnvironment()).body.environment

    def call(self, request: Request[A], blobs: Mapping[str, Blob] | None = None) -> Reply[A]:
        """Send a request and wait for the answer."""
        with self.faults_as_rulings():
            return self.worker.call(request, blobs, timeout_s=self.timeout_s)

    def ask(self, request: Request[Any]) -> None:
        """Send a request without waiting for the answer."""
        with self.faults_as_rulings():
            self.worker.ask(request)

    def answer(self, max_blob_bytes: int = 0, limit_s: float = math.inf) -> Reply[Any]:
        """Wait at most `limit_s` for the oldest answer, with arrays of at most `max_blob_bytes`."""
        with self.faults_as_rulings():
            return self.worker.answer(min(self.timeout_s, limit_s), max_blob_bytes)

    def wait_for_inputs(self) -> None:
        """Wait for requested inputs.

        Raises:
            Ruling: they cannot be made. BackendError: they took too long, which is not the side's fault.
        """
        try:
            self.worker.answer(time_limits.MAKE_INPUTS_S)
        except ProblemError as error:
            raise Ruling(Outcome.MALFORMED, str(error)) from error
        except WorkerTimeout as error:
            raise BackendError(f"generating inputs exceeded {time_limits.MAKE_INPUTS_S:.0f} s") from error
        except WorkerDied as error:
            raise BackendError("the worker died generating inputs: out of memory?") from error

    def clear_for_reuse(self, *, unload: bool = False) -> bool:
        """Free the case's memory for the next candidate; False if the worker failed and was killed.

        `unload`: the next has another side.
        """
        self.requested.clear()
        self.prefetched.clear()
        try:
            while self.worker.pending:
                self.worker.answer(self.timeout_s)
            self.worker.call(Drop(unload), timeout_s=self.timeout_s)
        except (KernelFault, WorkerTimeout, WorkerDied, BackendError, ProblemError):
            self.worker.kill()
        return self.worker.alive

    @contextlib.contextmanager
    def untrusted_answer(self) -> Iterator[None]:
        """Turn errors in reading an answer into a ruling: hostile code may make its worker send anything."""
        try:
            yield
        except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            self.worker.kill()
            raise Ruling(Outcome.LAUNCH_ERROR, "the worker sent an invalid answer", side=self.side) from error

    @contextlib.contextmanager
    def faults_as_rulings(self) -> Iterator[None]:
        """Turn a worker's failure into the ruling for this side."""
        try:
            yield
        except ProblemError as error:
            raise Ruling(Outcome.MALFORMED, str(error)) from error
        except KernelFault as fault:
            full = fault.reason == "out_of_memory"
            raise Ruling(OUTCOMES[fault.reason], fault.what, side=self.side, unexplained=full) from fault
        except WorkerTimeout as error:
            raise Ruling(Outcome.TIMEOUT, str(error), side=self.side) from error
        except InvalidAnswer as error:
            raise Ruling(Outcome.LAUNCH_ERROR, str(error), side=self.side) from error
        except WorkerDied as error:
            raise Ruling(Outcome.LAUNCH_ERROR, str(error), side=self.side, unexplained=True) from error
