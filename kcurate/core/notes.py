"""A stage reports progress through notes: the caller passes a function that takes one line of text."""

from __future__ import annotations

from collections.abc import Callable

Note = Callable[[str], None]


def silent(_: str) -> None:
    """Report nothing."""
