"""Samples from several rewrites' offers: one of each in turn, without duplicates, reproducible by seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def in_turns(
    offers: Mapping[str, Iterable[T]], count: int, seed: int, what: Callable[[T], Any]
) -> tuple[T, ...]:
    """At most `count` of the offers; offers with equal `what` are duplicates."""
    rng = random.Random(seed)
    stocks = {name: list(offered) for name, offered in offers.items()}
    for stock in stocks.values():
        rng.shuffle(stock)
    order = [name for name, stock in stocks.items() if stock]
    rng.shuffle(order)
    kept: list[T] = []
    while len(kept) < count and any(stocks[name] for name in order):
        for name in order:
            if stocks[name] and len(kept) < count:
                one = stocks[name].pop()
                if all(what(one) != what(other) for other in kept):
                    kept.append(one)
    return tuple(kept)
