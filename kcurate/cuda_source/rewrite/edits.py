"""Byte-span edits of code. Not covered: what may be rewritten (`kcurate.deopt.rules`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """Replaces the bytes `[start, end)`."""

    start: int
    end: int
    text: bytes = b""


def edited(code: bytes, edits: Iterable[Edit]) -> bytes:
    """The code with all edits applied.

    Raises:
        ValueError: two edits overlap.
    """
    parts, position = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < position:
            raise ValueError(f"two edits overlap at byte {edit.start}")
        parts += [code[position : edit.start], edit.text]
        position = edit.end
    return b"".join([*parts, code[position:]])
