"""The limit on what a run may spend, kept before each request and not after it.

Before a request its greatest possible cost is set aside; when the exchange is over the real cost takes its
place. So what is spent stays below the limit however many requests run side by side.
"""

from __future__ import annotations

import threading

from kcurate.errors import KcurateError


class BudgetSpentError(KcurateError):
    """The next request might cost more than is left."""


class Budget:
    """Dollars spent and set aside; `limit_usd` None: no limit. Safe to use from many threads."""

    def __init__(self, limit_usd: float | None) -> None:
        self.limit_usd = limit_usd
        self._spent_usd = 0.0
        self._held_usd = 0.0
        self._changed = threading.Condition()

    @property
    def spent_usd(self) -> float:
        """What finished exchanges cost."""
        return self._spent_usd

    def hold(self, most_usd: float, *, wait: bool = True) -> None:
        """Set a request's greatest cost aside; may wait until others that run give some of theirs back.

        Raises:
            BudgetSpentError: not even then is enough left.
        """
        with self._changed:
            while self.limit_usd is not None and self._spent_usd + self._held_usd + most_usd > self.limit_usd:
                if not wait or self._spent_usd + most_usd > self.limit_usd or not self._held_usd:
                    raise BudgetSpentError(
                        f"the budget of ${self.limit_usd:.2f} does not allow another request: "
                        f"${self._spent_usd:.4f} spent, the next may cost ${most_usd:.4f}",
                        hint="all answers are on file; run again with a higher --max-usd to go on",
                    )
                self._changed.wait()
            self._held_usd += most_usd

    def settle(self, held_usd: float, cost_usd: float) -> None:
        """Put the real cost in the place of what was set aside."""
        with self._changed:
            # Sums of floats leave crumbs: what is held by nobody is nothing.
            self._held_usd = max(0.0, self._held_usd - held_usd)
            if self._held_usd < 1e-9:
                self._held_usd = 0.0
            self._spent_usd += cost_usd
            self._changed.notify_all()
