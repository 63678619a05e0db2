"""Counters of correct answers during a search, if this machine has Nsight Compute and permits its use."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence

from kcurate.core.notes import Note
from kcurate.errors import KcurateError
from kcurate.profiling import counters, ncu
from kcurate.profiling.profiler import Profiler
from kcurate.records import Candidate, SideName


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
