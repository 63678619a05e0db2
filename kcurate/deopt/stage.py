"""The stage: fast kernels in, candidates with a made slow side out; every kernel ends with one outcome.

A candidate is not a pair yet: `kcurate validate` decides. Equal input gives equal files.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from tqdm import tqdm

from kcurate import store
from kcurate.deopt.rules import RULES, NotApplicable, Rule
from kcurate.deopt.starts import Note, Start, starts
from kcurate.errors import InputError
from kcurate.records import Candidate, Side, Summary
from kcurate.worker_pool import Failure, Pool
from kcurate.workspace import Workspace

# The largest kernel of Rodinia takes all rules one second; one that takes longer than this will not end.
TIMEOUT_S = 300.0


class StartOutcome(StrEnum):
    """What became of a kernel (or of a pair's fast side). `failed`: the rules crashed or hung on it."""

    DEOPTIMISED = "deoptimised"
    NO_RULE_APPLIES = "no_rule_applies"
    NO_PROBLEM = "no_problem"
    FAILED = "failed"


class RewriteOutcome(StrEnum):
    """What became of one rule, or of all that apply together, on one kernel with a problem."""

    CANDIDATE = "candidate"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True)
class DeoptConfig:
    """`paths`: folders to start from (empty: the workspace's kernels). `rules`: by name (empty: all).

    `jobs`: worker processes, 0 for one a core; what is written is the same with any number.
    """

    workspace: Path
    paths: tuple[Path, ...] = ()
    rules: tuple[str, ...] = ()
    jobs: int = 1


@dataclass(frozen=True)
class _Task:
    """Starts of one id, whose candidates go to the same folders, one after the other; rules by name."""

    starts: tuple[Start, ...]
    rules: tuple[str, ...]
    folder: Path


def run(config: DeoptConfig, *, note: Note = lambda text: None) -> Summary:
    """Write `pairs/<id>/deopt-<rule>/` for every rule that applies, and a ladder up to `deopt-all`.

    Raises:
        InputError: an unknown rule, a path that does not exist, or nothing to start from.
    """
    started_s = time.monotonic()
    rules = tuple(rule.name for rule in _chosen(config.rules))
    workspace = Workspace(config.workspace)
    with Pool(config.jobs, (__name__,)) as pool:
        with store.without_collector():
            found = tuple(starts(config.paths, workspace, note=note))
        record = workspace.start_run(
            "deopt", {"paths": [str(path) for path in config.paths], "rules": list(rules)}
        )
        tasks = _tasks(found, rules, workspace.pairs)
        kernels = Counter({StartOutcome.NO_PROBLEM: sum(start.problem is None for start in found)})
        rewrites: Counter[RewriteOutcome] = Counter()
        answers = pool.run(_write, tasks, timeout_s=TIMEOUT_S)
        bar = tqdm(answers, total=len(tasks), desc="deopt", unit="kernel", leave=False, disable=None)
        for index, answer in bar:
            if isinstance(answer, Failure):
                kernels[StartOutcome.FAILED] += len(tasks[index].starts)
                note(f"{tasks[index].starts[0].id}: the rules failed ({answer.kind}: {answer.detail})")
                continue
            for made in answer:
                some = made[RewriteOutcome.CANDIDATE]
                kernels[StartOutcome.DEOPTIMISED if some else StartOutcome.NO_RULE_APPLIES] += 1
                rewrites += made
    items = {"kernels": _ordered(kernels, StartOutcome), "rewrites": _ordered(rewrites, RewriteOutcome)}
    return record.finish(Summary("deopt", items, time.monotonic() - started_s, str(workspace.root)))


def _tasks(found: Sequence[Start], rules: tuple[str, ...], folder: Path) -> list[_Task]:
    """What there is to do, the longest code first: it should not be what the others wait for in the end."""
    by_id: dict[str, tuple[Start, ...]] = {}
    for start in found:
        if start.problem is not None:
            by_id[start.id] = (*by_id.get(start.id, ()), start)
    longest = sorted(by_id.values(), key=lambda same: -len(same[0].given.code))
    return [_Task(same, rules, folder) for same in longest]


def _write(task: _Task) -> list[Counter[RewriteOutcome]]:
    """Write every candidate of a task; for each start, how many rewrites came to what."""
    rules = _chosen(task.rules)
    counts = []
    for start in task.starts:
        counts.append(made := Counter[RewriteOutcome]())
        for candidate in rewritten(start, rules):
            made[RewriteOutcome.NOT_APPLICABLE if candidate is None else RewriteOutcome.CANDIDATE] += 1
            if candidate is not None:
                store.write_candidate(task.folder / candidate.id, candidate)
    return counts


def _ordered(counts: Mapping[Any, int], outcomes: type[StrEnum]) -> dict[str, int]:
    return {outcome.value: counts[outcome] for outcome in outcomes if counts[outcome]}


def _chosen(names: Sequence[str]) -> tuple[Rule, ...]:
    known = {rule.name: rule for rule in RULES}
    for name in names:
        if name not in known:
            raise InputError(f"there is no rule {name!r}", hint=f"the rules are {', '.join(known)}")
    return tuple(rule for rule in RULES if not names or rule.name in names)


def rewritten(start: Start, rules: Sequence[Rule]) -> Iterator[Candidate | None]:
    """One candidate for each rule alone (None: it does not apply), then a ladder of all that apply.

    Each rung takes one technique more than the one before; the last is called `all`. The first rung is the
    first rule alone, so it is not made again.
    """
    rungs: list[tuple[Side, tuple[Rule, ...]]] = []
    for rule in rules:
        alone = rule.apply(start.given, start.problem)
        if isinstance(alone, NotApplicable):
            yield None
            continue
        yield _candidate(start, alone, rule.name, (rule,))
        below, applied = rungs[-1] if rungs else (start.given, ())
        together = rule.apply(below, start.problem)
        if not isinstance(together, NotApplicable):
            rungs.append((together, (*applied, rule)))
    for number, (side, applied) in enumerate(rungs[1:], start=2):
        yield _candidate(start, side, "all" if number == len(rungs) else f"rung{number}", applied)


def _candidate(start: Start, slow: Side, label: str, rules: Sequence[Rule]) -> Candidate:
    return Candidate(
        id=f"{start.id}/deopt-{label}",
        family=start.family,
        domain=start.domain,
        license=start.license,
        origin=replace(start.origin, rules=tuple(rule.name for rule in rules)),
        techniques=tuple(sorted({rule.technique for rule in rules})),
        description=f"The fast side is {start.id}; the slow one is the same without "
        f"{' and '.join(rule.removes for rule in rules)}.",
        problem=start.problem,
        slow=slow,
        fast=start.given,
    )
