"""Rows of `profiles`: the counters of one side of a published pair on one GPU.

Not covered: the counters (`kcurate.profiling.counters`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcurate.dataset.rows import Kind, floats, strings
from kcurate.profiling.counters import BY_NAME
from kcurate.profiling.on_file import Profiles
from kcurate.records import Candidate

COLUMNS: dict[str, Kind] = {
    **strings("id", "side", "device", "family", "domain", "license", "content"),
    "launches": "int64",
    "profiled": "int64",
    **floats(*BY_NAME),
    **strings("tool", "driver", "compiler"),
}


def rows(row: Mapping[str, Any], candidate: Candidate, profiles: Profiles) -> Iterator[dict[str, Any]]:
    """A row for each side and device; `row` is the candidate's row of `pairs`."""
    for device, sides in profiles.by_device(candidate).items():
        for side, profile in sides.items():
            facts = {name: getattr(profile, name) for name in COLUMNS if hasattr(profile, name)}
            values = {**row, **profile.counters, **facts, "side": side, "device": device}
            yield {name: values.get(name) for name in COLUMNS}
