"""`kcurate extract --history`: a kernel before and after a commit is a natural pair.

A commit is read if it changes a kernel, or device code in the kernel's file. Of the tree at both revisions
only what is needed to read that kernel is written, as a *snapshot* in the workspace; equal snapshots are one.
The side before the commit is the slow one: whether it is, the judge finds out, and a commit that made its
kernel slower stays a pair that is `not_faster`. Not covered: device code in files that hold no kernel, units
that are neither in the kernel's folder nor in one above it, merges (what they join is read commit by commit).
"""

from __future__ import annotations

import json
import posixpath
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from kcurate.core import progress, store, time_limits
from kcurate.core.notes import Note, silent
from kcurate.core.runs import Run, recorded
from kcurate.core.worker_pool import Failure, Pool
from kcurate.core.workspace import Workspace
from kcurate.cuda_source import Item, normalised_tokens, parse
from kcurate.errors import InputError
from kcurate.extract import compiling
from kcurate.extract.candidates import UNKNOWN_DOMAIN, joint_license, merged_with_earlier
from kcurate.extract.flags import FlagFinder, given_flags
from kcurate.extract.git_objects import BrokenObject, Changed, FileChange, Repository
from kcurate.extract.includes import Reader, by_ending, include_graph, reachable
from kcurate.extract.merge import merge
from kcurate.extract.pairs import PairOutcome
from kcurate.extract.settings import ExtractConfig
from kcurate.extract.sources import KERNEL_MARK, choose_units, find_files
from kcurate.extract.units import UnitTask, read_unit
from kcurate.extract.versions import signature
from kcurate.extract.walk import CUDA_SUFFIXES, HEADER_SUFFIXES, SOURCE_SUFFIXES, Filter
from kcurate.records import Candidate, Kernel, Origin, Side, Summary
from kcurate.suites.manifest import GENERIC

PRELOAD = ("kcurate.extract.history",)
# A folder with more sources is a collection of programs: only those that include the kernel's file count, and
# beyond the second number not even those.
MAX_SIBLINGS, MAX_COLLECTED = 24, 100
# A snapshot has at most so many files, an honest unit a few dozen.
MAX_SNAPSHOT_FILES = 400
# More text is a generated table, or made to be slow to parse.
MAX_SOURCE_BYTES = 1 << 20
MAX_REASON = 300
_BUILD_FILES = ("GNUmakefile", "makefile", "Makefile", "CMakeLists.txt")
_LICENCE_FILE = re.compile(r"(?:licen[cs]e|copying|notice)(?:[.-][\w.-]+)?\Z", re.IGNORECASE)
_TIMES = r"(\d+(?:\.\d+)?) ?([x×%])"
_CLAIM = re.compile(
    rf"{_TIMES} (?:faster|speed-?up|improvement|perf)|"
    rf"(?:faster|speed-?up|improvement|improves?)(?: performance)?(?: (?:by|of|is))? ~?{_TIMES}",
    re.IGNORECASE,
)
_REMEDY = "git fsck names what is damaged; git fetch --refetch origin, or a new clone, brings it back"


class CommitOutcome(StrEnum):
    """Outcome of a commit. `no_kernel`: it changes no kernel that exists before and after it."""

    READ = "read"
    NO_KERNEL = "no_kernel"
    BROKEN = "broken_object"
    FAILED = "parser_failed"


class ChangeOutcome(StrEnum):
    """Outcome of a kernel that a commit changes; `repeated`: an earlier commit made the same change."""

    PAIR = PairOutcome.PAIR
    MACHINE_CODE_IDENTICAL = PairOutcome.MACHINE_CODE_IDENTICAL
    REPEATED = "repeated"
    INTERFACE = "interface_changed"
    COMPILE_ERROR = "compile_error"
    UNREAD = "unread_kernel"


class RepositoryOutcome(StrEnum):
    """Outcome of a path."""

    READ = "read"
    SHALLOW = "shallow"
    BROKEN = "broken_object"
    REFUSED = "refused"


@dataclass(frozen=True)
class CommitTask:
    """A commit to read; `kernels` and `snapshots` are folders of the workspace."""

    repository: Repository
    changed: Changed
    kernels: Path
    snapshots: Path
    compiler: str | None
    define: tuple[str, ...]
    licence: str | None


@dataclass(frozen=True)
class Placed:
    """A kernel of one revision: its record, its standalone code, its path in the repository."""

    kernel: Kernel
    code: bytes
    path: str


