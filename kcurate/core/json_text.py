"""Readable JSON for files, diffs, prompts and the answers of models."""

from __future__ import annotations

import json
import os
from json.encoder import encode_basestring
from typing import Any

WIDTH = 100
_flat = json.JSONEncoder(ensure_ascii=False).encode


def shown(path: str) -> str:
    """A path as text that a record can hold: bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


def pretty(data: Any, depth: int = 0) -> str:
    """Indented by two spaces; anything that fits in `WIDTH` stays on one line, except the outermost level."""
    if isinstance(data, str):
        return encode_basestring(data)  # most values are short: starting an encoder for each takes longer
    if type(data) is int:
        return str(data)
    flat = _flat(data)
    if not (isinstance(data, dict | list) and data) or (depth and len(flat) + 2 * depth <= WIDTH):
        return flat
    inner = "  " * (depth + 1)
    if isinstance(data, dict):
        rows = [f"{inner}{encode_basestring(key)}: {pretty(value, depth + 1)}" for key, value in data.items()]
    else:
        rows = [inner + pretty(value, depth + 1) for value in data]
    opening, closing = flat[0], flat[-1]
    joined = ",\n".join(rows)
    return f"{opening}\n{joined}\n{'  ' * depth}{closing}"
