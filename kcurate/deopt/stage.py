"""The stage: fast kernels in, candidates with a rewritten slow side out; every kernel ends with one outcome.

Whether a candidate becomes a pair is decided by `kcurate validate`. Equal input gives equal files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from kcurate.core import progress, store, time_limits
from kcurate.core.notes import Note, silent
from kcurate.core.runs import Run, ordered, recorded
from kcurate.core.worker_pool import Failure, Pool
from kcurate.core.workspace import Workspace
from kcurate.deopt.rules import RULES, NotApplicable, Rule, plugin_rules
from kcurate.deopt.settings import DeoptConfig
from kcurate.deopt.starts import Start, starts
from kcurate.errors import InputError
from kcurate.records import Candidate, Side, Summary
from kcurate.verdicts import items
from kcurate.verdicts.readable import Unreadable


class StartOutcome(StrEnum):
    """Outcome of a kernel (or of a pair's fast side). `failed`: the rules crashed or hung on it.

    `malformed`: its files cannot be read.
    """

    DEOPTIMISED = "deoptimised"
    NO_RULE_APPLIES = "no_rule_applies"
    NO_PROBLEM = "no_problem"
    MALFORMED = "malformed"
    FAILED = "failed"


class RewriteOutcome(StrEnum):
    """Outcome of one rule, or of all that apply together, on one kernel with a problem."""

    CANDIDATE = "candidate"
    NOT_APPLICABLE = "not_applicable"
    PLUGIN_FAILED = "plugin_failed"


@dataclass(frozen=True)
class _Task:
    """Starts with one id, processed in order because their candidates go to the same folders."""

    starts: tuple[Start, ...]
    rules: tuple[str, ...]
    folder: Path


def run(config: DeoptConfig, *, note: Note = silent) -> Summary:
    """Write `pairs/<id>/deopt-<rule>/` for every rule that applies, and a ladder up to `deopt-all`.

    Raises:
        InputError: an unknown rule, a path that does not exist, or nothing to start from.
    """
    with recorded("deopt", config.workspace, note=note) as record:
        rules = tuple(rule.name for rule in chosen_rules(config.rules))
        for line in plugin_rules.loaded().refused:
            record.note(line)
        workspace = Workspace(config.workspace)
        with Pool(config.jobs, (__name__,)) as pool:
            with store.without_collector():
                every = tuple(starts(config.paths, workspace, note=record.note))
            record.begin(config, rules=rules)
            readable = [start for start in every if isinstance(start, Start)]
            tasks = _tasks(readable, rules, workspace.pairs)
            kernels = _left_out(every, record, workspace)
            rewrites: Counter[str] = Counter()
            failures: set[str] = set()
            answers = pool.run(_write, tasks, timeout_s=time_limits.REWRITE_KERNEL_S)
            for index, answer in progress.each(answers, "deopt", len(tasks), "kernel"):
                if isinstance(answer, Failure):
                    kernels[StartOutcome.FAILED] += len(tasks[index].starts)
                    failure = f"the rules failed ({answer.kind}: {answer.detail})"
                    record.note(f"{tasks[index].starts[0].id}: {failure}")
                    for start in tasks[index].starts:
                        record.item("kernels", start.id, StartOutcome.FAILED, failure, passed=False)
                    continue
                for start, (outcomes, failed) in zip(tasks[index].starts, answer, strict=True):
                    for line in sorted(failed - failures):
                        record.note(line)
                    failures |= failed
                    kernels[_rewritten(record, start, outcomes, workspace)] += 1
                    rewrites += outcomes
        return record.finish(
            {"kernels": ordered(kernels, StartOutcome), "rewrites": ordered(rewrites, RewriteOutcome)}
        )


def _left_out(every: Sequence[Start | Unreadable], record: Run, workspace: Workspace) -> Counter[str]:
    """Report the starts that have no candidates; returns their number by outcome."""
    kernels = Counter[str]()
    for start in sorted(every, key=lambda start: isinstance(start, Start)):  # unreadable ones first
        if isinstance(start, Unreadable):
            kernels[StartOutcome.MALFORMED] += 1
            record.add(items.unreadable("kernels", StartOutcome.MALFORMED, start, workspace))
        elif start.problem is None:
            kernels[StartOutcome.NO_PROBLEM] += 1
            why, then = "no problem is known for it", ("problem", "draft")
            record.item("kernels", start.id, StartOutcome.NO_PROBLEM, why, passed=False, then=then)
    return kernels


def _rewritten(record: Run, start: Start, outcomes: Counter[str], workspace: Workspace) -> StartOutcome:
    """Report how many candidates the rules made from a start; returns its outcome."""
    count = outcomes[RewriteOutcome.CANDIDATE]
    outcome = StartOutcome.DEOPTIMISED if count else StartOutcome.NO_RULE_APPLIES
    why = f"{count} slow sides written" if count else "none of the rules applies to its code"
    folder, asking = workspace.pairs / start.id, ("deopt", start.id, "--model", "claude")
    record.item(
        "kernels",
        start.id,
        outcome,
        why,
        passed=bool(count),
        file=folder if count else None,
        then=() if count else asking,
    )
    return outcome


def _tasks(all_starts: Sequence[Start], rules: tuple[str, ...], folder: Path) -> list[_Task]:
    """One task per id, the longest code first, so that no worker is left with a long task at the end."""
    by_id: dict[str, tuple[Start, ...]] = {}
    for start in all_starts:
        if start.problem is not None:
            by_id[start.id] = (*by_id.get(start.id, ()), start)
    longest = sorted(by_id.values(), key=lambda same: -len(same[0].given.code))
    return [_Task(same, rules, folder) for same in longest]


def _write(task: _Task) -> list[tuple[Counter[str], set[str]]]:
    """Write every candidate of a task; returns for each start the outcomes of its rewrites, and failed
    plugins."""
    rules = chosen_rules(task.rules)
    answers = []
    for start in task.starts:
        outcomes, failures = Counter[str](), set[str]()
        for candidate in rewritten(start, rules):
            if isinstance(candidate, Candidate):
                outcomes[RewriteOutcome.CANDIDATE] += 1
                store.write_candidate(task.folder / candidate.id, candidate)
            elif isinstance(candidate, plugin_rules.PluginFailed):
                outcomes[RewriteOutcome.PLUGIN_FAILED] += 1
                failures.add(candidate.reason)
            else:
                outcomes[RewriteOutcome.NOT_APPLICABLE] += 1
        answers.append((outcomes, failures))
    return answers


def chosen_rules(names: Sequence[str]) -> tuple[Rule, ...]:
    """The rules of these names, those of plugins included; all rules without names.

    Raises:
        InputError: an unknown rule.
    """
    rules = (*RULES, *plugin_rules.loaded().rules)
    known = {rule.name: rule for rule in rules}
    for name in names:
        if name not in known:
            raise InputError(f"unknown rule {name!r}", hint=f"the rules are {', '.join(known)}")
    return tuple(rule for rule in rules if not names or rule.name in names)


def rewritten(start: Start, rules: Sequence[Rule]) -> Iterator[Candidate | NotApplicable]:
    """One candidate for each rule alone, or why it does not apply; then a ladder of all that apply.

    Each rung removes one more technique than the previous one; the last is called `all`. The first rung is
    the first rule alone, so it is not repeated.
    """
    rungs: list[tuple[Side, tuple[Rule, ...]]] = []
    for rule in rules:
        alone = rule.apply(start.given, start.problem)
        if isinstance(alone, NotApplicable):
            yield alone
            continue
        yield _candidate(start, alone, rule.name, (rule,))
        if not rule.ladder:
            continue
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
        description=f"The fast side is {start.id}; the slow side is the same without "
        f"{' and '.join(rule.removes for rule in rules)}.",
        problem=start.problem,
        slow=slow,
        fast=start.given,
    )
