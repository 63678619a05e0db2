"""Ends a run gracefully: a signal or the time limit stops it between two steps, with a checkpoint.

A second signal stops it at once. Several processes agree on the step. Not covered: writing checkpoints (the
trainer's), resuming from them (`run_folder`).
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

from kcurate.errors import KcurateError

T = TypeVar("T")

# 128 + SIGTERM, the shell convention.
EXIT_TERMINATED = 143
# Assumed time of a step without sampling, relative to one with it, until one has been measured.
LIGHT_SHARE = 0.5
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StoppedError(KcurateError):
    """The run was told to stop and has saved a checkpoint."""


class Stop:
    """Whether the run should end, and why; checked after every step."""

    def __init__(self, budget_s: float = 0.0) -> None:
        self.signal: int | None = None
        self._ends_s = time.monotonic() + budget_s if budget_s else None
        self._longest_s: dict[bool, float] = {}

    def took(self, step_s: float, *, light: bool = False) -> None:
        """Record how long a step took. `light`: its completions had been sampled by an earlier step."""
        self._longest_s[light] = max(self._longest_s.get(light, 0.0), step_s)

    def late(self, *, light: bool = False) -> bool:
        """Whether another step would end after the time limit."""
        longest_s = max(self._longest_s.values(), default=0.0)
        if light:
            longest_s = self._longest_s.get(True, LIGHT_SHARE * longest_s)
        return self._ends_s is not None and time.monotonic() + longest_s >= self._ends_s

    def agreed(self, *, light: bool = False) -> tuple[bool, bool]:
        """(asked to stop, no time for another step), the same in all processes."""
        answers = from_all_processes((self.signal is not None, self.late(light=light)))
        return any(stopped for stopped, _ in answers), any(late for _, late in answers)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Treat the first SIGTERM or SIGINT as a request to stop; the second has its usual effect."""
        before = {number: signal.getsignal(number) for number in SIGNALS}

        def stop(number: int, frame: FrameType | None) -> None:
            self.signal = number
            for handled in SIGNALS:
                signal.signal(handled, before[handled])

        with _handled_by(stop):
            yield

    @contextlib.contextmanager
    def at_once(self, where: str, hint: str) -> Iterator[None]:
        """In this context a signal raises at once, as does one that was received before.

        Raises:
            StoppedError: a signal was received.
        """
        stopped = StoppedError("stopped", where=where, hint=hint)

        def stop(number: int, frame: FrameType | None) -> None:
            raise stopped

        if self.signal is not None:
            raise stopped
        with _handled_by(stop):
            yield


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Install a signal handler in this context. Python allows that in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in SIGNALS:
            signal.signal(number, before[number])


def from_all_processes(value: T) -> list[T]:
    """The value of every process, if several train together; all of them must call."""
    import torch

    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return [value]
    values: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(values, value)
    return values