@dataclass(frozen=True)
class Change:
    """A kernel that a commit changed: the outcome, why, and for a pair both kernels and the candidate.

    `key` is equal for equal changes, whichever commits make them.
    """

    name: str
    outcome: ChangeOutcome
    why: str = ""
    key: str = ""
    kernels: tuple[compiling.KernelTask, ...] = ()
    candidate: Candidate | None = None


@dataclass(frozen=True)
class CommitReport:
    """What became of a commit and of the kernels that it changes."""

    outcome: CommitOutcome
    why: str = ""
    changes: tuple[Change, ...] = ()


def run(config: ExtractConfig, *, note: Note = silent) -> Summary:
    """Extract the pairs of every repository; commits that an earlier run finished are not read again.

    Raises:
        InputError: no path is a repository with the revision. MissingDependencyError: no git, or as
            `extract`.
    """
    with recorded("extract", config.workspace, note=note) as record, ExitStack() as stack:
        compiler = compiling.find_compiler(config.compile, record.note)
        counts: dict[str, Counter[str]] = {
            "repositories": Counter(),
            "commits": Counter(),
            "pairs": Counter(),
        }
        own_folders = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcurate-git-")))
        opened: dict[str, tuple[Repository, list[str]]] = {}
        errors = []
        for number, path in enumerate(config.paths):
            try:
                repository = Repository.open(path, own_folders / str(number))
                if repository.name in opened:
                    hint = "extract them into separate workspaces"
                    raise InputError(
                        f"two repositories named {repository.name!r}", where=str(path), hint=hint
                    )
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
        with Pool(config.jobs, PRELOAD) as pool:
            for repository, commits in opened.values():
                _History(config, repository, record, compiler, counts).read(commits, pool)
        return record.finish({kind: dict(sorted(inside.items())) for kind, inside in counts.items()})


def _opened(
    record: Run, path: Path, repository: Repository, commits: int, broken: str | None
) -> RepositoryOutcome:
    """The outcome of a repository, with a line if its history is incomplete."""
    if broken is None and not repository.shallow:
        return RepositoryOutcome.READ
    outcome = RepositoryOutcome.SHALLOW if broken is None else RepositoryOutcome.BROKEN
    why = f"its history ends after {commits} commits: git fetch --unshallow brings the rest"
    if broken is not None:
        why = f"its history ends after {commits} commits: {broken} ({_REMEDY})"
    record.item("repositories", str(path), outcome, why, passed=broken is None)
    record.note(f"{path}: {why}")
    return outcome


@dataclass
class _History:
    """Reads one repository; `counts` are those of the run."""

    config: ExtractConfig
    repository: Repository
    record: Run
    compiler: str | None
    counts: Mapping[str, Counter[str]]
    keys: set[str] = field(default_factory=set)

    def read(self, commits: Sequence[str], pool: Pool) -> None:
        """Read the commits that no earlier run finished, the oldest first."""
        workspace = Workspace(self.config.workspace)
        settings = repr((self.config.include, self.config.exclude, self.config.define, self.compiler))
        marks = workspace.history / f"{self.repository.name}-{store.content_id(settings)}.jsonl"
        finished = self._finished(marks)
        left = [commit for commit in commits if commit not in finished]
        changed = [change for commit in self.repository.changes(left) if (change := self._selected(commit))]
        tasks = [
            CommitTask(
                self.repository, change, workspace.kernels, workspace.history, self.compiler,
                self.config.define, self.config.licence,
            )
            for change in changed
        ]  # fmt: skip
        self.counts["commits"][CommitOutcome.NO_KERNEL] += len(left) - len(tasks)
        results = pool.run(read_commit, tasks, timeout_s=time_limits.READ_UNIT_S, isolate=True)
        waiting: dict[int, CommitReport] = {}
        following = 0
        for index, result in progress.each(results, self.repository.name, len(tasks), "commit"):
            if isinstance(result, Failure):
                result = CommitReport(CommitOutcome.FAILED, f"{result.kind}: {result.detail}")
            waiting[index] = result
            while following in waiting:  # in order, so that the first of equal changes is the oldest
                self._finish(marks, changed[following].commit, waiting.pop(following))
                following += 1

    def _selected(self, changed: Changed) -> Changed | None:
        """The commit with those of its files that may hold kernels; None: there is none."""
        chosen = Filter(self.config.include, self.config.exclude)
        files = tuple(
            file
            for file in changed.files
            if (path := file.after or file.before)
            and Path(path).suffix.lower() in CUDA_SUFFIXES | HEADER_SUFFIXES
            and chosen.passes(path)
        )
        kept = {file.before for file in files} != {None} and {file.after for file in files} != {None}
        return replace(changed, files=files) if changed.broken or (files and kept) else None

    def _finished(self, marks: Path) -> set[str]:
        """The commits that an earlier run finished; what became of them counts in this one."""
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
            finished.add(commit)
            self.counts["commits"][outcome] += 1
            self.counts["pairs"].update(pairs)
            self.keys |= keys
        return finished

    def _finish(self, marks: Path, commit: str, report: CommitReport) -> None:
        """Write a commit's pairs and then its mark."""
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
        if report.outcome is not CommitOutcome.BROKEN:  # it may be brought back
            mark = {"commit": commit, "outcome": report.outcome, "pairs": pairs, "keys": keys}
            store.append_line(marks, json.dumps(mark), durable=False)

    def _write(self, change: Change, candidate: Candidate) -> None:
        for task in change.kernels:
            compiling.write_kernel(task, task.kernel.compiled)
        folder = Workspace(self.config.workspace).pairs / candidate.id
        merged_with_earlier(folder, candidate, self.record.note)


