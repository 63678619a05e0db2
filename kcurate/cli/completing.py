"""Shell completions for ids, outcomes and suites; the parser completes options and choices.

Not covered: names of options, values of choices (the parser), files (the shell).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import typer

from kcurate.core.config import DEFAULT_WORKSPACE

Offers = Callable[[typer.Context, str], list[str]]


def starting(names: Iterable[str], incomplete: str) -> list[str]:
    """Completions of the text after the last comma; the text before it stays."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in sorted(set(names)) if name.startswith(last)]


def _ids(context: typer.Context, records: tuple[str, ...]) -> Iterator[str]:
    from kcurate.core import names
    from kcurate.core.workspace import Workspace

    workspace = context.params.get("workspace")
    place = Workspace(workspace if isinstance(workspace, Path) else DEFAULT_WORKSPACE)
    return names.ids(place, records)


def pairs(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of the workspace's pairs and of the built-in ones."""
    return starting(_ids(context, ("pair.json",)), incomplete)


def kernels(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of the workspace's kernels."""
    return starting(_ids(context, ("kernel.json",)), incomplete)


def either(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of kernels and pairs."""
    return starting(_ids(context, ("pair.json", "kernel.json")), incomplete)


def suites(incomplete: str) -> list[str]:
    """The suites that have a manifest."""
    from kcurate.suites.manifest import load_manifests

    return starting(["auto", *load_manifests()], incomplete)


def outcomes(context: typer.Context, incomplete: str) -> list[str]:
    """The outcomes of what `kcurate list` lists."""
    from kcurate.cli.listing import known_outcomes

    kind = context.params.get("kind")
    return starting(known_outcomes([kind] if kind else []), incomplete)


OFFERS: Mapping[str, Callable[..., list[str]]] = {
    "pairs": pairs,
    "kernels": kernels,
    "either": either,
    "suites": suites,
    "outcomes": outcomes,
}
