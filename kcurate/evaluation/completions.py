"""A completion as a row of a Parquet file: the prompt, the reply, and the judge's findings.

Not covered: where completions come from (`sampling`), who judges them (`judging`).
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from kcurate.core import store
from kcurate.errors import InputError


@dataclass(frozen=True)
class Completion:
    """One completion; within a `sample`, each `turn`'s prompt includes the feedback on the turn before."""

    task: str
    family: str
    given: str  # hash of the task's problem and given side
    sample: int
    turn: int  # from 1
    prompt: str  # the chat messages, as JSON
    prompt_sha256: str
    reply: str
    form: str  # of `reply`: text, or the input of the answer tool
    status: str  # how the exchange ended
    input_tokens: int | None = None
    output_tokens: int | None = None
    usd: float | None = None  # None: the price is unknown
    gpu_s: float | None = None  # its share of the sampling time on a GPU
    # The adapter was taught this family or given side; None: no adapter, or one without `taught.json`.
    taught: bool | None = None
    # From here on: None until judged.
    outcome: str | None = None
    reward: float | None = None
    speedup: float | None = None
    known: float | None = None  # speedup of the task's known answer
    detail: str | None = None
    judge_s: float | None = None
    audit: bool | None = None
    cheat: bool | None = None
    key: str | None = None


def write(path: Path, rows: Sequence[Completion]) -> None:
    """Write all rows of a file, atomically."""
    import pyarrow as pa

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(column.name, types[_plain(_hints()[column.name])]) for column in fields(Completion)])
    write_table(path, pa.Table.from_pylist([vars(row) for row in rows], schema))


def write_table(path: Path, table: Any) -> None:
    """Write a pyarrow table that is a result to keep, atomically."""
    import pyarrow.parquet as pq

    data = io.BytesIO()
    # Written once and kept: the smallest file. Statistics would hold the longest texts once more.
    pq.write_table(table, data, compression="zstd", compression_level=19, write_statistics=False)
    store.write_bytes(path, data.getvalue())


def read(path: Path, *, hint: str) -> list[Completion]:
    """The rows of a file. `hint`: the command that makes it, for the error if it is missing.

    Raises:
        InputError: no such file, or not one of ours: a value of the wrong type, a speedup of 0 or less, a
            duplicate completion, a task with two families.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = [Completion(**row) for row in pq.read_table(path).to_pylist()]
    except FileNotFoundError as error:
        raise InputError("no such file", where=str(path), hint=hint) from error
    except (OSError, pa.ArrowException, TypeError) as error:
        raise InputError("not a file of completions", where=str(path), hint=hint) from error
    if wrong := next(
        (f"row {i}: {why}" for i, why in enumerate(map(_invalid, rows)) if why), _duplicate(rows)
    ):
        raise InputError(f"not a file of completions: {wrong}", where=str(path), hint=hint)
    return rows


def _invalid(row: Completion) -> str:
    """What is invalid in a row (type, number not finite, speedup <= 0); empty if nothing."""
    for name, hint in _hints().items():
        value, cls = getattr(row, name), _plain(hint)
        if value is None and cls is not hint:
            continue
        if type(value) is not cls or (cls is float and not math.isfinite(value)):
            return f"{name} is {value!r}"
    if row.speedup is not None and row.speedup <= 0:
        return f"speedup is {row.speedup}"
    return ""


def _duplicate(rows: Sequence[Completion]) -> str:
    """The first duplicate completion, or task with two families; empty if none."""
    earlier: set[tuple[str, int, int]] = set()
    families: dict[str, str] = {}
    for row in rows:
        key = (row.task, row.sample, row.turn)
        if key in earlier:
            return f"{row.task}: sample {row.sample}, turn {row.turn} is there twice"
        if families.setdefault(row.task, row.family) != row.family:
            return f"{row.task} has two families"
        earlier.add(key)
    return ""


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Completion)


def _plain(hint: Any) -> Any:
    """`float` of `float | None`."""
    return next((cls for cls in getattr(hint, "__args__", ()) if cls is not type(None)), hint)
