"""A completion as a row of a Parquet file: what was asked, what came back, and what the judge found.

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

from kcurate.core import codec, store
from kcurate.errors import InputError
from kcurate.train.task import Task


@dataclass(frozen=True)
class Completion:
    """One completion; of those of one `sample`, each `turn` (from 1) saw what was found of the one before.

    `given`: the hash of the task's problem and given side. `prompt`: the chat messages, as JSON. `form`: text
    or the input of the answer tool. `status`: how the exchange ended. `usd`: None if the price is unknown.
    `gpu_s`: its share of the seconds of sampling on a GPU. `taught`: the adapter was taught its family; None:
    it does not say. From `outcome` on: None before it is judged; `known` is the speedup of the task's known
    answer.
    """

    task: str
    family: str
    given: str
    sample: int
    turn: int
    prompt: str
    prompt_sha256: str
    reply: str
    form: str
    status: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    usd: float | None = None
    gpu_s: float | None = None
    taught: bool | None = None
    outcome: str | None = None
    reward: float | None = None
    speedup: float | None = None
    known: float | None = None
    detail: str | None = None
    judge_s: float | None = None
    audit: bool | None = None
    cheat: bool | None = None
    key: str | None = None


def given_hash(task: Task) -> str:
    """Equal for tasks that ask the same: the problem and the given side."""
    template = task.template
    parts = (codec.to_data(one) for one in (template.problem, template.slow))
    return store.content_id("given", *(codec.canonical_json(part) for part in parts))


def write(path: Path, rows: Sequence[Completion]) -> None:
    """Write all rows of a file, atomically."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(one.name, kinds[_plain(_hints()[one.name])]) for one in fields(Completion)])
    data = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([vars(row) for row in rows], schema), data, compression="zstd")
    store.write_bytes(path, data.getvalue())


def read(path: Path, *, hint: str) -> list[Completion]:
    """The rows of a file. `hint`: what makes it, where it is missing.

    Raises:
        InputError: no such file, or not one of ours: a value of another kind, a completion twice, a task of
            two families.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = [Completion(**row) for row in pq.read_table(path).to_pylist()]
    except FileNotFoundError as error:
        raise InputError("no such file", where=str(path), hint=hint) from error
    except (OSError, pa.ArrowException, TypeError) as error:
        raise InputError("not a file of completions", where=str(path), hint=hint) from error
    if wrong := next((f"row {i}: {why}" for i, why in enumerate(map(_misfit, rows)) if why), _doubled(rows)):
        raise InputError(f"not a file of completions: {wrong}", where=str(path), hint=hint)
    return rows


def _misfit(row: Completion) -> str:
    """What a row has that no completion has; empty: nothing."""
    for name, hint in _hints().items():
        value, kind = getattr(row, name), _plain(hint)
        if value is None and kind is not hint:
            continue
        if type(value) is not kind or (kind is float and not math.isfinite(value)):
            return f"{name} is {value!r}"
    return f"speedup is {row.speedup}" if row.speedup is not None and row.speedup <= 0 else ""


def _doubled(rows: Sequence[Completion]) -> str:
    """Which completion is there twice, or which task has two families; empty: none."""
    seen: set[tuple[str, int, int]] = set()
    families: dict[str, str] = {}
    for row in rows:
        place = (row.task, row.sample, row.turn)
        if place in seen:
            return f"{row.task}: sample {row.sample}, turn {row.turn} is there twice"
        if families.setdefault(row.task, row.family) != row.family:
            return f"{row.task} has two families"
        seen.add(place)
    return ""


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Completion)


def _plain(hint: Any) -> Any:
    """`float` of `float | None`."""
    return next((one for one in getattr(hint, "__args__", ()) if one is not type(None)), hint)