def read_commit(task: CommitTask) -> CommitReport:
    """Read a commit in a worker; whatever a tree holds, other commits are unaffected.

    Raises:
        InputError: the workspace cannot be written.
    """
    if task.changed.broken:
        return CommitReport(CommitOutcome.BROKEN, f"{task.changed.broken} ({_REMEDY})")
    try:
        with task.repository:
            changes = tuple(_Reading(task).changes())
    except BrokenObject as error:
        return CommitReport(CommitOutcome.BROKEN, f"{error} ({_REMEDY})")
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - the boundary around code that reads whatever a tree holds
        return CommitReport(CommitOutcome.FAILED, f"{type(error).__name__}: {error}"[:MAX_REASON])
    return CommitReport(CommitOutcome.READ if changes else CommitOutcome.NO_KERNEL, "", changes)


@dataclass(frozen=True)
class _Text:
    """The device code of one file: its kernels' tokens by name, and those of all else on the device."""

    kernels: Mapping[str, tuple[tuple[bytes, ...], ...]]
    helpers: Counter[tuple[bytes, ...]]

    @classmethod
    def of(cls, source: bytes | None) -> _Text:
        kernels: dict[str, tuple[tuple[bytes, ...], ...]] = {}
        helpers: Counter[tuple[bytes, ...]] = Counter()
        items: Sequence[Item] = ()
        if source is not None and len(source) <= MAX_SOURCE_BYTES and KERNEL_MARK in source:
            items = parse(source).items
        for item in items:
            tokens = normalised_tokens((source or b"")[item.start : item.end])
            if item.kernel:
                name = item.names[-1].decode("latin-1")
                kernels[name] = (*kernels.get(name, ()), tokens)
            elif item.device or item.kind != "function":
                helpers[tokens] += 1
        return cls(kernels, helpers)


