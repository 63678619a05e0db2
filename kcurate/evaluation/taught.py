"""What an adapter was taught, so that it is never evaluated on it: `taught.json` beside its weights.

Families and tasks are stored as hashes, so that a published adapter names nothing of a private dataset. A
stage writes all tasks that it was given, including those dropped as too long, and what the adapter it starts
from was taught. Not covered: which families are held out (`reward.splits`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kcurate.core import codec, store
from kcurate.errors import InputError
from kcurate.reward.task import Task, given_hash

NAME = "taught.json"


@dataclass(frozen=True)
class Taught:
    """Hashes of the names of families, and of what tasks ask (`given_hash`)."""

    families: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    def among(self, tasks: Sequence[Task]) -> list[Task]:
        """Those of the tasks that were taught: of a taught family, or asking the same under another name."""
        families, asked = set(self.families), set(self.given)
        return [task for task in tasks if _hashed(task.family) in families or given_hash(task) in asked]


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
    # Nothing can be carried over from an adapter without `taught.json`: the new list then has this stage's
    # tasks alone, and the earlier ones are not refused.
    before, tasks = (start and read(start)) or Taught(), tuple(tasks)
    families = {*before.families, *(_hashed(task.family) for task in tasks)}
    asked = {*before.given, *map(given_hash, tasks)}
    store.write_bytes(
        folder / NAME, store.pretty_json(asdict(Taught(tuple(sorted(families)), tuple(sorted(asked)))))
    )


def refuse(adapter: Path | None, tasks: Sequence[Task], *, hint: str) -> None:
    """Refuse to score an adapter on what it was taught.

    Raises:
        InputError: it was taught some of the tasks.
    """
    known = None if adapter is None else read(adapter)
    if known is not None and (again := known.among(tasks)):
        what = f"was taught the families of {len(again)} of {len(tasks)} tasks, such as {again[0].id}"
        raise InputError(what, where=str(adapter), hint=hint)


def _hashed(family: str) -> str:
    return hashlib.sha256(family.encode()).hexdigest()
