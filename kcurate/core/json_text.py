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
    return _render(data, 0)


def _render(data: Any, depth: int) -> str:
    nested = isinstance(data, dict | list) and data
    if depth or not nested:
        flat = _flat(data)
        if not nested or len(flat) + 2 * depth <= WIDTH:
            return flat
    inner = "  " * (depth + 1)
    if isinstance(data, dict):
        rows = [f"{inner}{_flat(key)}: {_render(value, depth + 1)}" for key, value in data.items()]
    else:
        rows = [inner + _render(value, depth + 1) for value in data]
    opening, closing = ("{", "}") if isinstance(data, dict) else ("[", "]")
    return f"{opening}\n" + ",\n".join(rows) + f"\n{'  ' * depth}{closing}"
