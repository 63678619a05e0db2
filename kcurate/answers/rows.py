"""Rows of published answers: a PyTorch module, the answer to it, and the ratio that its publisher claims.

| format | a row's module, answer, ratio |
|---|---|
| `kernelbench` | `ref_code`, `custom_code`, `score_default` (JSON, JSON lines, Parquet) |
| `cuda-engineer` | `PyTorch_Code_Functional`, `CUDA_Code`, `CUDA_Speedup_Native` (the same files) |
| `kernelbook` | `python_code`, `triton_code` (the same files) |
| `robust-kbench` | `tasks/<task>/func_forward.py`, and `Code` and `Speedup` of `results.csv` (a checkout) |

Each row becomes a module with `Model`, and one with `ModelNew`. A row that cannot be read becomes a `Bad`
one; reading continues. Not covered: what answers do (`answers.recording`).
"""

from __future__ import annotations

import csv
import itertools
import json
import re
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from kcurate.core import own_files, time_limits
from kcurate.core.worker_pool import Failure, Pool
from kcurate.errors import InputError, KcurateError

FORMATS = ("kernelbench", "cuda-engineer", "kernelbook", "robust-kbench")
# The longest line, and the longest cell of a CSV, that is read: an answer has at most 100 KB.
MAX_LINE_BYTES = 1 << 24
# The longest file that is one list, which is read at once.
MAX_LIST_BYTES = 1 << 30
# What a worker that reads Parquet may allocate: a small page may unpack to anything.
MAX_PARQUET_BYTES = 4 << 30
_UNUSUAL = re.compile(r"[^A-Za-z0-9._+-]")
MAX_ID, MAX_WHY = 100, 300
SUFFIXES = (".json", ".jsonl", ".parquet", ".csv")


@dataclass(frozen=True)
class Row:
    """One published answer. `claim`: the published ratio, as its publisher writes it."""

    id: str
    task: str
    reference: str
    answer: str
    claim: str | None = None


@dataclass(frozen=True)
class Bad:
    """A row that holds no answer, and why."""

    id: str
    outcome: str
    why: str


def read(form: str, path: Path) -> Iterator[Row | Bad]:
    """The rows of a file, or of every file below a folder, in order.

    Raises:
        InputError: no such format or path, or a file that is none of its format.
    """
    if form not in FORMATS:
        raise InputError("no such format", where=form, hint=f"one of {', '.join(FORMATS)}")
    if not path.exists():
        raise InputError("no such file or folder", where=str(path))
    used_ids = set[str]()
    for row in _robust(path) if form == "robust-kbench" else _of_files(form, path):
        numbered = (f"{row.id}-{number}" for number in itertools.count(2))
        id = row.id if row.id not in used_ids else next(name for name in numbered if name not in used_ids)
        used_ids.add(id)
        yield replace(row, id=id)


def _of_files(form: str, path: Path) -> Iterator[Row | Bad]:
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES)
    if not files:
        raise InputError(
            "no rows here", where=str(path), hint=f"a file with {', '.join(SUFFIXES)}, or a folder"
        )
    for file in files:
        try:
            for number, data in _records(file):
                yield _row(_READERS[form], data, f"{file.name}:{number}")
        except KcurateError as error:
            if len(files) == 1:
                raise
            yield Bad(part_of_path(file.name), "unreadable", str(error))


def _records(file: Path) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    """The number and columns of each record; in place of columns a text, why they cannot be read."""
    _check_file(file, MAX_LIST_BYTES if file.suffix == ".parquet" else own_files.MAX_LINES_BYTES)
    if file.suffix == ".parquet":
        yield from _parquet(file)
    elif file.suffix == ".csv":
        yield from enumerate(_csv(file), start=1)
    else:
        yield from _json(file)


def _check_file(file: Path, limit: int) -> None:
    """Check that it is a regular file.

    Raises:
        InputError, RecordError: it is not one.
    """
    try:
        own_files.check_size(file, limit)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(file)) from error