class _Reading:
    """One commit: its kernels before and after it, matched and compared."""

    def __init__(self, task: CommitTask) -> None:
        self.task, self.repository = task, task.repository
        self.commit = task.changed.commit
        head, _, message = (self.repository.read(self.commit) or b"").partition(b"\n\n")
        parents = re.findall(rb"^parent ([0-9a-f]+)$", head, re.MULTILINE)
        self.parent = parents[0].decode() if parents else ""
        self.claim = claim_in(message.decode("utf-8", "replace"))

    def changes(self) -> Iterator[Change]:
        """Every kernel that the commit changes and that exists before and after it."""
        texts = [(file, *self._texts(file)) for file in self.task.changed.files]
        lost = {name for _, old, new in texts for name in old.kernels.keys() - new.kernels.keys()}
        gained = {name for _, old, new in texts for name in new.kernels.keys() - old.kernels.keys()}
        before: list[Placed] = []
        after: list[Placed] = []
        lineage: dict[str, str] = {}
        wanted: set[str] = set()
        for file, old, new in texts:
            common = old.kernels.keys() & new.kernels.keys()
            whole = old.helpers != new.helpers
            changed = {name for name in common if whole or old.kernels[name] != new.kernels[name]}
            moved = (old.kernels.keys() & lost or new.kernels.keys() & gained) if lost and gained else ()
            if not changed and not moved:
                continue
            wanted |= changed
            if file.before and file.after:
                lineage[file.after] = file.before
            if file.before and old.kernels:
                before += self._kernels(self.parent, file.before)
            if file.after and new.kernels:
                after += self._kernels(self.commit, file.after)
        matched = list(match(before, after, lineage))
        for name in sorted(wanted - {placed.kernel.name for _, placed in matched}):
            yield Change(name, ChangeOutcome.UNREAD, "could not be taken out of its file at both revisions")
        for slow, fast in matched:
            if normalised_tokens(slow.code) != normalised_tokens(fast.code):
                yield self._compared(slow, fast)

    def _texts(self, file: FileChange) -> tuple[_Text, _Text]:
        sources = [
            self.repository.read(blob) if path else None
            for path, blob in zip((file.before, file.after), file.blobs, strict=True)
        ]
        if None not in sources and len({normalised_tokens(source or b"") for source in sources}) == 1:
            return _Text({}, Counter()), _Text({}, Counter())
        old, new = map(_Text.of, sources)
        return old, new

    def _kernels(self, commit: str, path: str) -> list[Placed]:
        """The kernels of a file at a revision, made standalone."""
        root = _snapshot(self.repository, commit, path, self.task.snapshots)
        kernels = kernels_of(root, path, self.task.define, self.task.licence)
        url = self.repository.url
        return [
            Placed(replace(kernel, source=replace(kernel.source, url=url, revision=commit)), code, path)
            for kernel, code in kernels
        ]

    def _compared(self, old: Placed, new: Placed) -> Change:
        name = new.kernel.name
        if signature(old.kernel) != signature(new.kernel) and _launches(old) != _launches(new):
            return Change(name, ChangeOutcome.INTERFACE, "its parameters and its launches differ")
        tasks = []
        for kernel in (old, new):
            folder = self.task.kernels / kernel.kernel.id
            built = compiling.KernelTask(folder, kernel.kernel, kernel.code, self.task.compiler)
            compiled = compiling.compiled(built)
            if compiled is not None and not compiled.ok:
                side = "before" if kernel is old else "after"
                return Change(
                    name, ChangeOutcome.COMPILE_ERROR, f"does not compile by itself {side} the commit"
                )
            tasks.append(replace(built, kernel=replace(kernel.kernel, compiled=compiled)))
        hashes = [task.kernel.compiled.code_sha256 for task in tasks if task.kernel.compiled]
        if len(set(hashes)) == 1 and len(hashes) == len(tasks):
            return Change(name, ChangeOutcome.MACHINE_CODE_IDENTICAL)
        key = store.content_id(*(b" ".join(normalised_tokens(side.code)) for side in (old, new)))
        return Change(name, ChangeOutcome.PAIR, "", key, tuple(tasks), self._candidate(old, new))

    def _candidate(self, old: Placed, new: Placed) -> Candidate:
        suite, kernels = self.repository.name, (old.kernel, new.kernel)
        origin = Origin(
            "history",
            suite=suite,
            url=self.repository.url,
            revision=self.commit,
            kernels=(old.kernel.id, new.kernel.id),
            base_revision=self.parent,
            path=new.path,
            claim=self.claim,
        )
        where = new.path if old.path == new.path else f"{old.path}, then {new.path},"
        return Candidate(
            id=f"{suite}/{new.kernel.id.partition('/')[2]}-{self.commit[:10]}",
            family=new.kernel.name,
            domain=UNKNOWN_DOMAIN,
            license=joint_license(kernels),
            origin=origin,
            techniques=tuple(sorted({*new.kernel.techniques} - {*old.kernel.techniques})),
            description=f"{new.kernel.name} in {where} before and after commit {self.commit[:12]}.",
            problem=None,
            slow=Side(old.code.decode("utf-8", "replace"), ()),
            fast=Side(new.code.decode("utf-8", "replace"), ()),
        )


def claim_in(message: str) -> str | None:
    """The speedup that a commit message claims, as `1.5x` or `20%`; None: it names no number."""
    match = _CLAIM.search(" ".join(message.split()))
    return "".join(filter(None, match.groups())).lower().replace("×", "x") if match else None


