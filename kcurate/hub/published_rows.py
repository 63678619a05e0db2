"""Reads rows of a published dataset, from a folder or from the Hub, and makes pairs of them.

Not covered: making rows (`kcurate.dataset`).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kcurate.core import codec, store
from kcurate.core.notes import Note, silent
from kcurate.errors import InputError, RecordError
from kcurate.hub import repository as hub
from kcurate.records import SIDES, Candidate

# Required columns of `pairs`; the others may be missing.
_NEEDED = (
    *("id", "family", "domain", "license", "description", "techniques", "origin", "problem"),
    *("slow_code", "slow_side", "fast_code", "fast_side", "content", "outcome", "device"),
    *("speedup", "speedup_low", "speedup_high"),
)


@contextmanager
def opened(dataset: str, *, revision: str | None = None, note: Note = silent) -> Iterator[Path]:
    """A dataset's folder: a local one, or a download of USER/NAME from the Hub, removed on exit.

    Raises:
        InputError: neither a folder nor such a name. RemoteError: the Hub has no such dataset, or cannot be
        reached.
    """
    path = Path(dataset)
    if path.is_dir():
        yield path
        return
    if path.is_absolute() or dataset.startswith(".") or dataset.count("/") != 1:
        raise InputError("no such folder", where=dataset, hint="a folder, or USER/NAME on the Hub")
    with tempfile.TemporaryDirectory() as name:
        note(f"loading {dataset}")
        hub.download(dataset, Path(name), revision=revision)
        yield Path(name)


def read_rows(folder: Path, config: str = "pairs") -> dict[str, list[dict[str, Any]]]:
    """Rows by split, for one config of a dataset folder.

    Raises:
        InputError: the config does not exist, a file is not Parquet, or a required column is missing.
    """
    import pyarrow.parquet as pq
    from pyarrow.lib import ArrowException

    rows: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((folder / config).glob("*.parquet")):
        try:
            table = pq.read_table(path)
        except (ArrowException, OSError) as error:  # a damaged page is an OSError
            why = "not a Parquet file, or damaged"
            raise InputError(why, where=str(path), hint="rebuild or download it") from error
        missing = [name for name in _NEEDED if name not in table.column_names] if config == "pairs" else []
        if missing:
            why = f"not rows of pairs: no column {', '.join(missing)}"
            raise InputError(why, where=str(path), hint="rebuild it, or remove the file")
        rows.setdefault(path.name.split("-")[0], []).extend(table.to_pylist())
    if not rows:
        raise InputError(f"no {config}/*.parquet here", where=str(folder), hint="run kcurate build")
    return rows


def candidate_of(row: Mapping[str, Any]) -> Candidate:
    """The candidate that a row contains, with its published (normalised) code.

    Raises:
        RecordError: a column is missing, or its JSON does not match the schema of a pair.
    """
    where = str(row.get("id"))
    origin = {key: row.get(key) for key in ("suite", "url", "revision", "made", "model", "parent")}
    origin["problem"] = row.get("problem_source")
    lists = {key: list(row.get(key) or ()) for key in ("kernels", "rules")}
    data = {
        **{key: row.get(key) for key in ("id", "family", "domain", "license", "description")},
        "techniques": list(row.get("techniques") or ()),
        "worth": {technique["technique"]: technique["ratio"] for technique in row.get("worth") or ()},
        "origin": {"kind": row.get("origin"), **{k: v for k, v in {**origin, **lists}.items() if v}},
        "problem": _loads(row, "problem"),
    }
    sides = {side: _loads(row, f"{side}_side") or {} for side in SIDES}
    form = {side: {"file": f"{side}.cu", **data} for side, data in sides.items()}
    store.check_schema("pair", {"schema": store.PAIR_SCHEMA, **data, **form}, where=where)
    codes = {side: {"code": row.get(f"{side}_code"), **data} for side, data in sides.items()}
    return codec.from_data(Candidate, {**data, **codes}, where=where)


def _loads(row: Mapping[str, Any], column: str) -> Any:
    try:
        return json.loads(row.get(column) or "null")
    except ValueError as error:
        raise RecordError(f"{column} is not JSON: {error}", where=str(row.get("id"))) from error