def _parquet(file: Path) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    """Its rows, read in a worker, since a malicious file may crash the reader; that loses only one row
    group."""
    with Pool(1, ("kcurate.answers.rows",)) as pool:

        def read(groups: Sequence[int] | None) -> list[Any] | str:
            tasks = [(file, groups, MAX_PARQUET_BYTES)]
            ((_, result),) = pool.run(_read_groups, tasks, timeout_s=time_limits.READ_UNIT_S, isolate=True)
            return result.detail if isinstance(result, Failure) else result

        sizes = read(None)
        if isinstance(sizes, str):
            raise InputError(f"not Parquet: {sizes}", where=str(file))
        all_rows = read(range(len(sizes)))
        if not isinstance(all_rows, str):
            yield from enumerate(all_rows, start=1)
            return
        number = 1
        for group, size in enumerate(sizes):
            records = read([group])
            if isinstance(records, str):
                yield number, f"row group {group} ({size} rows): {records}"
            else:
                yield from enumerate(records, start=number)
            number += max(0, size)


def _read_groups(task: tuple[Path, Sequence[int] | None, int]) -> list[Any] | str:
    """In a worker: the rows of row groups; without any, how many each group has. A text says why reading
    fails."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file, groups, limit = task
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    try:
        table = pq.ParquetFile(file, pre_buffer=False)
        if groups is None:
            return [table.metadata.row_group(group).num_rows for group in range(table.num_row_groups)]
        batches = table.iter_batches(256, row_groups=groups, use_threads=False)
        return [row for batch in batches for row in batch.to_pylist()]
    except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
        return (str(error).splitlines() or [type(error).__name__])[0][:MAX_WHY]


def _csv(file: Path) -> Iterator[Mapping[str, Any] | str]:
    csv.field_size_limit(MAX_LINE_BYTES)
    with file.open(encoding="utf-8", errors="replace", newline="") as lines:
        try:
            yield from csv.DictReader(lines)
        except csv.Error as error:
            yield f"not CSV from here on: {error}"


def _json(file: Path) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    """A list of objects, or one object per line, whatever the file's extension."""
    with file.open("rb") as lines:
        head = lines.read(4096).lstrip()[:1]
        lines.seek(0)
        if head == b"[":
            _check_file(file, MAX_LIST_BYTES)
            try:
                data = json.load(lines)
            except (ValueError, RecursionError) as error:
                raise InputError(f"not JSON: {error}", where=str(file)) from error
            yield from enumerate(data, start=1)
            return
        for number, line in enumerate(iter(lambda: lines.readline(MAX_LINE_BYTES), b""), start=1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except (ValueError, RecursionError) as error:
                    yield number, f"not JSON: {error}"


def _row(reader: Callable[[Mapping[str, Any], str], Row | Bad], data: Any, where: str) -> Row | Bad:
    if not isinstance(data, Mapping):
        return Bad(
            part_of_path(where),
            "unreadable",
            data if isinstance(data, str) else f"a {type(data).__name__}, not an object",
        )
    try:
        return reader(data, where)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError) as error:
        return Bad(part_of_path(where), "unreadable", f"{type(error).__name__}: {error}"[:MAX_WHY])
    except (KcurateError, OSError) as error:
        return Bad(part_of_path(where), "unreadable", str(error))


def part_of_path(text: str) -> str:
    """A text made safe as part of an id, for paths and terminals."""
    return _UNUSUAL.sub("-", text)[:MAX_ID].strip("-.") or "row"


def _kernelbench(data: Mapping[str, Any], where: str) -> Row | Bad:
    level, task = data.get("level_id", data.get("level")), data.get("task_id", data.get("problem_id"))
    name = where if level is None or task is None else f"{level}-{task}"
    return _checked(name, data.get("ref_code"), data.get("custom_code"), data.get("score_default"), name)


def _engineer(data: Mapping[str, Any], where: str) -> Row | Bad:
    level, task = data.get("Level_ID"), data.get("Task_ID")
    task_name = where if level is None or task is None else f"{level}-{task}"
    name = "-".join(filter(None, (task_name, str(data.get("Kernel_Name") or ""))))
    reference, code = data.get("PyTorch_Code_Functional"), data.get("CUDA_Code")
    answer = with_extension(str(reference), str(code)) if reference and code else None
    return _checked(name, reference, answer, data.get("CUDA_Speedup_Native"), task_name)


