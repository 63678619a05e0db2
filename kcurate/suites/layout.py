"""Maps a path in a tree to its benchmark and variant, using the patterns of a layout.

A pattern is a path of `/`-separated parts: plain text, `{benchmark}`, `{variant}` (one of the layout's
variant names) and a trailing `**` for the rest. The first matching pattern wins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

PLACEHOLDER = re.compile(r"(\{benchmark\}|\{variant\}|\*\*)")


@dataclass(frozen=True)
class PairRule:
    """A naive variant folder and an optimised one; `label` is the suffix of such pairs' names."""

    slow: str
    fast: str
    label: str | None = None


@dataclass(frozen=True)
class Layout:
    """How a tree is organised.

    `markers`: alternative glob sets; a folder is a root if every glob of any one set matches.
    `include`: folders, relative to the root, that are also searched for local includes.
    """

    paths: tuple[str, ...]
    markers: tuple[tuple[str, ...], ...] = ()
    variants: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    pairs: tuple[PairRule, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where a file belongs; `rest` is its path inside the folder of the benchmark or variant.

    `benchmark` is None if the layout's pattern does not name one (a file at the top of a tree).
    """

    benchmark: str | None
    variant: str | None
    rest: str


@cache
def _compiled(pattern: str, variants: tuple[str, ...]) -> re.Pattern[str]:
    names = {
        "{benchmark}": r"(?P<benchmark>[^/]+)",
        "{variant}": f"(?P<variant>{'|'.join(map(re.escape, variants)) or '(?!)'})",
        "**": r"(?P<rest>.+)",
    }
    return re.compile(
        "".join(names.get(part) or re.escape(part) for part in PLACEHOLDER.split(pattern)), re.DOTALL
    )


def locate(layout: Layout, path: str) -> Place | None:
    """The place of `path` (relative to the tree's root, `/`-separated); None: outside the layout."""
    for pattern in layout.paths:
        match = _compiled(pattern, layout.variants).fullmatch(path)
        if match:
            groups = match.groupdict()
            return Place(groups.get("benchmark"), groups.get("variant"), groups["rest"])
    return None
