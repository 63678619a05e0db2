"""Tasks from pairs: the slow side with its plan in, the faster side out; and their split by family.

Pairs come from the built-in corpus, a workspace or any folder of pair folders, or a published dataset (a
folder or USER/NAME on the Hub). Prompts show them as published: no comments, neutral names. Not covered:
tasks from KernelBench (`kernelbench.tasks`), stages of permitted techniques (`curriculum`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kcurate.core import resources, store
from kcurate.core.notes import Note, silent
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError
from kcurate.hub.published_rows import candidate_of, opened, read_rows
from kcurate.problem.lessons import Lesson, Proved, gpu_named, lessons, together, unasked
from kcurate.problem.neutral import neutral
from kcurate.records import Candidate, Outcome
from kcurate.train.task import Task, check_held_out
from kcurate.verdicts import standing

BUILT_IN = "builtin"
# The outcomes of usable pairs; the second one only if the caller accepts untimed pairs.
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
    known: dict[str, Proved] = {}
    clashes = 0
    for source in sources or (BUILT_IN,):
        found = list(_proved(source, outcomes, split, revision, note))
        if not found:
            hint = "run kcurate validate on a GPU first"
            raise InputError(f"no pair here is {' or '.join(outcomes)}", where=source, hint=hint)
        if all(reasons := [unasked(one.pair) for one in found]):
            why = ", ".join(sorted({*filter(None, reasons)}))
            raise InputError(f"no pair here can become a task: {why}", where=source)
        clashes += sum(known.get(one.pair.id, one).pair != one.pair for one in found)
        known |= {one.pair.id: one for one in found if one.pair.id not in known}
    if clashes:
        note(f"left out because an earlier dataset has their id: {clashes}")
    shown_on = known.values() if gpu is None else (replace(one, gpu=gpu) for one in known.values())
    return tuple(map(_task, lessons(shown_on, brief=brief).taught))


def task_of(pair: Candidate, *, brief: bool = False) -> Task:
    """The task of one published pair, by itself."""
    (lesson,) = lessons((Proved(pair),), brief=brief).taught
    return _task(lesson)


def scored(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks that scores count: none asks for a technique, and no answer is mostly the given code."""
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
        for name, inside in rows.items():
            for row in inside if split in (None, name) else ():
                if row["outcome"] in outcomes:
                    yield Proved.of_row(candidate_of(row), row)


def _folders(root: Path, outcomes: Sequence[str]) -> Iterator[Proved]:
    """The usable pairs of a folder tree, by the verdicts next to them and those of the workspace."""
    inside = Workspace(root)
    places = inside.pairs if inside.pairs.is_dir() else root
    for candidate, verdicts in standing.judged(store.find_candidates(places), inside):
        best = standing.best(standing.current(candidate, verdicts))
        if best is not None and best.outcome.value in outcomes:
            gpu = gpu_named(best.environment.device, best.environment.compiler)
            yield Proved(neutral(candidate), best.speedup.ratio if best.speedup else None, gpu)


def split(
    tasks: Sequence[Task], held_out_fraction: float, seed: int
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Training and held-out tasks, about `held_out_fraction` (0 to 1) of the tasks held out.

    No family is in both, and families of which one holds a function of the other stay together. The same
    input and seed give the same split. With two or more groups neither part is empty, unless the fraction
    is 0.

    Raises:
        InputError: the fraction is not in [0, 1).
    """
    check_held_out(held_out_fraction)
    groups = _groups(tasks)
    random.Random(seed).shuffle(groups)
    wanted, held = held_out_fraction * len(tasks), set[str]()
    count = 0
    sizes = {group: sum(task.family in group for task in tasks) for group in groups}
    for group in groups[:-1] if held_out_fraction else []:
        if count + sizes[group] / 2 <= wanted:
            held |= group
            count += sizes[group]
    if held_out_fraction and not held and len(groups) > 1:
        held = set(min(sizes.items(), key=lambda item: item[1])[0])
    return (
        tuple(task for task in tasks if task.family not in held),
        tuple(task for task in tasks if task.family in held),
    )


def _groups(tasks: Sequence[Task]) -> list[frozenset[str]]:
    """Families that must stay together, in an order that depends only on names."""
    sides = ((task.family, side.code) for task in tasks for side in (task.template.slow, task.template.fast))
    return sorted({*together(sides).values()}, key=sorted)
