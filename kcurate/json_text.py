"""JSON as people read it: in files, in diffs, and in what a model is shown and answers."""

from __future__ import annotations

import json
from typing import Any


def pretty(data: Any, *, width: int = 100) -> str:
    """Two spaces a level; whatever fits into `width` characters stays on one line, but for the outermost."""
    return _render(data, 0, width)


def _render(data: Any, depth: int, width: int) -> str:
    flat = json.dumps(data, ensure_ascii=False)
    if not isinstance(data, dict | list) or not data:
        return flat
    if depth and len(flat) + 2 * depth <= width:
        return flat
    inner = "  " * (depth + 1)
    if isinstance(data, dict):
        rows = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {_render(value, depth + 1, width)}"
            for key, value in data.items()
        ]
    else:
        rows = [inner + _render(value, depth + 1, width) for value in data]
    opening, closing = ("{", "}") if isinstance(data, dict) else ("[", "]")
    return f"{opening}\n" + ",\n".join(rows) + f"\n{'  ' * depth}{closing}"
