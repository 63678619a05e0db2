"""Optimisation techniques: their names and meanings, and which of them an answer may show.

After the stages of Mikasa et al. (arXiv:2602.12049): a stage permits some techniques, and code that shows
another is refused. What code shows is read off its text (`kcurate.cuda_source`): coalescing and register
blocking, which only a run or an intent can tell, are never seen there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache

from kcurate import resources
from kcurate.cuda_source import techniques
from kcurate.prompts import Technique
from kcurate.records import SideName

# What a naive kernel may gain, in the order in which people try it.
LADDER_FAST = (
    "coalesced-access",
    "shared-memory-tiling",
    "register-blocking",
    "vectorized-access",
    "loop-unrolling",
)


@cache
def vocabulary() -> Mapping[str, Technique]:
    """Every technique of `schemas/techniques.json` by name."""
    document = json.loads((resources.schemas_dir() / "techniques.json").read_bytes())
    return {entry["const"]: Technique(entry["const"], entry["description"]) for entry in document["oneOf"]}


def shown_in(code: str) -> frozenset[str]:
    """The techniques that code shows."""
    return frozenset(techniques(code.encode("utf-8", "replace")))


def permitted(given: str, stage: Iterable[str], made: SideName) -> frozenset[str]:
    """What an answer may show: what the given code shows and the stage's techniques; for a slow side what
    the given code shows without the stage's.
    """
    shown, named = shown_in(given), frozenset(stage)
    return shown - named if made == "slow" else shown | named


def not_permitted(code: str, allowed: frozenset[str]) -> tuple[str, ...]:
    """The techniques that code shows beyond those allowed, by name."""
    return tuple(sorted(shown_in(code) - allowed))
