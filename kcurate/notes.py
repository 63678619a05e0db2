"""What a stage tells a person on the way: a function of one line of text that the caller gives it."""

from __future__ import annotations

from collections.abc import Callable

Note = Callable[[str], None]


def silent(_: str) -> None:
    """Tell nobody."""
