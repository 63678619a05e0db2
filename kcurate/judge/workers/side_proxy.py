"""The parent's half of a run worker: one side, asked to prepare, run and be timed; faults become rulings.

Not covered: what the worker does (`kcurate.judge.workers.inside.side_server`), what is compared
(`kcurate.judge.verifying`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kcurate import time_limits
from kcurate.backends.base import Compiled, KernelFault
from kcurate.errors import BackendError, ProblemError
from kcurate.judge.case import Ruling
from kcurate.judge.workers.messages import (
    AskEnvironment,
    Drop,
    Generate,
    Load,
    Reply,
    Request,
    pack_compiled,
)
from kcurate.judge.workers.nursery import Worker, WorkerDied, WorkerNonsense, WorkerTimeout
from kcurate.judge.workers.protocol import Blob
from kcurate.records import Candidate, Environment, Outcome
from kcurate.records.pair import SIDES, SideName

T = TypeVar("T")
A = TypeVar("A")

OUTCOMES = {
    "launch_error": Outcome.LAUNCH_ERROR,
    "timeout": Outcome.TIMEOUT,
    "out_of_bounds": Outcome.MISMATCH,
}


def both_sides(action: Callable[[SideName], T]) -> dict[SideName, T]:
    """Do the same with both sides' workers at once; what the slow side raises comes first."""
    with ThreadPoolExecutor(len(SIDES)) as threads:
        jobs = {side: threads.submit(action, side) for side in SIDES}
    return {side: job.result() for side, job in jobs.items()}


@dataclass
class RunningSide:
    """One side in a worker of its own."""

    side: SideName
    worker: Worker
    timeout_s: float
    key: str | None = None
    loaded: bool = False
    helped: bool = False
    asked: list[tuple[str, int]] = field(default_factory=list)
    made: set[tuple[str, int]] = field(default_factory=set)

    def load(self, candidate: Candidate, compiled: Compiled) -> None:
        """Load the binary and the plan, unless that has been done.

        Raises:
            Ruling: the side's fault, by kind; so do the other methods.
        """
        if self.loaded:
            return
        assert candidate.problem is not None
        described, blobs = pack_compiled(compiled)
        side = replace(getattr(candidate, self.side), code="")
        self.call(Load(described, candidate.problem, side), blobs)
        self.loaded = True

    def prefetch(self, candidate: Candidate, requests: Iterable[Generate]) -> None:
        """Ask for inputs before the side is loaded, and go on; `settle` waits for them.

        A worker that is gone is left to whoever needs it next.
        """
        self.settle()
        side = replace(getattr(candidate, self.side), code="")
        try:
            for request in requests:
                self.worker.ask(replace(request, problem=candidate.problem, side=side))
                self.asked.append((request.slot, request.seed))
        except (WorkerDied, BackendError):
            self.worker.kill()

    def settle(self) -> None:
        """Wait for the inputs that were asked for ahead; `made` then names them.

        What went wrong with one is found again, and said, when it is asked for in its turn.
        """
        for one in self.asked:
            try:
                self.prepared()
                self.made.add(one)
            except (Ruling, BackendError):
                if not self.worker.alive:
                    break
        self.asked.clear()

    def environment(self) -> Environment:
        """The device's state now."""
        return self.call(AskEnvironment()).body.environment

    def call(self, request: Request[A], blobs: Mapping[str, Blob] | None = None) -> Reply[A]:
        """Ask and wait."""
        with self.faults():
            return self.worker.call(request, blobs, timeout_s=self.timeout_s)

    def ask(self, request: Request[Any]) -> None:
        """Ask and go on; `answer` waits."""
        with self.faults():
            self.worker.ask(request)

    def answer(self, max_blob_bytes: int = 0, limit_s: float = math.inf) -> Reply[Any]:
        """Wait for what was asked, `limit_s` at most; more than `max_blob_bytes` of arrays is not taken."""
        with self.faults():
            return self.worker.answer(min(self.timeout_s, limit_s), max_blob_bytes)

    def prepared(self) -> None:
        """Wait for inputs that were asked for.

        Raises:
            Ruling: they cannot be made. BackendError: they took too long, which is no fault of the side.
        """
        try:
            self.worker.answer(time_limits.MAKE_INPUTS_S)
        except ProblemError as error:
            raise Ruling(Outcome.MALFORMED, str(error)) from error
        except WorkerTimeout as error:
            raise BackendError(f"inputs were not made within {time_limits.MAKE_INPUTS_S:.0f} s") from error
        except WorkerDied as error:
            raise BackendError("the process that makes inputs died: out of memory?") from error

    def rest(self) -> bool:
        """Forget the case, so that this side can be used for another; False: the worker is of no use."""
        self.asked.clear()
        self.made.clear()
        try:
            while self.worker.pending:
                self.worker.answer(self.timeout_s)
            self.worker.call(Drop(), timeout_s=self.timeout_s)
        except (KernelFault, WorkerTimeout, WorkerDied, BackendError, ProblemError):
            self.worker.kill()
        return self.worker.alive

    @contextlib.contextmanager
    def sense(self) -> Iterator[None]:
        """Reading what a worker sent: a process that code of the candidate took over may send anything."""
        try:
            yield
        except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            self.worker.kill()
            raise Ruling(
                Outcome.LAUNCH_ERROR, "the worker's answer makes no sense", side=self.side
            ) from error

    @contextlib.contextmanager
    def faults(self) -> Iterator[None]:
        """Turn what a worker can suffer into the ruling that it means for this side."""
        try:
            yield
        except ProblemError as error:
            raise Ruling(Outcome.MALFORMED, str(error)) from error
        except KernelFault as fault:
            raise Ruling(OUTCOMES[fault.reason], fault.what, side=self.side) from fault
        except WorkerTimeout as error:
            raise Ruling(Outcome.TIMEOUT, str(error), side=self.side) from error
        except WorkerNonsense as error:
            raise Ruling(Outcome.LAUNCH_ERROR, str(error), side=self.side) from error
        except WorkerDied as error:
            raise Ruling(Outcome.LAUNCH_ERROR, str(error), side=self.side, unexplained=True) from error
