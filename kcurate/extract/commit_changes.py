"""What one commit changes: the kernels before and after it, matched, compared and paired.

A commit is read if it changes a kernel, or device code in a kernel's file. Not covered: device code in files
without kernels, writing the pairs (`history`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from kcurate.core import store
from kcurate.cuda_source import Item, normalised_tokens, parse
from kcurate.errors import InputError
from kcurate.extract import compiling
from kcurate.extract.candidates import UNKNOWN_DOMAIN, joint_license
from kcurate.extract.git_objects import BrokenObject, Changed, FileChange, Repository
from kcurate.extract.pairs import PairOutcome
from kcurate.extract.snapshots import kernels_of, write_snapshot
from kcurate.extract.sources import KERNEL_MARK
from kcurate.extract.units import MAX_REASON
from kcurate.extract.versions import signature
from kcurate.records import Candidate, Kernel, Origin, Side

# A larger file is a generated table, or was made to be slow to parse.
MAX_SOURCE_BYTES = 1 << 20
_TIMES = r"(\d+(?:\.\d+)?) ?([x×%])"
_CLAIM = re.compile(
    rf"{_TIMES} (?:faster|speed-?up|improvement|perf)|"
    rf"(?:faster|speed-?up|improvement|improves?)(?: performance)?(?: (?:by|of|is))? ~?{_TIMES}",
    re.IGNORECASE,
)
REMEDY = "git fsck names what is damaged; git fetch --refetch origin, or a new clone, brings it back"


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
    """A kernel that a commit changed: the outcome, its reason, and for a pair the kernels and the candidate.

    `key` is equal for equal changes, so a change that several commits make becomes one pair.
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


def read_commit(task: CommitTask) -> CommitReport:
    """Read a commit in a worker; an error in reading it becomes its outcome and affects no other commit.

    Raises:
        InputError: the workspace cannot be written.
    """
    if task.changed.broken:
        return CommitReport(CommitOutcome.BROKEN, f"{task.changed.broken} ({REMEDY})")
    try:
        with task.repository:
            changes = tuple(_Reading(task).changes())
    except BrokenObject as error:
        return CommitReport(CommitOutcome.BROKEN, f"{error} ({REMEDY})")
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - the boundary around code that reads whatever a tree holds
        return CommitReport(CommitOutcome.FAILED, f"{type(error).__name__}: {error}"[:MAX_REASON])
    return CommitReport(CommitOutcome.READ if changes else CommitOutcome.NO_KERNEL, "", changes)


@dataclass(frozen=True)
class _Text:
    """The device code of a file: the tokens of its kernels by name, and of its other device declarations."""

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
        before: list[Placed] = []
        after: list[Placed] = []
        lineage: dict[str, str] = {}
        changed_names: set[str] = set()
        for file, old, new, changed in self._changed_files():
            changed_names |= changed
            if file.before and file.after:
                lineage[file.after] = file.before
            if file.before and old.kernels:
                before += self._kernels(self.parent, file.before)
            if file.after and new.kernels:
                after += self._kernels(self.commit, file.after)
        matched = list(match(before, after, lineage))
        for name in sorted(changed_names - {placed.kernel.name for _, placed in matched}):
            yield Change(name, ChangeOutcome.UNREAD, "could not be taken out of its file at both revisions")
        for slow, fast in matched:
            if normalised_tokens(slow.code) != normalised_tokens(fast.code):
                yield self._compared(slow, fast)

    def _changed_files(self) -> Iterator[tuple[FileChange, _Text, _Text, set[str]]]:
        """The files in which the commit changes or moves kernels.

        As (file, text before, text after, names of the changed kernels).
        """
        texts = [(file, *self._texts(file)) for file in self.task.changed.files]
        lost = {name for _, old, new in texts for name in old.kernels.keys() - new.kernels.keys()}
        gained = {name for _, old, new in texts for name in new.kernels.keys() - old.kernels.keys()}
        for file, old, new in texts:
            common = old.kernels.keys() & new.kernels.keys()
            helpers_differ = old.helpers != new.helpers
            changed = {name for name in common if helpers_differ or old.kernels[name] != new.kernels[name]}
            moved = (old.kernels.keys() & lost or new.kernels.keys() & gained) if lost and gained else ()
            if changed or moved:
                yield file, old, new, changed

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
        root = write_snapshot(self.repository, commit, path, self.task.snapshots)
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
                why = f"does not compile by itself {'before' if kernel is old else 'after'} the commit"
                return Change(name, ChangeOutcome.COMPILE_ERROR, why)
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
    """The speedup that a commit message claims, as `1.5x` or `20%`; None: it states no number."""
    match = _CLAIM.search(" ".join(message.split()))
    return "".join(filter(None, match.groups())).lower().replace("×", "x") if match else None


def match(
    before: Sequence[Placed], after: Sequence[Placed], lineage: Mapping[str, str]
) -> Iterator[tuple[Placed, Placed]]:
    """The pairs of a kernel before and after a commit; `lineage` maps a file to its path before it.

    Kernels match by file and name; then, for moved ones, by name and parameters; then, for renamed ones, by
    file and parameters. If several kernels have the same key, only the first rule matches them, in order, and
    only if their number is the same.
    """

    def keys(placed: Placed, path: str) -> tuple[tuple[object, ...], ...]:
        name, parameters = placed.kernel.name, signature(placed.kernel)
        return (path, name), (name, parameters), (path, parameters)

    old = {index: keys(placed, placed.path) for index, placed in enumerate(before)}
    new = {index: keys(placed, lineage.get(placed.path, placed.path)) for index, placed in enumerate(after)}
    for step in range(3):
        for key in dict.fromkeys(keys_of[step] for keys_of in new.values()):
            old_indices = [index for index, keys_of in old.items() if keys_of[step] == key]
            new_indices = [index for index, keys_of in new.items() if keys_of[step] == key]
            if len(old_indices) == len(new_indices) and (step == 0 or len(old_indices) == 1):
                for old_index, new_index in zip(old_indices, new_indices, strict=True):
                    del old[old_index], new[new_index]
                    yield before[old_index], after[new_index]


def _launches(placed: Placed) -> object:
    """How a kernel is launched, for comparison; a kernel without launches equals no other kernel."""
    sites = {
        (site.grid, site.block, site.shared_bytes, tuple(argument.expression for argument in site.arguments))
        for site in placed.kernel.launch_sites
    }
    return sites or placed.kernel.id
