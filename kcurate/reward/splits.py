"""The split of a pair: by family; families of which one holds a function of the other stay together.

A group's split depends only on the name that sorts first in it, so that it stays when a dataset grows. A
group of more than `MANY` families (they share a core, such as a matrix product) is in `train`: as a whole it
would be most of a test split, and make it narrow. Therefore the share is one of the other families.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from kcurate.problem.lessons import together

# Of families that share no core; it gives a test split of 15% of the built-in pairs.
TEST_SHARE = 0.35
MANY = 6


def assign(rows: Iterable[Mapping[str, Any]], test_share: float = TEST_SHARE) -> dict[str, str]:
    """Id of a `pairs` row to `train` or `test`."""
    families = {}
    codes = set()
    for row in rows:
        families[row["id"]] = row["family"]
        codes |= {(row["family"], row["slow_code"]), (row["family"], row["fast_code"])}
    groups = together(codes)
    chosen = {key: _split(groups[family], test_share) for key, family in families.items()}
    if "train" not in chosen.values():
        return dict.fromkeys(chosen, "train")
    return chosen


def _split(group: frozenset[str], test_share: float) -> str:
    place = int.from_bytes(hashlib.sha256(f"split {min(group)}".encode()).digest()[:8], "big") / 2**64
    return "test" if place < test_share and len(group) <= MANY else "train"
