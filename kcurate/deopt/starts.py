"""The starts of deopt: code with its problem and plan, from extracted kernels or from pairs.

Normally the start is a fast side and the slow side is to be written; with `made="fast"` it is the reverse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kcurate.core import codec, own_files, store
from kcurate.core.notes import Note, silent
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError
from kcurate.records import Kernel, Origin, Problem, ProblemOrigin, Side, SideName
from kcurate.suites.problems import PROBLEM_NAME, find_problem, own_problem
from kcurate.verdicts.readable import Unreadable

UNKNOWN_DOMAIN = "unclassified"


@dataclass(frozen=True)
class Start:
    """A side and everything its candidates inherit; `problem` is None if unknown.

    `techniques` are those named by people or by extract; `other` is the existing other side of a pair.
    """

    id: str
    given: Side
    problem: Problem | None
    family: str
    domain: str
    license: str | None
    origin: Origin
    techniques: tuple[str, ...] = ()
    other: Side | None = None

    def content_id(self) -> str:
        """The hash of the given side and the problem: equal for identical starts."""
        data = {"given": codec.to_data(self.given), "problem": codec.to_data(self.problem)}
        return store.content_id("start", codec.canonical_json(data))


def starts(
    paths: Sequence[Path], workspace: Workspace, *, made: SideName = "slow", note: Note = silent
) -> Iterator[Start | Unreadable]:
    """Every kernel and every pair at or below the paths (empty: the workspace's kernels), sorted.

    `made` is the side to be written; a pair provides the other one. `note` receives a message for each
    problem that is not used because it was made for other code than the kernel's.

    Raises:
        InputError: a path does not exist, or there is no readable kernel or pair.
    """
    count, broken = 0, list[InputError]()
    for path in paths or (workspace.kernels,):
        if paths and not (store.exists(path) or store.is_folder(path)):
            raise InputError("no such file or folder", where=str(path), hint="check the path")
        folder = path.parent if store.exists(path) else path
        for record in store.find(folder, "kernel.json", "pair.json"):
            try:
                if record.name == "kernel.json":
                    start: Start | None = _of_kernel(record, workspace, made, note)
                else:
                    start = _of_pair(record.parent, made)
            except InputError as error:
                broken.append(error)
                yield Unreadable.of(record.parent, error)
                continue
            if start is not None:
                count += 1
                yield start
    if not count and broken:
        raise broken[0]
    if not count:
        where = ", ".join(map(str, paths)) or str(workspace.root)
        raise InputError("no kernel or pair here", where=where, hint="run kcurate extract TREE first")


def _of_kernel(record: Path, workspace: Workspace, made: SideName, note: Note) -> Start:
    kernel = store.read_json(record, Kernel)
    code = store.read_kernel_code(record.parent)
    codes = {kernel.variant or "": code}
    problem = find_problem(kernel.source.suite, kernel.benchmark, codes, kernel.span.path)
    described: ProblemOrigin = "known"
    if (problem_beside := own_problem(record.parent, code)) is not None:
        problem, described = problem_beside, problem_beside.source or "drafted"
    elif store.exists(path := record.with_name(PROBLEM_NAME)):
        note(f"{path}: made for other code than the kernel's, so not used: run kcurate problem draft")
    side = (
        problem.sides[kernel.variant or ""].side(code)
        if problem
        else Side(code, (), language=kernel.language)
    )
    source = kernel.source
    folder, root = record.parent, workspace.kernels
    name = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else None
    start_id = name or f"{source.suite}/{kernel.benchmark}/{kernel.name}"
    own_files.check_id(start_id, record)
    return Start(
        id=start_id,
        given=side,
        problem=problem.problem if problem else None,
        family=kernel.family or kernel.benchmark,
        domain=kernel.domain or UNKNOWN_DOMAIN,
        license=kernel.license,
        origin=Origin(
            "rule", source.suite, source.url, source.revision, (kernel.id,), made=made, problem=described
        ),
        techniques=kernel.techniques,
    )


def _of_pair(folder: Path, made: SideName) -> Start | None:
    """The start from one side of a pair; None if the other side was itself made from that one."""
    pair = store.read_candidate(folder)
    own_files.check_id(pair.id, folder / "pair.json")
    origin = pair.origin
    if origin.made == made:
        return None
    return Start(
        id=pair.id,
        given=pair.fast if made == "slow" else pair.slow,
        other=pair.slow if made == "slow" else pair.fast,
        techniques=pair.techniques,
        problem=pair.problem,
        family=pair.family,
        domain=pair.domain,
        license=pair.license,
        origin=replace(origin, kind="rule", made=made, rules=(), model=None, parent=pair.id),
    )
