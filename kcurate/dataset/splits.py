"""The split of a pair: by family; families with similar pairs stay together.

A family's split depends only on its name, so that it does not change when a dataset grows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

TEST_SHARE = 0.1


def assign(
    families: Mapping[str, str], alike: Iterable[tuple[str, str]], test_share: float = TEST_SHARE
) -> dict[str, str]:
    """Id of a pair to `train` or `test`. `families`: id to family; `alike`: ids that must stay together."""
    parents = {family: family for family in families.values()}

    def root(family: str) -> str:
        while parents[family] != family:
            family = parents[family]
        return family

    for one, other in alike:
        first, second = sorted((root(families[one]), root(families[other])))
        parents[second] = first
    chosen = {key: _split(root(family), test_share) for key, family in families.items()}
    if "train" not in chosen.values():
        return dict.fromkeys(chosen, "train")
    return chosen


def _split(family: str, test_share: float) -> str:
    place = int.from_bytes(hashlib.sha256(f"split {family}".encode()).digest()[:8], "big") / 2**64
    return "test" if place < test_share else "train"
