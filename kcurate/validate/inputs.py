"""Reads pair folders as candidates; one that cannot be judged gets a verdict as well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kcurate.core import own_files, store
from kcurate.errors import InputError
from kcurate.records import Candidate, Environment, Outcome, Verdict
from kcurate.verdicts.keys import PROTOCOL, verdict_key


@dataclass(frozen=True)
class Item:
    """One pair folder; `problem` says why `candidate` is None."""

    index: int
    folder: Path
    candidate: Candidate | None
    problem: str = ""


@store.without_collector()
def read(folders: Iterable[Path]) -> tuple[Item, ...]:
    """Read every folder; one without a readable candidate is an item too."""
    items = []
    for index, folder in enumerate(folders):
        try:
            items.append(Item(index, folder, store.read_candidate(folder)))
        except InputError as error:
            items.append(Item(index, folder, None, str(error)))
    return tuple(items)


def unjudged(item: Item, environment: Environment) -> Verdict:
    """The verdict on a folder that cannot be judged: no readable candidate, or one without a problem.

    The key of an unreadable one is the hash of its `pair.json`.
    """
    if item.candidate is not None:
        return Verdict(
            candidate=item.candidate.id,
            key=verdict_key(item.candidate),
            outcome=Outcome.NO_PROBLEM,
            environment=environment,
            detail="the pair has no problem yet: run kcurate problem draft, or write one",
            protocol=PROTOCOL,
        )
    path = item.folder / "pair.json"
    try:
        content = own_files.read(path)
    except InputError:
        content = b""
    return Verdict(
        candidate=item.folder.name,
        key=store.content_id("unreadable", str(item.folder), content),
        outcome=Outcome.MALFORMED,
        environment=environment,
        detail=item.problem.replace("\n", " "),
        protocol=PROTOCOL,
    )
