"""Changes to a text as changes to a side, and all results of one of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from kcurate.mutate.spans import Changes, Code, apply
from kcurate.records import Side

Change = Callable[[Side], Iterator[tuple[str, Side]]]


@dataclass(frozen=True)
class Changed:
    """A changed side: the name of the change, and what it changed."""

    change: str
    what: str
    side: Side


_EMPTY = re.compile(r"([;{}][ \t]*\n)(?:[ \t]*(?:\(void\)0)?;[ \t]*\n)+")
# All changes to a side share its tokens.
_tokenised = lru_cache(maxsize=4)(Code.of)


def of_text(change: Callable[[Code], Changes]) -> Change:
    """Turn a change to text into a change to a side."""

    def changed(side: Side) -> Iterator[tuple[str, Side]]:
        for what, edits in change(_tokenised(side.code)):
            yield what, replace(side, code=tidied(apply(side.code, edits)))

    return changed


def tidied(text: str) -> str:
    """The text without lines that hold only an empty statement, which a removed statement leaves behind.

    An empty statement stays if it may be the body of a loop or branch, or belong to a label.
    """
    return _EMPTY.sub(r"\1", text)


def every(side: Side, changes: Mapping[str, Change], name: str) -> tuple[Changed, ...]:
    """All results of one change to a side, in the order of the text.

    Raises:
        KeyError: there is no such change.
    """
    return tuple(Changed(name, what, changed_side) for what, changed_side in changes[name](side))
