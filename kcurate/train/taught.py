"""What an adapter was taught, so that it is never scored on that: `taught.json` beside its weights.

Families and tasks stand there as hashes, so that a published adapter names nothing of a private dataset. A
stage writes all tasks that it was given, those too long for it too, and what the adapter it starts from was
taught. Not covered: which families are held out (`pair_tasks.split`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kcurate.core import codec, store
from kcurate.errors import InputError
from kcurate.train.evaluation.completions import given_hash
from kcurate.train.task import Task

NAME = "taught.json"


@dataclass(frozen=True)
class Taught:
    """Hashes of the names of families, and of what tasks ask (`given_hash`)."""

    families: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    def among(self, tasks: Sequence[Task]) -> list[Task]:
        """Those of the tasks that were taught: of a taught family, or asking the same under another name."""
        families, given = set(self.families), set(self.given)
        return [one for one in tasks if _hashed(one.family) in families or given_hash(one) in given]


def read(adapter: Path) -> Taught | None:
    """What an adapter was taught; None if it does not say.

    Raises:
        InputError: the file is not one of ours.
    """
    path = adapter / NAME
    try:
        return codec.from_data(Taught, json.loads(path.read_bytes()), where=str(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError("not a list of what was taught", where=str(path)) from error


def write(folder: Path, tasks: Iterable[Task], start: Path | None) -> None:
    """Write what a stage teaches; `start`: the adapter that it starts from."""
    before, tasks = (start and read(start)) or Taught(), tuple(tasks)
    families = {*before.families, *(_hashed(one.family) for one in tasks)}
    given = {*before.given, *map(given_hash, tasks)}
    store.write_bytes(
        folder / NAME, store.pretty_json(asdict(Taught(tuple(sorted(families)), tuple(sorted(given)))))
    )


def refuse(adapter: Path | None, tasks: Sequence[Task], *, hint: str) -> None:
    """Refuse to score an adapter on what it was taught.

    Raises:
        InputError: it was taught some of the tasks.
    """
    known = None if adapter is None else read(adapter)
    if known is not None and (found := known.among(tasks)):
        what = f"was taught the families of {len(found)} of {len(tasks)} tasks, such as {found[0].id}"
        raise InputError(what, where=str(adapter), hint=hint)


def _hashed(family: str) -> str:
    return hashlib.sha256(family.encode()).hexdigest()
