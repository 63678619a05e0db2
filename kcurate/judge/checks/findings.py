"""What a static check found, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A refusal: the name of the check, what it saw, and the line of the code (None: not in the code)."""

    check: str
    what: str
    line: int | None = None

    def __str__(self) -> str:
        place = f" (line {self.line})" if self.line is not None else ""
        return f"{self.check}: {self.what}{place}"
