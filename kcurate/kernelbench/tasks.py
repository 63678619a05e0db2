"""KernelBench's tasks: PyTorch modules to be replaced by faster device code with a plan.

They come from a checkout of the benchmark, a folder of such modules, or the dataset on the Hub. Every module
becomes a problem (`kernelbench.module_problem`) in a worker process; those that cannot are listed with the
reason. The reference is the module in eager PyTorch, run by a judge whose config allows `torch`. Not covered:
answers in Python as `ModelNew` (`evaluation.kernelbench_protocol`).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kcurate.core.notes import Note, silent
from kcurate.errors import InputError
from kcurate.hub import repository as hub
from kcurate.kernelbench.worker import Conversion, convert_all
from kcurate.problem import shown
from kcurate.records import Candidate, Origin, Problem, Side
from kcurate.reward.task import Task

HUB_NAME = "ScalingIntelligence/KernelBench"
URL = "https://github.com/ScalingIntelligence/KernelBench"
LICENSE = "MIT"
# The most bytes that all arrays of a task take at the bench size; the file's sizes are halved until they fit.
# Five times the L2 cache of an H200; for each completion the judge allocates, copies and compares about ten
# times as much.
BENCH_BYTES = 1 << 28
_FILE = re.compile(r"(\d+)_(.+?)_*(?:\.py)?\Z")


@dataclass(frozen=True)
class KernelBenchTasks:
    """The tasks in the order of their numbers. `left_out`: the reason for each module that became no task.

    `reduced`: the sizes in the file, for the tasks whose bench size is smaller.
    """

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
    codes = modules(source, level, revision)
    note(f"turning {len(codes)} PyTorch modules into tasks")
    tasks: list[Task] = []
    left_out: dict[str, str] = {}
    reduced: dict[str, Mapping[str, int]] = {}
    for name, module in convert_all(codes, bench_bytes).items():
        if module.problem is None:
            left_out[name] = module.why
            continue
        tasks.append(_task(name, module, level, brief, gpu))
        if module.as_in_file and module.problem.sizes.headline != module.as_in_file:
            reduced[name] = module.as_in_file
    return KernelBenchTasks(tuple(tasks), left_out, reduced)


def modules(source: str | Path | None, level: int, revision: str | None) -> dict[str, str]:
    """Name to code, in the order of the numbers.

    Raises:
        InputError: no modules there. RemoteError: the Hub is unreachable.
    """
    place = HUB_NAME if source is None else str(source)
    folder = Path(place)
    texts: dict[str, str]
    if folder.is_dir():
        texts = _from_folder(folder, level)
    elif folder.is_absolute() or place.startswith(".") or place.count("/") != 1:
        raise InputError(
            "no such folder", where=place, hint="a checkout of KernelBench, or USER/NAME on the Hub"
        )
    else:
        texts = _from_hub(place, level, revision)
    if not texts:
        raise InputError(
            f"no modules of level {level} here", where=place, hint="name a checkout of KernelBench"
        )
    return dict(sorted(texts.items(), key=lambda item: (_number(item[0]), item[0])))


def _from_folder(folder: Path, level: int) -> dict[str, str]:
    places = (folder / "KernelBench" / f"level{level}", folder / f"level{level}", folder)
    of_level = next(place for place in places if place.is_dir())
    try:
        texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(of_level.glob("*.py"))}
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read a module: {error}", where=str(of_level)) from error
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


def family_of(name: str) -> str:
    """The family of a module: its name without its number."""
    match = _FILE.match(name)
    return (match[2] if match else name).replace("_", "-").strip("-").lower()


def template_of(name: str, level: int, how: str, problem: Problem | None, slow: Side) -> Candidate:
    """The candidate of a module, with an empty fast side; `how`: how an answer is judged, in words."""
    return Candidate(
        id=f"kernelbench/level{level}/{name.strip('_')}",
        family=family_of(name),
        domain="deep-learning",
        license=LICENSE,
        origin=Origin("model", suite="kernelbench", url=URL, made="fast"),
        techniques=(),
        description=f"KernelBench, level {level}, {name}: {how}.",
        problem=problem,
        slow=slow,
        fast=Side("", ()),
    )


def _task(name: str, module: Conversion, level: int, brief: bool, gpu: str) -> Task:
    assert module.problem is not None and module.side is not None
    how = "device code against eager PyTorch"
    template = template_of(name, level, how, module.problem, module.side)
    return Task(template.id, template.family, shown.request(template, brief=brief, gpu=gpu), template)
