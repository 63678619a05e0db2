"""Tasks from pairs: the prompt shows the slow side with its plan, the answer is the fast side.

Pairs come from the built-in corpus, a workspace or any folder of pair folders, or a published dataset (a
folder or USER/NAME on the Hub). Prompts show them as published: no comments, neutral names. Not covered:
tasks from KernelBench (`kernelbench.tasks`), which tasks are held out (`splits`), stages of permitted
techniques (`train.curriculum`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kcurate import roofline
from kcurate.core import resources, store
from kcurate.core.notes import Note, silent
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError
from kcurate.hub.published_rows import candidate_of, opened, read_rows
from kcurate.problem.lessons import Lesson, Proved, gpu_named, lessons, unasked
from kcurate.problem.neutral import neutral
from kcurate.records import Candidate, Outcome
from kcurate.reward.task import Task
from kcurate.verdicts import standing

BUILT_IN = "builtin"
# The outcomes of usable pairs; the second only if the caller accepts untimed pairs.
_USABLE = (Outcome.CONFIRMED.value, Outcome.CORRECT.value)


def load(
    *sources: str,
    brief: bool = False,
    untimed: bool = False,
    split: str | None = None,
    revision: str | None = None,
    gpu: str | None = None,
    note: Note = silent,
) -> tuple[Task, ...]:
    """The lessons of proved pairs (`kcurate.problem.lessons`) as tasks, ordered by id.

    `sources`: the built-in pairs (the default), folders, and datasets on the Hub. If two sources use an id
    for different code, the later one is left out. `brief`: prompts with the short rules. `untimed`: also
    pairs that were only judged correct (no GPU). `split`: only this split of a published dataset.
    `revision`: of a dataset on the Hub. `gpu`: what prompts name (None: the GPU of each pair's verdict).

    Raises:
        InputError: no such folder or dataset, or no usable pair in it. RemoteError: the Hub is unreachable.
    """
    outcomes = _USABLE if untimed else _USABLE[:1]
    by_id: dict[str, Proved] = {}
    clashes = 0
    for source in sources or (BUILT_IN,):
        proved = list(_proved(source, outcomes, split, revision, note))
        if not proved:
            hint = "run kcurate validate on a GPU first"
            raise InputError(f"no pair here is {' or '.join(outcomes)}", where=source, hint=hint)
        if all(reasons := [unasked(entry.pair) for entry in proved]):
            why = ", ".join(sorted({*filter(None, reasons)}))
            raise InputError(f"no pair here can become a task: {why}", where=source)
        clashes += sum(by_id.get(entry.pair.id, entry).pair != entry.pair for entry in proved)
        by_id |= {entry.pair.id: entry for entry in proved if entry.pair.id not in by_id}
    if clashes:
        note(f"left out because an earlier dataset has their id: {clashes}")
    usable = (
        by_id.values() if gpu is None else (replace(entry, gpu=gpu, target="") for entry in by_id.values())
    )
    return tuple(map(_task, lessons(usable, brief=brief).taught))


def minted(root: Path, *, gpu: str = "", brief: bool = False) -> tuple[Task, ...]:
    """The problems that `kcurate mint` wrote into a workspace, answered or not: given is the plain side.

    Raises:
        InputError: there are none.
    """
    folder = Workspace(root).pairs / "minted"
    pairs = store.find_candidates(folder) if store.is_folder(folder) else []
    tasks = []
    for pair in (store.read_candidate(path) for path in pairs if path.name == "plain"):
        given_pair = neutral(replace(pair, slow=pair.fast))
        tasks.append(replace(task_of(given_pair, brief=brief, gpu=gpu), answer=None, local_edit=False))
    if not tasks:
        raise InputError("no minted problem here", where=str(root), hint="run kcurate mint first")
    return tuple(tasks)


def task_of(pair: Candidate, *, brief: bool = False, gpu: str = "") -> Task:
    """The task of one published pair."""
    (lesson,) = lessons((Proved(pair, gpu=gpu),), brief=brief).taught
    return _task(lesson)


def scored(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks that count in scores: without those that ask for a technique, and without local edits."""
    return tuple(task for task in tasks if task.technique is None and not task.local_edit)


def _task(lesson: Lesson) -> Task:
    pair = lesson.pair
    return Task(
        pair.id,
        pair.family,
        lesson.prompt,
        pair,
        lesson.answer,
        technique=lesson.technique,
        local_edit=lesson.local_edit,
        known=lesson.speedup,
    )


def _proved(
    source: str, outcomes: Sequence[str], split: str | None, revision: str | None, note: Note
) -> Iterator[Proved]:
    root = Path(source)
    if source == BUILT_IN:
        yield from _folders(resources.pairs_dir(), outcomes)
    elif root.is_dir() and not any((root / "pairs").glob("*.parquet")):
        yield from _folders(root, outcomes)
    else:
        with opened(source, revision=revision, note=note) as folder:
            rows = read_rows(folder)
        if split is not None and split not in rows:
            raise InputError(f"no split {split!r}", where=source, hint=f"one of {', '.join(rows)}")
        for name, split_rows in rows.items():
            for row in split_rows if split in (None, name) else ():
                if row["outcome"] in outcomes:
                    pair = candidate_of(row)
                    yield Proved.of_row(pair, row, _target(pair, row["device"]))


def _folders(root: Path, outcomes: Sequence[str]) -> Iterator[Proved]:
    """The usable pairs of a folder tree, by the verdicts next to them and in the workspace."""
    workspace = Workspace(root)
    pairs = workspace.pairs if store.is_folder(workspace.pairs) else root
    for candidate, verdicts in standing.judged(store.find_candidates(pairs), workspace):
        best = standing.best(standing.current(candidate, verdicts))
        if best is not None and best.outcome.value in outcomes:
            where = best.environment
            gpu = gpu_named(where.device, where.compiler, where.details)
            speedup = best.speedup.ratio if best.speedup else None
            target = _target(candidate, where.device)
            yield Proved(neutral(candidate), speedup, gpu, target=target)


def _target(pair: Candidate, device: str) -> str:
    return roofline.target(pair.problem, pair.family, device) if pair.problem is not None else ""
