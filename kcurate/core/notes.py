"""How a stage reports progress: a function of one line of text, passed in by the caller."""

from __future__ import annotations

from collections.abc import Callable

Note = Callable[[str], None]


def silent(_: str) -> None:
    """Report nothing."""
