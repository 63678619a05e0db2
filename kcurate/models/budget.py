"""The spending limit of a run, enforced before each request rather than after it.

The maximum cost of a request is reserved before it is sent and replaced by the actual cost afterwards, so
spending stays below the limit however many requests run concurrently.
"""

from __future__ import annotations

import threading

from kcurate.errors import KcurateError


class BudgetSpentError(KcurateError):
    """The next request might cost more than is left."""


class Budget:
    """Dollars spent and reserved; `limit_usd` None: no limit. Thread-safe."""

    def __init__(self, limit_usd: float | None) -> None:
        self.limit_usd = limit_usd
        self._spent_usd = 0.0
        self._held_usd = 0.0
        self._changed = threading.Condition()

    @property
    def spent_usd(self) -> float:
        """The cost of finished exchanges."""
        return self._spent_usd

    def hold(self, most_usd: float, *, wait: bool = True) -> None:
        """Reserve a request's maximum cost; may wait until running requests release part of theirs.

        Raises:
            BudgetSpentError: even then too little is left.
        """
        with self._changed:
            while self.limit_usd is not None and self._spent_usd + self._held_usd + most_usd > self.limit_usd:
                if not wait or self._spent_usd + most_usd > self.limit_usd or not self._held_usd:
                    raise BudgetSpentError(
                        f"the budget of ${self.limit_usd:.2f} does not allow another request: "
                        f"${self._spent_usd:.4f} spent, the next may cost ${most_usd:.4f}",
                        hint="all answers are saved; rerun with a higher --max-usd to continue",
                    )
                self._changed.wait()
            self._held_usd += most_usd

    def settle(self, held_usd: float, cost_usd: float) -> None:
        """Replace a reservation by the actual cost."""
        with self._changed:
            # Floating-point sums leave residues: never go below zero.
            self._held_usd = max(0.0, self._held_usd - held_usd)
            if self._held_usd < 1e-9:
                self._held_usd = 0.0
            self._spent_usd += cost_usd
            self._changed.notify_all()
