"""Ending a run in good order: a signal, or a time limit, ends it between two steps, with a checkpoint.

A second signal ends it at once. In several processes all of them agree on the step. Not covered: writing
checkpoints (the trainer's), taking them up again (`run_folder`).
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from kcurate.errors import KcurateError

# 128 + SIGTERM, as a shell says it.
EXIT_TERMINATED = 143
# What a step whose answers are drawn already is taken to need of one that draws, until one has been seen.
LIGHT_SHARE = 0.5
KINDS = (signal.SIGTERM, signal.SIGINT)


class StoppedError(KcurateError):
    """The run was told to stop and has saved where it was."""


class Stop:
    """Why the run should end, if it should: asked after every step."""

    def __init__(self, budget_s: float = 0.0) -> None:
        self.signal: int | None = None
        self._ends_s = time.monotonic() + budget_s if budget_s else None
        self._longest_s: dict[bool, float] = {}

    def took(self, step_s: float, *, light: bool = False) -> None:
        """A step took so many seconds; another may take as long. `light`: it had its answers drawn before."""
        self._longest_s[light] = max(self._longest_s.get(light, 0.0), step_s)

    def late(self, *, light: bool = False) -> bool:
        """Whether another step, light or not, may end after the time limit."""
        longest_s = max(self._longest_s.values(), default=0.0)
        if light:
            longest_s = self._longest_s.get(True, LIGHT_SHARE * longest_s)
        return self._ends_s is not None and time.monotonic() + longest_s >= self._ends_s

    def agreed(self, *, light: bool = False) -> tuple[bool, bool]:
        """(told to stop, late for another step), the same in all processes."""
        import torch

        own = (self.signal is not None, self.late(light=light))
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return own
        everyone: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(everyone, own)
        return any(one[0] for one in everyone), any(one[1] for one in everyone)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT as a wish to stop; the second one has its usual effect."""
        before = {kind: signal.getsignal(kind) for kind in KINDS}

        def heard(number: int, frame: FrameType | None) -> None:
            self.signal = number
            for kind in KINDS:
                signal.signal(kind, before[kind])

        with _heard_by(heard):
            yield

    @contextlib.contextmanager
    def at_once(self, where: str, hint: str) -> Iterator[None]:
        """Within, a signal ends what is under way; so does one that came before.

        Raises:
            StoppedError: one came.
        """
        stopped = StoppedError("stopped", where=where, hint=hint)

        def heard(number: int, frame: FrameType | None) -> None:
            raise stopped

        if self.signal is not None:
            raise stopped
        with _heard_by(heard):
            yield


@contextlib.contextmanager
def _heard_by(heard: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Signals go to a function for a while; they go to the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {kind: signal.getsignal(kind) for kind in KINDS}
    for kind in KINDS:
        signal.signal(kind, heard)
    try:
        yield
    finally:
        for kind in KINDS:
            signal.signal(kind, before[kind])
