"""Which tasks an adapter was trained on, so that it is never evaluated on them: `taught.json`, beside its
weights.

Families and tasks are stored as hashes, so that a published adapter reveals nothing of a private dataset. A
stage lists all of its tasks, including those that it drops as too long, and the list of the adapter that it
starts from. Not covered: which families are held out (`reward.splits`).
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
    """Hashes of the names of families, and of the tasks themselves (`given_hash`)."""

    families: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    def among(self, tasks: Sequence[Task]) -> list[Task]:
        """The tasks that were trained on: of a listed family, or equal to a listed task except in name."""
        families, hashes = set(self.families), set(self.given)
        return [task for task in tasks if _hashed(task.family) in families or given_hash(task) in hashes]


def read(adapter: Path) -> Taught | None:
    """The families and tasks that an adapter was trained on; None if it has no `taught.json`.

    Raises:
        InputError: the file has another form.
    """
    path = adapter / NAME
    try:
        return codec.from_data(Taught, json.loads(path.read_bytes()), where=str(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError("not a list of what was taught", where=str(path)) from error


def write(folder: Path, tasks: Iterable[Task], start: Path | None) -> None:
    """Write the families and tasks that a stage trains on; `start`: the adapter that it starts from."""
    # If that adapter has no `taught.json`, earlier tasks are not in the list, and so not refused.
    before, tasks = (start and read(start)) or Taught(), tuple(tasks)
    families = {*before.families, *(_hashed(task.family) for task in tasks)}
    hashes = {*before.given, *map(given_hash, tasks)}
    taught = Taught(tuple(sorted(families)), tuple(sorted(hashes)))
    store.write_bytes(folder / NAME, store.pretty_json(asdict(taught)))


def refuse(adapter: Path | None, tasks: Sequence[Task], *, hint: str) -> None:
    """Refuse to score an adapter on tasks that it was trained on.

    Raises:
        InputError: it was trained on some of the tasks.
    """
    taught = None if adapter is None else read(adapter)
    if taught is not None and (again := taught.among(tasks)):
        why = f"was taught the families of {len(again)} of {len(tasks)} tasks, such as {again[0].id}"
        raise InputError(why, where=str(adapter), hint=hint)


def _hashed(family: str) -> str:
    return hashlib.sha256(family.encode()).hexdigest()
