"""Readable JSON for files, diffs, prompts and the answers of models."""

from __future__ import annotations

import json
import os
from typing import Any

WIDTH = 100
_flat = json.JSONEncoder(ensure_ascii=False).encode


def shown(path: str) -> str:
    """A path as text that a record can hold: bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


def pretty(data: Any) -> str:
    """Indented by two spaces; anything that fits in `WIDTH` stays on one line, except the outermost level."""
    return _render(data, 0)[1]


def _render(data: Any, depth: int) -> tuple[str, str]:
    """The data on one line, and formatted for a depth."""
    if not (isinstance(data, dict | list) and data):
        return (flat := _flat(data)), flat
    if isinstance(data, dict):
        opening, closing, keys = "{", "}", [f"{_flat(key)}: " for key in data]
        parts = [_render(value, depth + 1) for value in data.values()]
    else:
        opening, closing, keys = "[", "]", [""] * len(data)
        parts = [_render(value, depth + 1) for value in data]
    flat = opening + ", ".join(key + on_line for key, (on_line, _) in zip(keys, parts, strict=True)) + closing
    if depth and len(flat) + 2 * depth <= WIDTH:
        return flat, flat
    inner = "  " * (depth + 1)
    rows = ",\n".join(inner + key + text for key, (_, text) in zip(keys, parts, strict=True))
    return flat, f"{opening}\n{rows}\n{'  ' * depth}{closing}"
