"""The result of a static check."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A reason to refuse a side: the check's name, what it found, and the source line if there is one."""

    check: str
    what: str
    line: int | None = None

    def __str__(self) -> str:
        place = f" (line {self.line})" if self.line is not None else ""
        return f"{self.check}: {self.what}{place}"
