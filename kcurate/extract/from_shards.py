"""`kcurate extract --from`: the kernels of a dataset with a file in each row, in bounded memory.

Shards are read once and grouped by repository (`row_groups`), and copies are found (`copies`). Then the rows
of each group are written as trees, one for each repository, and read like other trees, so includes never
leave a repository. Finished shards and groups stay in the workspace until all are done: after a kill, the
next run continues with the next one and gives the same bytes. If a worker dies on a file, its group is read
again with a separate process for each unit, so that only that unit is lost. Not covered: reading a tree
(`stage`).
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from kcurate import __version__
from kcurate.core import codec, progress, store, time_limits
from kcurate.core.cluster import workers
from kcurate.core.grouping import grouped
from kcurate.core.json_text import shown
from kcurate.core.licence_texts import canonical, joint
from kcurate.core.notes import Note, silent
from kcurate.core.runs import recorded
from kcurate.core.worker_pool import Failure, Pool
from kcurate.errors import InputError, KcurateError, OptionError
from kcurate.extract import compiling
from kcurate.extract.copies import Copies, read_copies, write_copies
from kcurate.extract.flags import FlagFinder, given_flags
from kcurate.extract.merge import TreeKernels
from kcurate.extract.naming import safe_part
from kcurate.extract.reporting import FILES, REFUSED, Entry, PartReport, Tally, part_report
from kcurate.extract.rights import Stated
from kcurate.extract.row_groups import (
    MARKS,
    ROWS_OF_A_SHARD,
    ShardReport,
    ShardTask,
    Stored,
    read_group,
    read_report,
    read_shard,
    report_path,
)
from kcurate.extract.settings import ExtractConfig
from kcurate.extract.shards import RowOutcome, Shard, find_shards
from kcurate.extract.sources import TreeFiles
from kcurate.extract.stage import PRELOAD, read_part, write_part
from kcurate.extract.units import MAX_REASON
from kcurate.extract.walk import FileOutcome, Filter, Found, Walker
from kcurate.records import Sourced, Summary
from kcurate.suites import Tree, load_manifests
from kcurate.suites.manifest import GENERIC, Manifest

# Text in one group: about a thousand files. Compressed shards have about a fifth of their text's size.
GROUP_BYTES = 8 * 1024 * 1024
COMPRESSION = 5
MAX_GROUPS = 4096
# Writing and removing a file takes 0.1 to 0.6 ms of CPU time on a disk, a hundredth of that in memory.
MEMORY = Path("/dev/shm")
MAX_MEMORY_BYTES = 64 * 1024 * 1024
# Longer names and paths are not accepted by all file systems.
MAX_PART_BYTES, MAX_PATH_BYTES = 200, 1000
UNNAMED = "unnamed"


@dataclass(frozen=True)
class GroupTask:
    """A group to read.

    `folder` has the results so far, `chunks` are (shard, chunk) of all shards, `shards` their names.
    """

    config: ExtractConfig
    compiler: str | None
    folder: Path
    chunks: tuple[tuple[int, int], ...]
    shards: tuple[str, ...]
    group: int

    @property
    def report_path(self) -> Path:
        """The path of the group's report, which is written last: if it exists, the group is done."""
        return self.folder / "groups" / f"{self.group}.json"

    @contextlib.contextmanager
    def tree_folders(self, size: int) -> Iterator[list[Path]]:
        """Empty folders for trees of `size` bytes in total, best first: in memory if they fit, on disk."""
        # A new folder each time: a worker on a lost node may still be writing for this group.
        (scratch := self.folder / "trees").mkdir(parents=True, exist_ok=True)
        folders = [Path(tempfile.mkdtemp(prefix=f"{self.group}-", dir=scratch))]
        with contextlib.suppress(OSError):  # there is no such file system
            if size <= MAX_MEMORY_BYTES and 2 * size < shutil.disk_usage(MEMORY).free:
                folders.insert(0, Path(tempfile.mkdtemp(prefix=_in_memory(self.folder), dir=MEMORY)))
        try:
            yield folders
        finally:
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)


