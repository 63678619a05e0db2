"""Optimisation techniques: their names and meanings, and which of them an answer may show.

Follows the stages of Mikasa et al. (arXiv:2602.12049): a stage permits some techniques, and code that shows
another is refused. Techniques are detected in the text (`kcurate.cuda_source`). Coalescing and register
blocking are never detected, since only a run or the author's intent could show them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache

from kcurate.core import resources
from kcurate.cuda_source import techniques
from kcurate.prompts import Technique
from kcurate.records import SideName

# Techniques that a naive kernel may gain, in the usual order.
LADDER_FAST = (
    "coalesced-access",
    "shared-memory-tiling",
    "register-blocking",
    "vectorized-access",
    "loop-unrolling",
)


# Words of a problem that, beside the names of techniques, tell how it uses the GPU.
_HARDWARE = (
    r"tensor cores?|w?gmma|mma|tma|cp\.async|warps?|lanes?|threads?|(?:a|one) block|wave of blocks|"
    r"shared memory|registers?|shuffles?|atomics?|tiled|split[- ]k|stream[- ]k|look[- ]?back|launch(?:es)?"
)


@cache
def _technique_words() -> re.Pattern[str]:
    listed = "|".join(re.escape(name).replace(r"\-", "[- ]") for name in vocabulary())
    return re.compile(rf"(?<![\w-])(?:{listed}|{_HARDWARE})(?![\w-])", re.IGNORECASE)


def names_technique(text: str) -> bool:
    """Whether a text (a description, the name of a family) mentions a technique or a feature of the GPU."""
    return _technique_words().search(text.replace("-", " ")) is not None


@cache
def vocabulary() -> Mapping[str, Technique]:
    """Every technique of `schemas/techniques.json` by name."""
    document = json.loads((resources.schemas_dir() / "techniques.json").read_bytes())
    return {entry["const"]: Technique(entry["const"], entry["description"]) for entry in document["oneOf"]}


def shown_in(code: str) -> frozenset[str]:
    """The techniques detected in code."""
    return frozenset(techniques(code.encode("utf-8", "replace")))


def permitted(code: str, stage: Iterable[str], written_side: SideName) -> frozenset[str]:
    """The techniques that an answer may show.

    For a fast side: those of the given code and of the stage. For a slow side: those of the given code
    without those of the stage.
    """
    shown, named = shown_in(code), frozenset(stage)
    return shown - named if written_side == "slow" else shown | named


def not_permitted(code: str, allowed: frozenset[str]) -> tuple[str, ...]:
    """The techniques in code that are not allowed, by name."""
    return tuple(sorted(shown_in(code) - allowed))
