"""Turns changes of a text into changes of a side (`Change`), and lists all results of one."""

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
    """A changed side, with the name of the change and a label of the changed text."""

    change: str
    label: str
    side: Side


_EMPTY = re.compile(r"([;{}][ \t]*\n)(?:[ \t]*(?:\(void\)0)?;[ \t]*\n)+")
# All changes try one side in turn, so its tokens are cached.
_tokenised = lru_cache(maxsize=4)(Code.of)


def of_text(change: Callable[[Code], Changes]) -> Change:
    """Turn a change of a text into a change of a side's code."""

    def changed(side: Side) -> Iterator[tuple[str, Side]]:
        for label, edits in change(_tokenised(side.code)):
            yield label, replace(side, code=tidied(apply(side.code, edits)))

    return changed


def tidied(text: str) -> str:
    """The text without lines that contain only an empty statement, which a removed statement leaves behind.

    An empty statement stays if it may be the body of a loop or branch, or follow a label.
    """
    return _EMPTY.sub(r"\1", text)


def results_of_change(side: Side, changes: Mapping[str, Change], name: str) -> tuple[Changed, ...]:
    """All results of the change called `name`, in the order of the text.

    Raises:
        KeyError: there is no such change.
    """
    return tuple(Changed(name, label, changed_side) for label, changed_side in changes[name](side))
