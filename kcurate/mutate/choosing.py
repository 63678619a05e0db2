"""Samples from several rewrites' offers: one of each in turn, without duplicates, reproducible by seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from kcurate.mutate.spans import Changes, Code, apply
from kcurate.records import Side

Change = Callable[[Side], Iterator[tuple[str, Side]]]


@dataclass(frozen=True)
class Changed:
    """A changed side: by which change, and what that changed."""

    change: str
    what: str
    side: Side


_EMPTY = re.compile(r"([;{}][ \t]*\n)(?:[ \t]*(?:\(void\)0)?;[ \t]*\n)+")
# Every change of a side begins with the same tokens.
_tokenised = lru_cache(maxsize=4)(Code.of)


def of_text(change: Callable[[Code], Changes]) -> Change:
    """A change of the text as one of a side."""

    def changed(side: Side) -> Iterator[tuple[str, Side]]:
        for what, edits in change(_tokenised(side.code)):
            yield what, replace(side, code=tidied(apply(side.code, edits)))

    return changed


def tidied(text: str) -> str:
    """A text without lines that hold an empty statement alone, which only a removed one leaves.

    What a line before it may begin (a loop, a branch, a label) keeps its empty statement.
    """
    return _EMPTY.sub(r"\1", text)


def every(side: Side, changes: Mapping[str, Change], name: str) -> tuple[Changed, ...]:
    """All that one change makes of a side, in the order of the text.

    Raises:
        KeyError: there is no such change.
    """
    return tuple(Changed(name, what, made) for what, made in changes[name](side))


def in_turns(side: Side, changes: Mapping[str, Change], count: int, seed: int) -> tuple[Changed, ...]:
    """At most `count` different sides, cycling through the changes; the same for the same seed."""
    rng = random.Random(seed)
    stocks = {name: list(every(side, changes, name)) for name in changes}
    for stock in stocks.values():
        rng.shuffle(stock)
    order = [name for name, stock in stocks.items() if stock]
    rng.shuffle(order)
    kept: list[Changed] = []
    while len(kept) < count and any(stocks[name] for name in order):
        for name in order:
            if stocks[name] and len(kept) < count:
                one = stocks[name].pop()
                if all(one.side != other.side for other in kept):
                    kept.append(one)
    return tuple(kept)