def run(config: ExtractConfig, *, note: Note = silent) -> Summary:
    """Extract the kernels and pairs of every row.

    Raises:
        InputError: there are no shards, none can be read, or the workspace cannot be written.
    """
    _check(config)
    with recorded("extract", config.workspace, note=note) as record:
        compiler = compiling.find_compiler(config.compile, record.note)
        shards = find_shards(config.shards)
        record.begin(config)
        folder = _state(config, shards, compiler)
        tally = Tally(record)
        tally.begin()
        groups = _group_count(shards)
        with _swept(folder), workers(config.jobs, (*PRELOAD, __name__), ray=config.ray) as pool:
            reports = _read_shards(config, shards, folder, groups, pool)
            tally.add(_shard_part(shards, reports))
            if all(report.refused for report in reports):
                raise InputError(f"no shard can be read: {reports[0].refused}", where=shown(shards[0].name))
            chunks = tuple(
                (number, chunk) for number, report in enumerate(reports) for chunk in range(report.chunks)
            )
            write_copies(folder, chunks, groups)
            names = tuple(shard.name for shard in shards)
            tasks = [GroupTask(config, compiler, folder, chunks, names, group) for group in range(groups)]
            unread = [task for task in tasks if not task.report_path.exists()]
            answers = pool.run(read_rows, unread, timeout_s=time_limits.READ_GROUP_S, isolate=True)
            for _ in progress.each(answers, "extract", len(unread), "group"):
                pass
        for task in tasks:
            part = read_report(task.report_path, PartReport)
            if part is None:  # its worker died: now a process for each unit, so that one unit is lost
                with Pool(max(2, config.jobs), PRELOAD) as pool:
                    part = _read_group(task, pool)
            tally.add(part)
        tally.tell(pairs=config.pairs)
        summary = record.finish(tally.nonzero())
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # not empty: other runs have folders there
        folder.parent.rmdir()
    return summary


def _check(config: ExtractConfig) -> None:
    """Refuse options that do not apply to rows.

    Raises:
        OptionError: a path, or an option for trees on disk, is set.
    """
    of_trees = {
        "PATH": config.paths,
        "--history": config.history,
        "--since": config.since,
        "--include-dir": config.include_dirs,
        "--compile-commands": config.compile_commands,
    }
    for name, value in of_trees.items():
        if value:
            raise OptionError("is about a tree, not rows", where=name, hint="leave it out, or --from")


def _state(config: ExtractConfig, shards: Sequence[Shard], compiler: str | None) -> Path:
    """The folder for the results so far; it differs for other shards, settings and versions of kcurate."""
    settings = replace(config, workspace=Path(), jobs=1, ray=None)
    key = store.content_id(repr((settings, tuple(shards), compiler, __version__)))
    return config.workspace.absolute() / "shards" / key


def _in_memory(folder: Path) -> str:
    """The prefix of the names of a run's folders in memory."""
    return f"kcurate-{store.content_id(str(folder))}-"


@contextlib.contextmanager
def _swept(folder: Path) -> Iterator[None]:
    """Remove what killed workers left in memory: on entry an earlier run's, on exit this run's."""
    try:
        _sweep(folder)
        yield
    finally:
        _sweep(folder)


def _sweep(folder: Path) -> None:
    for folder_in_memory in MEMORY.glob(f"{_in_memory(folder)}*"):
        shutil.rmtree(folder_in_memory, ignore_errors=True)


