"""Builds the client, transcripts, price and budget for a model from a command's options.

Not covered: sending requests (`asking`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kcurate.core.notes import Note, silent
from kcurate.core.options import MAX_TOKENS
from kcurate.errors import InputError, OptionError
from kcurate.models import prices
from kcurate.models.asking import Asking
from kcurate.models.claude import ClaudeClient
from kcurate.models.client import Client, Patience
from kcurate.models.compatible import CompatibleClient
from kcurate.models.naming import ModelName
from kcurate.models.prices import Budget
from kcurate.models.transcripts import Transcripts


@dataclass(frozen=True)
class Spending:
    """What answers may cost: `max_usd` for this run (None: no limit), `price` instead of the table's."""

    max_usd: float | None = None
    price: str | None = None
    max_tokens: int = MAX_TOKENS

    def price_of(self, name: ModelName) -> prices.Price | None:
        """The price of the model; None if it is unknown and there is no budget.

        Raises:
            InputError: there is a budget, but no price; or `max_usd` is not a valid amount.
        """
        if self.max_usd is not None and not 0 <= self.max_usd < math.inf:
            raise OptionError(f"not an amount: {self.max_usd}", where="--max-usd")
        text = self.price or ("0,0" if name.provider == "local" else None)
        price = prices.parse_price(text) if text else prices.find_price(name.model)
        if price is None and self.max_usd is not None:
            raise InputError(
                f"no price is known for {name.model}, so --max-usd cannot be enforced",
                hint="give --price IN,OUT in dollars per million tokens (0,0 for your own server)",
            )
        return price


def open_client(name: ModelName, timeout_s: float | None = None) -> Client:
    """The client for a model. `timeout_s` of a request; None: the client's default `TIMEOUT_S`.

    Raises:
        MissingDependencyError: its package or its key is missing.
    """
    limit = {} if timeout_s is None else {"timeout_s": timeout_s}
    if name.provider == "anthropic":
        return ClaudeClient(name.model, **limit)
    return CompatibleClient(name.model, name.base_url, **limit)


def open_asking(
    name: ModelName,
    folder: Path,
    spending: Spending,
    *,
    patience: Patience | None = None,
    timeout_s: float | None = None,
    options: Mapping[str, float | str | None] | None = None,
    client: Client | None = None,
    note: Note = silent,
) -> Asking:
    """Builds what `Asking` needs, with transcripts in `folder`; the caller must close its client.

    `options`: as `Request.options` has them; None: the server's own. `client`: that of a local model, which
    `kcurate.evaluation.local_model` makes.

    Raises:
        InputError: a budget without a price; an option that the model does not have.
        MissingDependencyError: a package or key is missing.
    """
    chosen = {option: value for option, value in (options or {}).items() if value is not None}
    if name.provider == "anthropic" and (sampling := chosen.keys() - {"effort"}):
        where = " and ".join(f"--{option.replace('_', '-')}" for option in sorted(sampling))
        raise OptionError("Claude's API has no such option", where=where, hint="leave it out")
    known = name.provider == "openai" or (name.provider == "anthropic" and prices.facts(name.model).effort)
    if "effort" in chosen and not known:
        raise OptionError(f"{name.model} has no effort levels", where="--effort", hint="leave it out")
    price = spending.price_of(name)
    return Asking(
        client or open_client(name, timeout_s),
        Transcripts(folder / f"{name.slug}.jsonl", name.model),
        price=price,
        budget=Budget(spending.max_usd),
        max_tokens=spending.max_tokens,
        patience=patience or Patience(),
        options=chosen,
        note=note,
    )
