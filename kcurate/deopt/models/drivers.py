"""Runs many searches at once: each in a thread with its own requests, or all in lockstep with batches.

The first failure that affects every request ends the run; work in progress is finished and saved. Both
drivers return that failure, so that the results can be counted before it is reported.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial

from kcurate.core.notes import Note
from kcurate.deopt.models.batches import Batches
from kcurate.deopt.models.search import Search
from kcurate.errors import KcurateError
from kcurate.models.asking import Asking
from kcurate.models.client import Request
from kcurate.profiling import counters, ncu
from kcurate.profiling.profiler import Profiler
from kcurate.records import Candidate, Exchange, SideName


class Counting:
    """One profiler for all searches of a run. Thread-safe; if it cannot count, it notes that once."""

    def __init__(self, gpu: int, note: Note) -> None:
        self._note = note
        self._lock = threading.Lock()
        self._profiler: Profiler | None = None
        with self._or_none():
            ncu.installed()
            self._profiler = Profiler.open(gpu, counters.metrics(ncu.known_metrics()))

    def __call__(self, candidate: Candidate, sides: Sequence[SideName]) -> Mapping[str, Mapping[str, float]]:
        """The counters of each side; a side that cannot be profiled is left out."""
        asked = [(candidate, side) for side in sides if getattr(candidate, side).language == "cuda"]
        by_key: dict[str, Mapping[str, float]] = {}
        with self._lock, self._or_none():
            if self._profiler is None or not asked:
                return {}
            for number, side_profile in self._profiler.profile(asked):
                if not isinstance(side_profile, str):
                    by_key[asked[number][1]] = counters.of_side(side_profile.counted)
        return by_key

    def close(self) -> None:
        """End the profiler."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.close()

    @contextlib.contextmanager
    def _or_none(self) -> Iterator[None]:
        try:
            yield
        except KcurateError as error:
            self._note(f"prompts have no counters: {error}")
            self.close()


def drive(
    searches: Sequence[Search], asking: Asking, *, threads: int, moved: Callable[[], None] = lambda: None
) -> KcurateError | None:
    """Run the searches concurrently, one round each at a time; `moved` is called after every attempt."""

    def work(search: Search) -> None:
        while not asking.stop.is_set() and (requests := search.pending()):
            for request, exchange in zip(requests, asks.map(asking.answer, requests), strict=True):
                if search.absorb(request, exchange) is not None:
                    moved()

    with ThreadPoolExecutor(max_workers=max(1, threads), thread_name_prefix="ask") as asks:
        return _all([partial(work, search) for search in searches], asking, threads)


def drive_batched(
    searches: Sequence[Search],
    asking: Asking,
    batches: Batches,
    *,
    threads: int,
    moved: Callable[[], None] = lambda: None,
) -> KcurateError | None:
    """Run the searches in lockstep: the next requests of all searches form one batch."""

    def absorb(search: Search, exchanges: Sequence[tuple[Request, Exchange]]) -> None:
        for request, exchange in exchanges:
            if search.absorb(request, exchange) is not None:
                moved()

    try:
        batches.collect_open()
        while True:
            pending = [(search, requests) for search in searches if (requests := search.pending())]
            if not pending:
                return None
            every = [request for _, requests in pending for request in requests]
            on_file = {request.key: asking.on_file(request) for request in every}
            answers = {key: answer for key, answer in on_file.items() if answer is not None}
            answers |= batches.answer_all([request for request in every if request.key not in answers])
            tasks = [
                partial(absorb, search, [(request, answers[request.key]) for request in asked])
                for search, asked in pending
            ]
            failure = _all(tasks, asking, threads)
            if failure is not None:
                return failure
    except KcurateError as error:
        return error


def _all(tasks: Sequence[Callable[[], None]], asking: Asking, threads: int) -> KcurateError | None:
    """Run all tasks; the first known failure cancels those not yet started."""
    failure: KcurateError | None = None
    with ThreadPoolExecutor(max_workers=max(1, threads), thread_name_prefix="search") as pool:
        futures: list[Future[None]] = [pool.submit(task) for task in tasks]
        try:
            for future in as_completed(futures):
                if future.cancelled():
                    continue
                error = future.exception()
                if error is None:
                    continue
                asking.stop.set()
                for other in futures:
                    other.cancel()
                if not isinstance(error, KcurateError):
                    raise error
                failure = failure or error
        except BaseException:
            asking.note("finishing requests in progress, so that no answer is lost")
            asking.stop.set()
            for other in futures:
                other.cancel()
            raise
    return failure