def _kernelbook(data: Mapping[str, Any], where: str) -> Row | Bad:
    name = str(data.get("uuid", where))
    return _checked(
        name, data.get("python_code"), data.get("triton_code"), None, str(data.get("entry_point", name))
    )


_READERS: Mapping[str, Callable[[Mapping[str, Any], str], Row | Bad]] = {
    "kernelbench": _kernelbench,
    "cuda-engineer": _engineer,
    "kernelbook": _kernelbook,
}


def _checked(name: str, reference: Any, answer: Any, claim: Any, task: str) -> Row | Bad:
    name, task = part_of_path(name), part_of_path(task)
    if not isinstance(answer, str) or not answer.strip():
        return Bad(name, "no_code", "the row has no code")
    if not isinstance(reference, str) or not reference.strip():
        return Bad(name, "unreadable", "the row has no PyTorch module")
    claim_text = None if claim in (None, "") else f"{float(claim):.4g}"
    return Row(name, task, reference, answer, claim_text)


def with_extension(reference: str, source: str) -> str:
    """A module `ModelNew` that gives the module's `fn` the extension's `forward`."""
    return (
        f"{reference}\n\nfrom torch.utils.cpp_extension import load_inline\n"
        f"_extension = load_inline(name='answer', cuda_sources=[{source!r}])\n\n"
        "class ModelNew(Model):\n    def forward(self, *inputs):\n"
        "        return super().forward(*inputs, fn=_extension.forward)\n"
    )


def _robust(folder: Path) -> Iterator[Row | Bad]:
    results = folder if folder.is_file() else next(iter(sorted(folder.rglob("results.csv"))), None)
    if results is None:
        raise InputError("no results.csv here", where=str(folder), hint="a checkout of robust-kbench")
    root = next((place for place in results.parents if (place / "tasks").is_dir()), results.parent)
    _check_file(results, own_files.MAX_LINES_BYTES)
    for number, data in enumerate(_csv(results), start=1):
        yield _row(partial(_robust_row, root), data, f"{results.name}:{number}")


def _robust_row(root: Path, data: Mapping[str, Any], where: str) -> Row | Bad:
    task, forward = str(data.get("task_name")), str(data.get("forward")) == "True"
    name = f"{task}-{'forward' if forward else 'backward'}"
    if not forward:
        why = "a backward pass: its gradients come from autograd, not from a module"
        return Bad(part_of_path(name), "no_problem", why)
    if not re.fullmatch(r"\w[\w.-]*", task):
        return Bad(part_of_path(where), "unreadable", "its task is no name of a folder")
    place = root / "tasks" / task
    function = own_files.read(place / "func_forward.py").decode("utf-8")
    reference = _as_module(function, json.loads(own_files.read(place / "config_forward.json")))
    code = data.get("Code") or ""
    answer = with_extension(reference, code) if code else ""
    return _checked(name, reference, answer, data.get("Speedup"), task)


def _as_module(function: str, config: Mapping[str, Any]) -> str:
    """A task's module in KernelBench's layout: its first configuration's numbers as constants."""
    shared, inputs, start = (
        dict(config[f"single_{kind}_configs"][0]) if config.get(f"single_{kind}_configs") else {}
        for kind in ("shared", "input", "init")
    )
    values = {**shared, **inputs, **start}
    constants = "".join(f"{key} = {value!r}\n" for key, value in values.items() if key.isidentifier())
    of_inputs, of_start = repr([*shared, *inputs]), repr([*shared, *start])
    return f"{function}\n\n{constants}\n" + _LAYOUT.format(of_inputs=of_inputs, of_start=of_start)


_LAYOUT = """
_all_inputs = get_inputs

def _named(function, names):
    import inspect

    taken = inspect.signature(function).parameters
    return {{name: globals()[name] for name in names if name in taken}}

def get_inputs():
    return [x.detach() for x in _all_inputs(**_named(_all_inputs, {of_inputs}))]

def get_init_inputs():
    return _named(Model.__init__, {of_start})
"""