def match(
    before: Sequence[Placed], after: Sequence[Placed], lineage: Mapping[str, str]
) -> Iterator[tuple[Placed, Placed]]:
    """The kernels of a commit that are one kernel; `lineage` has each file's path before the commit.

    First of the same file and name; then moved ones, of the same name and parameters; then renamed ones, of
    the same file and parameters. A kernel with several counterparts has none, unless they are in one order.
    """

    def keys(placed: Placed, path: str) -> tuple[tuple[object, ...], ...]:
        name, parameters = placed.kernel.name, signature(placed.kernel)
        return (path, name), (name, parameters), (path, parameters)

    old = {index: keys(placed, placed.path) for index, placed in enumerate(before)}
    new = {index: keys(placed, lineage.get(placed.path, placed.path)) for index, placed in enumerate(after)}
    for step in range(3):
        for key in dict.fromkeys(place[step] for place in new.values()):
            left = [index for index, place in old.items() if place[step] == key]
            right = [index for index, place in new.items() if place[step] == key]
            if len(left) == len(right) and (step == 0 or len(left) == 1):
                for first, second in zip(left, right, strict=True):
                    del old[first], new[second]
                    yield before[first], after[second]


def _launches(placed: Placed) -> object:
    """How a kernel is launched; no two kernels that nothing launches are launched alike."""
    sites = {
        (site.grid, site.block, site.shared_bytes, tuple(argument.expression for argument in site.arguments))
        for site in placed.kernel.launch_sites
    }
    return sites or placed.kernel.id


class _TreeReader(Reader):
    """Reads the files of a repository at one revision."""

    def __init__(self, repository: Repository, listing: Mapping[str, str]) -> None:
        super().__init__(Path(), locate=by_ending(filter(_is_source, listing)))
        self.repository, self.listing = repository, listing

    def read(self, path: str) -> bytes | None:
        short = posixpath.normpath(path)
        if short not in self.cache:
            known = short in self.listing and len(self.cache) < MAX_SNAPSHOT_FILES
            self.cache[short] = self.repository.read(self.listing[short]) if known else None
        return self.cache[short]

    def exists(self, path: str) -> bool:
        return posixpath.normpath(path) in self.listing


def _snapshot(repository: Repository, commit: str, path: str, snapshots: Path) -> Path:
    """Write what reading a file at a revision takes; the folder, named after the repository and content."""
    listing = repository.files(commit)
    reader = _TreeReader(repository, listing)
    folder = posixpath.dirname(path)
    above = [folder]
    while above[-1]:
        above.append(posixpath.dirname(above[-1]))
    sources: dict[str, list[str]] = {each: [] for each in above}
    paths = set()
    for other in listing:
        place, name = posixpath.split(other)
        if place in sources and _is_source(name):
            sources[place].append(other)
        elif place in sources and (name in _BUILD_FILES or _LICENCE_FILE.match(name)):
            paths.add(other)
    roots = {path, *(sources[folder] if len(sources[folder]) <= MAX_SIBLINGS else ())}
    near = [other for place in above if len(sources[place]) <= MAX_COLLECTED for other in sources[place]]
    graph = include_graph(reader, [path, *near])
    roots |= {other for other in near if path in reachable(graph, other)}
    paths |= {other for root in roots for other in reachable(graph, root)}
    chosen = sorted(other for other in paths if not any(part in listing for part in _parents(other)))
    digest = store.content_id(*(f"{other} {listing[other]}" for other in chosen))[:12]
    root = snapshots / f"{repository.name}-{digest}"
    for other in chosen:
        if not (root / other).exists() and (data := repository.read(listing[other])) is not None:
            store.write_bytes(root / other, data, durable=False)
    return root


def _is_source(path: str) -> bool:
    return posixpath.splitext(path)[1].lower() in SOURCE_SUFFIXES


def _parents(path: str) -> list[str]:
    return [str(parent) for parent in Path(path).parents][:-1]


@lru_cache(maxsize=32)
def kernels_of(
    root: Path, path: str, define: tuple[str, ...], licence: str | None
) -> tuple[tuple[Kernel, bytes], ...]:
    """The kernels of one file of a snapshot and their standalone codes, launches in its other files known."""
    (files,) = find_files((root,), GENERIC, Filter())
    files.tree = replace(files.tree, license=licence)
    with Pool(1) as pool:
        choose_units(files, pool, FlagFinder(root, given_flags(define, (), root), {}))
    files.roots = {path: files.roots.get(path, [])}
    results = {}
    for unit in [*files.roots[path], *files.launchers]:
        folders = files.tree.manifest.layout.include
        results[unit] = read_unit(UnitTask(root, folders, unit, files.flags[unit], files.located[unit]))
        if unit in files.roots[path] and results[unit].kernels_of(path):
            files.roots[path] = [unit]
    tree = merge(files, results, {})
    return tuple((kernel, tree.codes[kernel.id]) for kernel in tree.kernels)
