"""Tasks from pairs: the slow side with its plan in, the faster side out; and their split by family.

Pairs come from the built-in corpus, a workspace or any folder of pair folders, or a published dataset (a
folder or USER/NAME on the Hub). Prompts show them as published: no comments, neutral names. Not covered:
tasks from KernelBench (`kernelbench.tasks`), stages of permitted techniques (`curriculum`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kcurate import prompts, resources, store
from kcurate.cuda_source.similarity import fingerprint
from kcurate.errors import InputError
from kcurate.neutral import neutral
from kcurate.notes import Note, silent
from kcurate.problem import shown
from kcurate.problem.answered import side_of
from kcurate.published_rows import candidate_of, opened, read_rows
from kcurate.records import Candidate, Outcome, Problem, Prompt
from kcurate.train.task import Task
from kcurate.verdicts import standing
from kcurate.workspace import Workspace

BUILT_IN = "builtin"
# The outcomes of usable pairs; the second one only if the caller accepts untimed pairs.
_USABLE = (Outcome.CONFIRMED.value, Outcome.CORRECT.value)


@dataclass(frozen=True)
class _Proved:
    """A pair as prompts show it, and its measured speedup (None: not timed)."""

    candidate: Candidate
    speedup: float | None


def load(
    *sources: str,
    brief: bool = False,
    untimed: bool = False,
    split: str | None = None,
    revision: str | None = None,
    note: Note = silent,
) -> tuple[Task, ...]:
    """One task per distinct prompt, ordered by id; of pairs with the same prompt, the fastest answer is kept.

    `sources`: the built-in pairs (the default), folders, and datasets on the Hub. If two sources use an id
    for different code, the later one is left out. `brief`: prompts with the short rules. `untimed`: also
    pairs that were only judged correct (no GPU). `split`: only this split of a published dataset.
    `revision`: of a dataset on the Hub.

    Raises:
        InputError: no such folder or dataset, or no usable pair in it. RemoteError: the Hub is unreachable.
    """
    outcomes = _USABLE if untimed else _USABLE[:1]
    best: dict[Prompt, tuple[float, Task]] = {}
    for source in sources or (BUILT_IN,):
        found = 0
        for proved in _proved(source, outcomes, split, revision, note):
            problem = proved.candidate.problem
            if proved.candidate.slow.views or (problem is not None and problem.single_size):
                continue  # prompts cannot express this layout, and one size teaches nothing general
            found += 1
            task = task_of(proved.candidate, brief=brief)
            rank = (task.answer is not None) * (1.0 + (proved.speedup or 0.0))
            if task.prompt not in best or rank > best[task.prompt][0]:
                best[task.prompt] = (rank, task)
        if not found:
            hint = "run kcurate validate on a GPU first"
            raise InputError(f"no pair here is {' or '.join(outcomes)}", where=source, hint=hint)
    by_id: dict[str, Task] = {}
    for _, task in best.values():
        by_id.setdefault(task.id, task)
    if len(by_id) < len(best):
        note(f"left out because an earlier dataset has their id: {len(best) - len(by_id)}")
    return tuple(by_id[one] for one in sorted(by_id))


def task_of(pair: Candidate, *, brief: bool = False) -> Task:
    """The task of a published pair; its `answer` is None if the answer format cannot express the fast side.

    Raises:
        ValueError: the pair has no problem.
    """
    template = replace(pair, origin=replace(pair.origin, kind="model", made="fast"))
    prompt = shown.request(template, brief=brief)
    assert template.problem is not None, "the prompt shows it"
    return Task(pair.id, pair.family, prompt, template, _answer(template, template.problem))


def _answer(pair: Candidate, problem: Problem) -> str | None:
    """The fast side as a completion, if parsing it gives the fast side again (views cannot be expressed)."""
    answer = shown.answer_of(pair.fast, pair.slow)
    read = side_of(answer, pair.slow, problem)
    if isinstance(read, str):
        return None
    wanted = replace(pair.fast, code=read.code, nondeterministic=read.nondeterministic)
    return prompts.write_answer(answer) if read == wanted else None


def _proved(
    source: str, outcomes: Sequence[str], split: str | None, revision: str | None, note: Note
) -> Iterator[_Proved]:
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
                    yield _Proved(candidate_of(row), row["speedup"])


def _folders(root: Path, outcomes: Sequence[str]) -> Iterator[_Proved]:
    """The usable pairs of a folder tree, by the verdicts next to them and those of the workspace."""
    inside = Workspace(root)
    places = inside.pairs if inside.pairs.is_dir() else root
    for candidate, verdicts in standing.judged(store.find_candidates(places), inside):
        best = standing.best(standing.current(candidate, verdicts))
        if best is not None and best.outcome.value in outcomes:
            yield _Proved(neutral(candidate), best.speedup.ratio if best.speedup else None)


def split(
    tasks: Sequence[Task], held_out_fraction: float, seed: int
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Training and held-out tasks, about `held_out_fraction` (0 to 1) of the tasks held out.

    No family is in both, and families that share a kernel (up to names) stay together. The same input and
    seed give the same split. With two or more groups neither part is empty, unless the fraction is 0.

    Raises:
        InputError: the fraction is not in [0, 1).
    """
    if not 0 <= held_out_fraction < 1:
        raise InputError("the held-out fraction must be at least 0 and below 1", where=str(held_out_fraction))
    groups = _groups(tasks)
    random.Random(seed).shuffle(groups)
    wanted, held = held_out_fraction * len(tasks), set[str]()
    count = 0
    for group in groups[:-1] if held_out_fraction else []:
        members = sum(task.family in group for task in tasks)
        if held and count + members / 2 > wanted:
            continue
        held |= group
        count += members
    return (
        tuple(task for task in tasks if task.family not in held),
        tuple(task for task in tasks if task.family in held),
    )


def _groups(tasks: Sequence[Task]) -> list[frozenset[str]]:
    """Families that must stay together, in an order that depends only on names."""
    groups: dict[str, set[str]] = {task.family: {task.family} for task in tasks}
    first: dict[str, str] = {}
    for task in sorted(tasks, key=lambda task: task.id):
        for side in (task.template.slow, task.template.fast):
            other = first.setdefault(fingerprint(side.code).exact, task.family)
            if groups[other] is not groups[task.family]:
                groups[other] |= groups[task.family]
                for family in groups[task.family]:
                    groups[family] = groups[other]
    return [frozenset(group) for group in sorted({frozenset(g) for g in groups.values()}, key=sorted)]