def _group_count(shards: Sequence[Shard]) -> int:
    """The number of groups, from the size of the shards' text."""
    text = sum(
        shard.size_bytes * (1 if PurePosixPath(shard.name).suffix.startswith((".j", ".n")) else COMPRESSION)
        for shard in shards
    )
    return min(MAX_GROUPS, text // GROUP_BYTES + 1)


def _read_shards(
    config: ExtractConfig, shards: Sequence[Shard], folder: Path, groups: int, pool: Pool
) -> list[ShardReport]:
    """Read the shards that no earlier run has read; returns a report for each shard."""
    tasks = [ShardTask(shard, number, config.column, groups, folder) for number, shard in enumerate(shards)]
    unread = [task for task in tasks if not report_path(folder, task.number).exists()]
    lost: dict[int, str] = {}
    answers = pool.run(read_shard, unread, timeout_s=time_limits.READ_SHARD_S, isolate=True)
    for index, answer in progress.each(answers, "read", len(unread), "shard"):
        if isinstance(answer, Failure):
            lost[unread[index].number] = f"reading it {answer.kind}: {answer.detail}"
    return [
        read_report(report_path(folder, number), ShardReport)
        or ShardReport(refused=lost.get(number, "reading it failed"))
        for number in range(len(shards))
    ]


def _shard_part(shards: Sequence[Shard], reports: Sequence[ShardReport]) -> PartReport:
    """The report on the shards, and on the rows that cannot be read."""
    rows: Counter[str] = Counter()
    items = []
    for shard, report in zip(shards, reports, strict=True):
        rows.update(report.rows)
        name = shown(shard.name)
        if report.refused:
            items.append(Entry("shards", name, REFUSED, report.refused, False, FILES))
        for bad in report.bad:
            location = f"{name}:{bad.number}" + (f"-{bad.number + bad.rows - 1}" if bad.rows > 1 else "")
            items.append(Entry("rows", location, bad.outcome, bad.why, False, FILES))
    refused = sum(report.refused is not None for report in reports)
    counts = {str(RowOutcome.READ): len(reports) - refused, **({REFUSED: refused} if refused else {})}
    return PartReport({"shards": counts, "rows": rows}, tuple(items))


def read_rows(task: GroupTask) -> None:
    """Read a group in a worker; write its kernels, its pairs and, last, its report.

    Raises:
        InputError: they cannot be written.
    """
    with Pool(1, alone=True) as pool:
        _read_group(task, pool)


def _read_group(task: GroupTask, pool: Pool) -> PartReport:
    copies = read_copies(task.folder, task.group)
    stored = read_group(task.folder, task.chunks, task.group)
    by_repository = grouped((_suite(row), row) for row in stored)
    manifest = load_manifests()[GENERIC]
    total = PartReport({})
    with task.tree_folders(sum(len(row.content) for row in stored)) as folders:
        for suite, rows in sorted(by_repository.items()):
            total = total.plus(_Repository(task, suite, rows, copies, folders, manifest).report(pool))
    data = json.dumps(codec.to_data(total)).encode()
    store.write_bytes(task.report_path, data, durable=False)
    return total


def _suite(row: Stored) -> str:
    """The suite name for a repository at a revision: readable, and unique."""
    if row.repository is None:
        return f"{UNNAMED}-{store.content_id(row.content)}"
    return f"{safe_part(row.repository)[:60]}-{store.content_id(row.repository, row.revision or '')[:8]}"


@dataclass(frozen=True)
class _Repository:
    """The rows of one repository, the copies among them, and `folders` for its tree, best first."""

    task: GroupTask
    suite: str
    rows: Sequence[Stored]
    copies: Copies
    folders: Sequence[Path]
    manifest: Manifest

    def report(self, pool: Pool) -> PartReport:
        """Read the rows as a tree; an unexpected error becomes the outcome of this repository only."""
        try:
            part = self._read(pool)
            # Items that passed are only counted: a list of a million kernels is of no use.
            failed_items = tuple(entry for entry in part.items if not entry.passed)
            return replace(part, items=failed_items, lines={**part.lines, "copies": self._copy_lines()})
        except KcurateError:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary around code that reads whatever a row holds
            why = f"{type(error).__name__}: {error}"[:MAX_REASON]
            failed = Entry("files", self.suite, FileOutcome.PARSER_FAILED, why, False, FILES)
            return PartReport({"files": {FileOutcome.PARSER_FAILED: len(self.rows)}}, (failed,))
        finally:
            for folder in self.folders:
                shutil.rmtree(folder / self.suite, ignore_errors=True)

    def _copy_lines(self) -> str:
        """A JSON line for each row that is a copy: its place and licence, and the row that is kept."""
        lines = []
        for row in self.rows:
            if (outcome := self._outcome(row)) is not None:
                shard, number = divmod(self.copies.dropped[row.ordinal][0], ROWS_OF_A_SHARD)
                line = {
                    "repository": row.repository,
                    "path": row.path,
                    "revision": row.revision,
                    "licence": row.licence,
                    "outcome": str(outcome),
                    "of": f"{shown(self.task.shards[shard])}:{number}",
                }
                lines.append(codec.canonical_json(line).decode() + "\n")
        return "".join(lines)

    def _read(self, pool: Pool) -> PartReport:
        placed, refused = self._placed()
        first = self.rows[0]
        tree = Tree(
            self.folders[0] / self.suite,
            replace(self.manifest, suite=self.suite),
            False,
            first.revision and shown(first.revision),
            first.repository and shown(first.repository),
        )
        if not any(self._worth(row) for row in placed.values()):
            files_found = [
                Found(tree, path, self._outcome(row) or FileOutcome.NO_KERNEL) for path, row in placed.items()
            ]
            return _plain_report(tree, [*files_found, *refused(tree)])
        tree = replace(tree, root=self._write(placed))
        config = self.task.config
        walked = Walker({}, Filter(config.include, config.exclude)).walk(tree.root, tree, detect=False)
        marked = (replace(file, outcome=file.outcome or self._outcome(placed[file.path])) for file in walked)
        files = TreeFiles(tree, list(marked))
        finder = FlagFinder(tree.root, given_flags(config.define, (), tree.root), {})
        stated = {path: self._stated(row) for path, row in placed.items()}
        kernels = read_part(files, finder, config.licence, pool, stated)
        kernels, matches = write_part(config, kernels, self.task.compiler, pool, silent)
        files.found += refused(tree)
        return part_report(files, kernels, matches, config.min_device_fraction)

    def _write(self, placed: Mapping[str, Stored]) -> Path:
        """Write the tree to the first of `folders` with enough room; returns its root.

        Raises:
            InputError: it cannot be written anywhere (disk full), which is not the rows' fault.
        """
        for folder in self.folders:
            try:
                return _written(folder / self.suite, placed)
            except OSError as error:
                failed = error
        raise store.cannot_write(Path(failed.filename or self.folders[-1]), failed) from failed

    def _worth(self, row: Stored) -> bool:
        """Whether a row may have kernels of its own: it is no copy, and has a kernel's mark."""
        return row.ordinal not in self.copies.dropped and any(mark in row.content for mark in MARKS)

    def _outcome(self, row: Stored) -> FileOutcome | None:
        if row.ordinal not in self.copies.dropped:
            return None
        return FileOutcome.NEAR_DUPLICATE if self.copies.dropped[row.ordinal][1] else FileOutcome.DUPLICATE

    def _placed(self) -> tuple[dict[str, Stored], Callable[[Tree], list[Found]]]:
        """The rows by path in the tree; and a function that lists the rows without a place for a tree.

        A row has none if its path is not safe or is taken by another row.
        """
        placed: dict[str, Stored] = {}
        folders: set[str] = set()
        bad: list[tuple[str, FileOutcome]] = []
        for row in self.rows:
            number = row.ordinal % ROWS_OF_A_SHARD
            path = _safe_path(row.path or f"row{number}.cu")
            if path is None:
                bad.append((f"{row.path} (row {number})", FileOutcome.BAD_PATH))
                continue
            above = [str(parent) for parent in PurePosixPath(path).parents][:-1]
            if path in placed or path in folders or any(folder in placed for folder in above):
                same = path in placed and placed[path].content == row.content
                outcome = FileOutcome.DUPLICATE if same else FileOutcome.NAME_TWICE
                bad.append((f"{path} (row {number})", outcome))
                continue
            placed[path] = row
            folders.update(above)
        return placed, lambda tree: [Found(tree, path, outcome) for path, outcome in bad]

    def _stated(self, row: Stored) -> Stated:
        """The licences that the row and its copies state."""
        source = f"{shown(row.repository or UNNAMED)}: column licence"
        licences_of_copies = self.copies.licences.get(row.ordinal, ())
        return (
            _licence(row.licence, source),
            *(
                _licence(text, f"a copy of {shown(row.path or UNNAMED)}: column licence")
                for text in licences_of_copies
            ),
        )


def _written(root: Path, placed: Mapping[str, Stored]) -> Path:
    folders: set[Path] = set()
    for path, row in placed.items():
        file = root / path
        if (folder := file.parent) not in folders:
            folder.mkdir(parents=True, exist_ok=True)
            folders.add(folder)
        file.write_bytes(row.content)
    return root


def _licence(text: str | None, where: str) -> Sourced | None:
    """The licence in a column, all its lines joined; None: there is none, or SPDX does not know a line."""
    spelled = [canonical(line) for line in (text or "").splitlines()]
    known = joint(line for line in spelled if line is not None)
    return Sourced(known, where) if known and None not in spelled else None


def _safe_path(path: str) -> str | None:
    """The path inside the tree as file systems accept it; None: it has no such form."""
    parts = path.removeprefix("./").split("/")
    is_safe = all(
        part not in ("", ".", "..", ".git") and len(part.encode()) <= MAX_PART_BYTES and "\0" not in part
        for part in parts
    )
    return "/".join(parts) if is_safe and len(path.encode()) <= MAX_PATH_BYTES else None


def _plain_report(tree: Tree, found: Sequence[Found]) -> PartReport:
    """The report of a repository that has no kernels except copies."""
    empty = TreeKernels(tree, (), {}, {}, {}, (), {}, {}, 0, ())
    return part_report(TreeFiles(tree, list(found)), empty, [], None)
