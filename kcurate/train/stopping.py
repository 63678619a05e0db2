"""Ending a run in good order: a signal, or a time limit, ends it between two steps, with a checkpoint.

A second signal ends it at once. In several processes all of them agree on the step. Not covered: writing
checkpoints (the trainer's), taking them up again (`run_folder`).
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from kcurate.errors import KcurateError

# 128 + SIGTERM, as a shell says it.
EXIT_TERMINATED = 143


class StoppedError(KcurateError):
    """The run was told to stop and has saved where it was."""


class Stop:
    """Why the run should end, if it should: asked after every step."""

    def __init__(self, budget_s: float = 0.0) -> None:
        self.signal: int | None = None
        self._ends_s = time.monotonic() + budget_s if budget_s else None
        self._longest_s = 0.0

    def took(self, step_s: float) -> None:
        """A step took so many seconds; another may take as long."""
        self._longest_s = max(self._longest_s, step_s)

    @property
    def late(self) -> bool:
        """Whether another step may end after the time limit."""
        return self._ends_s is not None and time.monotonic() + self._longest_s >= self._ends_s

    def agreed(self) -> tuple[bool, bool]:
        """(told to stop, late), the same in all processes."""
        import torch

        own = (self.signal is not None, self.late)
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return own
        everyone: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(everyone, own)
        return any(one[0] for one in everyone), any(one[1] for one in everyone)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT as a wish to stop; the second one has its usual effect."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        kinds = (signal.SIGTERM, signal.SIGINT)
        before = {kind: signal.getsignal(kind) for kind in kinds}

        def heard(number: int, frame: FrameType | None) -> None:
            self.signal = number
            for kind in kinds:
                signal.signal(kind, before[kind])

        for kind in kinds:
            signal.signal(kind, heard)
        try:
            yield
        finally:
            for kind in kinds:
                signal.signal(kind, before[kind])
