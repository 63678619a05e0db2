"""The words of the dataset card, from `card.toml`; a test keeps the list of columns complete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcurate.core import resources
from kcurate.profiling.counters import BY_NAME

TEXTS: Mapping[str, Any] = resources.table("kcurate.dataset", "card.toml")
# What each column of the dataset holds.
WORDS: Mapping[str, str] = {
    **TEXTS["columns"],
    **{name: f"{counter.text} ({counter.unit})" for name, counter in BY_NAME.items()},
}
