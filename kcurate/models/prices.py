"""The cost of an exchange, from `prices.toml` or from `--price`, and the spending limit of a run.

The maximum cost of a request is reserved before it is sent and replaced by the actual cost afterwards, so
spending stays below the limit however many requests run concurrently.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

from kcurate.core import resources
from kcurate.errors import KcurateError, OptionError
from kcurate.records import Usage


class BudgetSpentError(KcurateError):
    """The next request might cost more than the budget has left."""


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


MILLION = 1_000_000
_DATE = re.compile(r"-\d{8}\Z")
# The longest of the least prefixes that a server's prompt cache keeps, in tokens.
LONGEST_LEAST = 4096
# A cache write that is kept for an hour costs so many times the input.
HOUR_FACTOR = 2.0


@dataclass(frozen=True)
class Price:
    """One model's price in dollars per million tokens; `batch_factor` multiplies it for a request of a batch.

    With a prompt of more than `long_prompt_tokens` tokens, everything costs `long_prompt_factor` times as
    much.
    """

    input: float
    output: float
    cache_write: float
    cache_read: float
    long_prompt_tokens: int | None = None
    long_prompt_factor: float = 1.0
    batch_factor: float = 1.0

    def cost_usd(self, usage: Usage, *, batch: bool = False) -> float:
        """The cost of the tokens. A batch keeps what it writes to the prompt cache for an hour."""
        prompt = usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens
        dollars = (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_write_tokens * (HOUR_FACTOR * self.input if batch else self.cache_write)
            + usage.cache_read_tokens * self.cache_read
        ) / MILLION
        return dollars * self._factor(prompt, batch=batch)

    def most_usd(self, prompt_bytes: int, max_tokens: int, *, batch: bool = False) -> float:
        """An upper bound on the cost of an exchange: no tokenizer makes more tokens than there are bytes."""
        dearest = max(self.input, HOUR_FACTOR * self.input if batch else self.cache_write)
        dollars = (prompt_bytes * dearest + max_tokens * self.output) / MILLION
        return dollars * self._factor(prompt_bytes, batch=batch)

    def _factor(self, prompt_tokens: int, *, batch: bool) -> float:
        long = self.long_prompt_tokens is not None and prompt_tokens > self.long_prompt_tokens
        return (self.long_prompt_factor if long else 1.0) * (self.batch_factor if batch else 1.0)


@cache
def _table() -> dict[str, Any]:
    return resources.table("kcurate.models", "prices.toml")


def default_model() -> str:
    """The model that `--model claude` selects."""
    return str(_table()["default"])


def _row(model: str) -> dict[str, Any] | None:
    rows = _table()["models"]
    row = rows.get(model) or rows.get(_DATE.sub("", model))
    return dict(row) if row is not None else None


def find_price(model: str) -> Price | None:
    """The price of a model in the table, or None."""
    if (row := _row(model)) is None:
        return None
    return Price(**{k: v for k, v in row.items() if k not in vars(Facts())}, batch_factor=_table()["batch"])


@dataclass(frozen=True)
class Facts:
    """API features of a Claude model: whether it decides itself how much to think, and has effort levels.

    `cache_least`: the shortest prefix, in tokens, that the server's prompt cache keeps.
    """

    adaptive: bool = True
    effort: bool = True
    cache_least: int = LONGEST_LEAST


def facts(model: str) -> Facts:
    """The facts in the table; an unlisted model is assumed to be a new one."""
    row = _row(model) or {}
    return Facts(**{name: row[name] for name in vars(Facts()) if name in row})


def parse_price(text: str) -> Price:
    """Parse `IN,OUT` or `IN,OUT,CACHE_WRITE,CACHE_READ`, in dollars per million tokens.

    Raises:
        InputError: a different number of values, or a negative one.
    """
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 4) or not all(0 <= number < 1e6 for number in numbers):
        raise OptionError(
            f"not a price: {text!r}", where="--price", hint="dollars per million tokens: IN,OUT such as 3,15"
        )
    # Unless given, a cache write costs 1.25 times the input, as in `prices.toml`; a read, the whole input.
    prices = numbers + [1.25 * numbers[0], numbers[0]] * (len(numbers) == 2)
    return Price(prices[0], prices[1], prices[2], prices[3], batch_factor=_table()["batch"])
