"""Counters of right answers while a search runs, where this machine has Nsight Compute and permits it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence

from kcurate import judge
from kcurate.core.notes import Note
from kcurate.errors import KcurateError
from kcurate.profiles import counters, ncu
from kcurate.records import Candidate, SideName


class Counting:
    """One profiler for all searches of a run. Thread-safe; where it cannot count it says so once."""

    def __init__(self, gpu: int, note: Note) -> None:
        self._note = note
        self._lock = threading.Lock()
        self._profiler: judge.Profiler | None = None
        with self._or_none():
            ncu.installed()
            self._profiler = judge.Profiler.open(gpu, counters.metrics(ncu.known_metrics()))

    def __call__(self, candidate: Candidate, sides: Sequence[SideName]) -> Mapping[str, Mapping[str, float]]:
        """By side, its counters; a side that cannot be profiled is missing."""
        asked = [(candidate, side) for side in sides if getattr(candidate, side).language == "cuda"]
        found: dict[str, Mapping[str, float]] = {}
        with self._lock, self._or_none():
            if self._profiler is None or not asked:
                return {}
            for number, one in self._profiler.profile(asked):
                if not isinstance(one, str):
                    found[asked[number][1]] = counters.of_side(one.counted)
        return found

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
