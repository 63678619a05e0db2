"""KernelBench's tasks: PyTorch modules to be replaced by faster device code with a plan.

They come from a checkout of the benchmark, a folder of such modules, or the dataset on the Hub. Every module
becomes a problem (`kernelbench.module_problem`) in a worker process; those that cannot are listed with the
reason. The reference is the module in eager PyTorch, run by a judge whose config allows `torch`. Not covered:
answers in Python as `ModelNew` (`kernelbench.protocol`).
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kcurate.core.notes import Note, silent
from kcurate.errors import InputError
from kcurate.hub import repository as hub
from kcurate.problem import shown
from kcurate.records import Candidate, Origin, Side
from kcurate.train.kernelbench.worker import Found, find_all
from kcurate.train.task import Task, check_held_out

HUB_NAME = "ScalingIntelligence/KernelBench"
URL = "https://github.com/ScalingIntelligence/KernelBench"
LICENSE = "MIT"
# All arrays of a task at the bench size; the file's sizes are halved until they fit. The judge allocates,
# copies and compares about ten times this per completion. It is five times the L2 cache of an H200.
BENCH_BYTES = 1 << 28
# The paper's split: 80 to 20, seed 42.
HELD_OUT, SPLIT_SEED = 0.2, 42
_FILE = re.compile(r"(\d+)_(.+?)_*(?:\.py)?\Z")


@dataclass(frozen=True)
class KernelBenchTasks:
    """The tasks, by number; the modules left out, with the reason; and the file's sizes of tasks whose bench
    size is smaller than the file's."""

    tasks: tuple[Task, ...]
    left_out: Mapping[str, str]
    reduced: Mapping[str, Mapping[str, int]]


def load(
    source: str | Path | None = None,
    *,
    level: int = 1,
    bench_bytes: int | None = BENCH_BYTES,
    brief: bool = False,
    gpu: str = "",
    revision: str | None = None,
    note: Note = silent,
) -> KernelBenchTasks:
    """The tasks of a checkout, of a folder of modules, or of a dataset on the Hub (None: KernelBench's).

    `bench_bytes`: the most that the arrays of a task may take at the bench size (None: no limit). `brief`:
    prompts with the short rules. `gpu`: what prompts name.

    Raises:
        InputError: no modules there. RemoteError: the Hub is unreachable.
        MissingDependencyError: torch is not installed.
    """
    there = modules(source, level, revision)
    note(f"turning {len(there)} PyTorch modules into tasks")
    found = find_all(there, bench_bytes)
    tasks = [_task(name, one, level, brief, gpu) for name, one in found.items() if one.problem is not None]
    reduced = {
        name: one.as_in_file
        for name, one in found.items()
        if one.problem is not None and one.as_in_file and one.problem.sizes.headline != one.as_in_file
    }
    return KernelBenchTasks(
        tuple(tasks), {name: one.why for name, one in found.items() if one.problem is None}, reduced
    )


def split(
    tasks: Sequence[Task], held_out_fraction: float = HELD_OUT, seed: int = SPLIT_SEED
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Training and held-out tasks, split at random as in the paper; equal input and seed give equal splits.

    Raises:
        InputError: the fraction is not in [0, 1).
    """
    check_held_out(held_out_fraction)
    order = sorted(task.id for task in tasks)
    random.Random(seed).shuffle(order)
    held = set(order[: round(held_out_fraction * len(order))])
    return (
        tuple(task for task in tasks if task.id not in held),
        tuple(task for task in tasks if task.id in held),
    )


def modules(source: str | Path | None, level: int, revision: str | None) -> dict[str, str]:
    """Name to code, in the order of the numbers.

    Raises:
        InputError: no modules there. RemoteError: the Hub is unreachable.
    """
    place = HUB_NAME if source is None else str(source)
    folder = Path(place)
    found: dict[str, str]
    if folder.is_dir():
        found = _from_folder(folder, level)
    elif folder.is_absolute() or place.startswith(".") or place.count("/") != 1:
        raise InputError(
            "no such folder", where=place, hint="a checkout of KernelBench, or USER/NAME on the Hub"
        )
    else:
        found = _from_hub(place, level, revision)
    if not found:
        raise InputError(
            f"no modules of level {level} here", where=place, hint="name a checkout of KernelBench"
        )
    return dict(sorted(found.items(), key=lambda item: (_number(item[0]), item[0])))


def _from_folder(folder: Path, level: int) -> dict[str, str]:
    places = (folder / "KernelBench" / f"level{level}", folder / f"level{level}", folder)
    inside = next(place for place in places if place.is_dir())
    try:
        texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(inside.glob("*.py"))}
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read a module: {error}", where=str(inside)) from error
    return {name: text for name, text in texts.items() if "get_inputs" in text}


def _from_hub(name: str, level: int, revision: str | None) -> dict[str, str]:
    """The rows of a dataset with the columns code, level, name and problem_id."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        hub.download(name, Path(folder), revision=revision)
        tables = [pq.read_table(path) for path in sorted(Path(folder).rglob("*.parquet"))]
    columns = {"code", "level", "name"}
    if not tables or not all(columns <= set(table.column_names) for table in tables):
        raise InputError(f"this dataset has no columns {', '.join(sorted(columns))}", where=name)
    rows = [row for table in tables for row in table.select(sorted(columns)).to_pylist()]
    return {str(row["name"]): str(row["code"]) for row in rows if int(row["level"]) == level}


def _number(name: str) -> int:
    match = _FILE.match(name)
    return int(match[1]) if match else 1 << 30


def named(name: str) -> str:
    """A module's name without its number: its family."""
    match = _FILE.match(name)
    return (match[2] if match else name).replace("_", "-").strip("-").lower()


def _task(name: str, found: Found, level: int, brief: bool, gpu: str) -> Task:
    """The task of one module; its empty fast side is replaced by a completion."""
    assert found.problem is not None and found.side is not None
    family = named(name)
    candidate = Candidate(
        id=f"kernelbench/level{level}/{name.strip('_')}",
        family=family,
        domain="deep-learning",
        license=LICENSE,
        origin=Origin("model", suite="kernelbench", url=URL, made="fast"),
        techniques=(),
        description=f"KernelBench, level {level}, {name}: device code against eager PyTorch.",
        problem=found.problem,
        slow=found.side,
        fast=Side("", ()),
    )
    return Task(candidate.id, family, shown.request(candidate, brief=brief, gpu=gpu), candidate)
