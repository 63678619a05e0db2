"""`kcurate extract --history`: a kernel before and after a commit is a natural pair.

The kernel before the commit is taken as the slow side. The judge decides whether it is slow: a commit that
made its kernel slower remains a pair with the outcome `not_faster`. Not covered: what a commit changes
(`commit_changes`); merges, since the commits they join are read themselves.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from kcurate.core import progress, store, time_limits
from kcurate.core.cluster import workers
from kcurate.core.notes import Note, silent
from kcurate.core.runs import Run, recorded
from kcurate.core.worker_pool import Failure, Pool
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError
from kcurate.extract import compiling
from kcurate.extract.candidates import merged_with_earlier
from kcurate.extract.commit_changes import (
    REMEDY,
    Change,
    ChangeOutcome,
    CommitOutcome,
    CommitReport,
    CommitTask,
    read_commit,
)
from kcurate.extract.git_objects import Changed, Repository
from kcurate.extract.settings import ExtractConfig
from kcurate.extract.walk import Filter
from kcurate.forms.readers import CUDA_SUFFIXES, HEADER_SUFFIXES, suffix_of
from kcurate.records import Candidate, Summary

PRELOAD = ("kcurate.extract.commit_changes",)


class RepositoryOutcome(StrEnum):
    """Outcome of one PATH."""

    READ = "read"
    SHALLOW = "shallow"
    BROKEN = "broken_object"
    REFUSED = "refused"


def run(config: ExtractConfig, *, note: Note = silent) -> Summary:
    """Extract the pairs of every repository; commits that an earlier run finished are not read again.

    Raises:
        InputError: no path is a repository with the revision. MissingDependencyError: no git, or as
            `extract`.
    """
    with recorded("extract", config.workspace, note=note) as record, ExitStack() as stack:
        compiler = compiling.find_compiler(config.compile, record.note)
        counts = {kind: Counter[str]() for kind in ("repositories", "commits", "pairs")}
        git_folders = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcurate-git-")))
        opened: dict[str, tuple[Repository, list[str]]] = {}
        errors = []
        for number, path in enumerate(config.paths):
            try:
                repository = Repository.open(path, git_folders / str(number))
                if repository.name in opened:
                    problem = f"two repositories named {repository.name!r}"
                    hint = "extract them into separate workspaces"
                    raise InputError(problem, where=str(path), hint=hint)
                commits, broken = repository.commits(config.since)
            except InputError as error:
                errors.append(error)
                counts["repositories"][RepositoryOutcome.REFUSED] += 1
                record.item("repositories", str(path), RepositoryOutcome.REFUSED, str(error), passed=False)
                continue
            opened[repository.name] = repository, commits
            counts["repositories"][_opened(record, path, repository, len(commits), broken)] += 1
        if not opened:
            raise errors[0]
        record.begin(config, paths=[path.resolve() for path in config.paths])
        with workers(config.jobs, PRELOAD, ray=config.ray) as pool:
            for repository, commits in opened.values():
                _History(config, repository, record, compiler, counts).read(commits, pool)
        return record.finish({kind: dict(sorted(outcomes.items())) for kind, outcomes in counts.items()})


def _opened(
    record: Run, path: Path, repository: Repository, commits: int, broken: str | None
) -> RepositoryOutcome:
    """The outcome of a repository; noted in the run if its history is incomplete."""
    if broken is None and not repository.shallow:
        return RepositoryOutcome.READ
    outcome = RepositoryOutcome.SHALLOW if broken is None else RepositoryOutcome.BROKEN
    why = f"its history ends after {commits} commits: git fetch --unshallow brings the rest"
    if broken is not None:
        why = f"its history ends after {commits} commits: {broken} ({REMEDY})"
    record.item("repositories", str(path), outcome, why, passed=broken is None)
    record.note(f"{path}: {why}")
    return outcome


@dataclass
class _History:
    """Reads one repository; `counts` are the run's, `keys` those of the changes that became pairs."""

    config: ExtractConfig
    repository: Repository
    record: Run
    compiler: str | None
    counts: Mapping[str, Counter[str]]
    keys: set[str] = field(default_factory=set)

    def read(self, commits: Sequence[str], pool: Pool) -> None:
        """Read the commits that no earlier run finished, oldest first."""
        workspace = Workspace(self.config.workspace)
        settings = repr((self.config.include, self.config.exclude, self.config.define, self.compiler))
        marks = workspace.history / f"{self.repository.name}-{store.content_id(settings)}.jsonl"
        finished = self._finished(marks, frozenset(commits))
        unfinished = [commit for commit in commits if commit not in finished]
        changed = [
            change for commit in self.repository.changes(unfinished) if (change := self._selected(commit))
        ]
        tasks = [
            CommitTask(
                self.repository, change, workspace.kernels, workspace.history, self.compiler,
                self.config.define, self.config.licence,
            )
            for change in changed
        ]  # fmt: skip
        self.counts["commits"][CommitOutcome.NO_KERNEL] += len(unfinished) - len(tasks)
        results = pool.run(read_commit, tasks, timeout_s=time_limits.READ_UNIT_S, isolate=True)
        waiting: dict[int, CommitReport] = {}
        next_index = 0
        for index, result in progress.each(results, self.repository.name, len(tasks), "commit"):
            if isinstance(result, Failure):
                result = CommitReport(CommitOutcome.FAILED, f"{result.kind}: {result.detail}")
            waiting[index] = result
            while next_index in waiting:  # in order, so that the first of equal changes is the oldest
                self._finish(marks, changed[next_index].commit, waiting.pop(next_index))
                next_index += 1

    def _selected(self, changed: Changed) -> Changed | None:
        """The commit with only those of its files that may hold kernels; None: there are none."""
        filter_ = Filter(self.config.include, self.config.exclude)
        files = tuple(
            file
            for file in changed.files
            if (path := file.after or file.before)
            and suffix_of(path) in CUDA_SUFFIXES | HEADER_SUFFIXES
            and filter_.passes(path)
        )
        on_both_sides = {file.before for file in files} != {None} and {file.after for file in files} != {None}
        return replace(changed, files=files) if changed.broken or (files and on_both_sides) else None

    def _finished(self, marks: Path, wanted: frozenset[str]) -> set[str]:
        """The commits in `wanted` that an earlier run finished; their outcomes are added to the counts."""
        finished = set()
        try:
            lines = marks.read_bytes().splitlines()
        except OSError:
            return set()
        for line in lines:
            try:
                mark = json.loads(line)
                commit, outcome = str(mark["commit"]), str(CommitOutcome(mark["outcome"]))
                pairs, keys = Counter[str](mark["pairs"]), set(map(str, mark["keys"]))
            except (ValueError, KeyError, TypeError):
                continue  # a killed run left half a line
            self.keys |= keys
            if commit not in wanted:
                continue
            finished.add(commit)
            self.counts["commits"][outcome] += 1
            self.counts["pairs"].update(pairs)
        return finished

    def _finish(self, marks: Path, commit: str, report: CommitReport) -> None:
        """Write the pairs of a commit, then the line that marks it as finished."""
        shown = f"{self.repository.name} {commit[:12]}"
        pairs, keys = Counter[str](), []
        for change in report.changes:
            outcome, why = change.outcome, change.why
            if outcome is ChangeOutcome.PAIR and change.key in self.keys:
                outcome, why = ChangeOutcome.REPEATED, "an earlier commit made the same change"
            elif outcome is ChangeOutcome.PAIR and change.candidate is not None:
                self.keys.add(change.key)
                keys.append(change.key)
                self._write(change, change.candidate)
            pairs[str(outcome)] += 1
            passed = outcome in (ChangeOutcome.PAIR, ChangeOutcome.REPEATED)
            name = change.candidate.id if change.candidate else f"{shown} {change.name}"
            self.record.item("pairs", name, outcome, why, passed=passed)
        if report.outcome in (CommitOutcome.BROKEN, CommitOutcome.FAILED):
            self.record.item("commits", shown, report.outcome, report.why, passed=False)
            self.record.note(f"{shown}: {report.outcome}: {report.why}")
        self.counts["commits"][str(report.outcome)] += 1
        self.counts["pairs"].update(pairs)
        if report.outcome is not CommitOutcome.BROKEN:  # the missing object may be fetched later
            mark = {"commit": commit, "outcome": report.outcome, "pairs": pairs, "keys": keys}
            store.append_line(marks, json.dumps(mark), durable=False)

    def _write(self, change: Change, candidate: Candidate) -> None:
        for task in change.kernels:
            compiling.write_kernel(task, task.kernel.compiled)
        folder = Workspace(self.config.workspace).pairs / candidate.id
        merged_with_earlier(folder, candidate, self.record.note)
