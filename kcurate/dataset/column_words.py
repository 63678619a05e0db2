"""The words of the dataset card, from `card.toml`; a test keeps the list of columns complete."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from kcurate.profiling.counters import BY_NAME

TEXTS: Mapping[str, Any] = tomllib.loads(files("kcurate.dataset").joinpath("card.toml").read_text("utf-8"))
# What each column of the dataset holds.
WORDS: Mapping[str, str] = {
    **TEXTS["columns"],
    **{name: f"{counter.text} ({counter.unit})" for name, counter in BY_NAME.items()},
}
