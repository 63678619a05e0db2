"""The columns of each config with their types (`columns.toml`), and the texts of the card (`card.toml`).

A test keeps both lists of columns equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcurate.core import resources
from kcurate.profiling.counters import BY_NAME

# A type as `datasets.Value` names it; a list means a list of that type.
Kind = str | list[Any]
# Columns that a dataset has only if a row fills them: of suites' trees, models and several GPU models.
SPARSE = frozenset(("suite", "url", "revision", "kernels", "model", "sources", "other_verdicts"))


def _configs() -> Iterator[tuple[str, dict[str, Kind]]]:
    table = resources.table("kcurate.dataset", "columns.toml")
    kinds: dict[str, Kind] = dict.fromkeys(BY_NAME, "float64")
    kinds |= {name: kind for kind, names in table["plain"].items() for name in names.split()}
    kinds |= table["nested"]
    for config, listed in table["configs"].items():
        names = listed.replace("*", " ".join(BY_NAME)).split()
        yield config, {name: table["own"].get(config, kinds).get(name, kinds[name]) for name in names}


CONFIGS: Mapping[str, Mapping[str, Kind]] = dict(_configs())

TEXTS: Mapping[str, Any] = resources.table("kcurate.dataset", "card.toml")
# What each column of the dataset holds.
WORDS: Mapping[str, str] = {
    **TEXTS["columns"],
    **{name: f"{counter.text} ({counter.unit})" for name, counter in BY_NAME.items()},
}
