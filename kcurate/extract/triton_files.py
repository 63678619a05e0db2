"""Kernels in Triton of a tree's Python files, added to its CUDA kernels; no file is run or imported.

A function that others call and nobody launches is a helper; one that another decorator makes kernels from
is `generated_kernel`. Not covered: cutting a function out (`kcurate.triton_source.extracting`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kcurate.core import time_limits
from kcurate.core.json_text import shown
from kcurate.core.worker_pool import Failure, Pool
from kcurate.extract.merge import Lost, TreeKernels
from kcurate.extract.naming import kernel_id, unique
from kcurate.extract.reasons import Reason
from kcurate.extract.sources import TreeFiles
from kcurate.extract.units import MAX_REASON
from kcurate.extract.walk import FileOutcome, read_source
from kcurate.records import Argument, Configuration, Kernel, LaunchSite, Param, Span
from kcurate.suites import Place
from kcurate.suites import Tree as SuiteTree
from kcurate.triton_source import extracting
from kcurate.triton_source.configurations import WARPS, Config
from kcurate.triton_source.extracting import Cut, Launched
from kcurate.triton_source.scopes import Defined, Tree

READ_TOGETHER = 32
_OPTIONS = ("num_warps", "num_stages")


@dataclass(frozen=True)
class PythonTask:
    """Files to read: the tree's root, all Python files in it, and which of them."""

    root: Path
    every: tuple[str, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """A `@triton.jit` function: a record without place, id and launches; why there is no code."""

    name: str
    span: Span
    code: str
    params: tuple[Param, ...]
    closure: tuple[Span, ...]
    configurations: tuple[Configuration, ...]
    used: frozenset[tuple[str, str]]
    wrapped: str | None
    lost: Lost | None


@dataclass(frozen=True)
class PythonReport:
    """A file's functions and launches; `failed` says what ended the reading."""

    path: str
    found: tuple[Found, ...] = ()
    launches: tuple[Launched, ...] = ()
    failed: str | None = None


def read_python(task: PythonTask) -> list[PythonReport]:
    """Read files in a worker."""

    def read(path: str) -> str | None:
        data = read_source(task.root / path)
        return data.decode("utf-8", "replace") if isinstance(data, bytes) else None

    tree = Tree(task.every, read)
    return [_report(tree, path) for path in task.paths]


def _report(tree: Tree, path: str) -> PythonReport:
    file = tree.file(path)
    if file is None:
        return PythonReport(path, failed="it is not Python, or is too large")
    try:
        found = tuple(map(_found, extracting.cuts(file)))
        return PythonReport(path, found, tuple(extracting.launches(file)))
    except Exception as error:  # noqa: BLE001 - the boundary around code that reads whatever a tree holds
        return PythonReport(path, failed=f"{type(error).__name__}: {error}"[:MAX_REASON])


def _found(cut: Cut) -> Found:
    parts = {(one.file.path, one.name): _span(one) for one in cut.parts}
    marked = extracting.pointers(cut.node)
    params = tuple(
        Param(arg.arg, "tl.constexpr" if constexpr else "", pointer=arg.arg in marked)
        for arg, constexpr in extracting.parameters(cut.node)
    )
    configurations = tuple(_frozen(one, cut.computed) for one in cut.configurations)
    if cut.computed and not configurations:
        configurations = (_frozen(Config({}), cut.computed),)
    return Found(
        cut.name,
        _span(Defined(cut.file, cut.name, cut.node)),
        cut.code,
        params,
        tuple(parts.values()),
        configurations,
        frozenset(cut.used),
        cut.wrapped,
        Lost(cut.name, cut.node.lineno, str(cut.left.reason), cut.left.what) if cut.left else None,
    )


def _frozen(config: Config, computed: Mapping[str, str]) -> Configuration:
    """A configuration with what heuristics add; they may also set the options."""
    given = {**computed, **config.constants}
    options = {name: given.pop(name) for name in _OPTIONS if isinstance(given.get(name), int)}
    warps = options.get("num_warps", config.num_warps)
    return Configuration(given, warps, options.get("num_stages", config.num_stages))


def _span(one: Defined) -> Span:
    text, node = one.file.text, one.node
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    last = node.end_lineno or first
    lines = text.encode().splitlines(keepends=True)
    start, end = (sum(map(len, lines[:count])) for count in (first - 1, last))
    return Span(one.file.path, start, end, first, last)


def with_triton(files: TreeFiles, tree: TreeKernels, pool: Pool) -> TreeKernels:
    """The tree's kernels and those of its Python files."""
    if not any(jit for _, jit in files.modules):
        return tree
    every = tuple(path for path, _ in files.modules)
    tasks = [
        PythonTask(files.tree.root, every, every[at : at + READ_TOGETHER])
        for at in range(0, len(every), READ_TOGETHER)
    ]
    reports: dict[str, PythonReport] = {}
    for index, answer in pool.run(read_python, tasks, timeout_s=time_limits.READ_UNIT_S):
        if isinstance(answer, Failure):
            failed = f"{answer.kind}: {answer.detail}"
            answer = [PythonReport(path, failed=failed) for path in tasks[index].paths]
        reports.update((one.path, one) for one in answer)
    return _merged(files, tree, reports)


def _merged(files: TreeFiles, tree: TreeKernels, reports: Mapping[str, PythonReport]) -> TreeKernels:
    sites = _sites(files.tree, reports)
    helpers = {used for report in reports.values() for one in report.found for used in one.used}
    kernels, codes = list(tree.kernels), dict(tree.codes)
    reasons, lost = dict(tree.reasons), dict(tree.lost)
    for path, jit in files.modules:
        report, place = reports[path], files.tree.locate(path)
        if report.failed and jit:
            reasons[path] = Reason(FileOutcome.PARSER_FAILED, f"reading it failed: {report.failed}")
        if place is None:
            continue
        taken, left = [], []
        for one in report.found:
            launched = sites.get((path, one.name), ())
            if not launched and (path, one.name) in helpers:
                continue
            if not launched and one.wrapped:
                what = f"nothing launches it, and @{one.wrapped} may make another kernel from it"
                left.append(Lost(one.name, one.span.start_line, str(extracting.Reason.GENERATED), what))
            elif one.lost:
                left.append(one.lost)
            else:
                taken.append(one)
        ids = unique(kernel_id(files.tree.suite, place, one.name) for one in taken)
        for id_, one in zip(ids, taken, strict=True):
            kernels.append(_record(files.tree, place, id_, one, sites.get((path, one.name), ())))
            codes[id_] = one.code.encode()
        if left:
            lost[path] = tuple(left)
            if not taken:
                reasons[path] = Reason(FileOutcome.UNREAD_KERNEL, f"{left[0].name}: {left[0].why}")
    return replace(tree, kernels=tuple(kernels), codes=codes, reasons=reasons, lost=lost)


def _record(tree: SuiteTree, place: Place, id_: str, one: Found, sites: Sequence[LaunchSite]) -> Kernel:
    benchmark = place.benchmark or tree.suite
    facts = tree.benchmark(benchmark)
    return Kernel(
        id=id_,
        source=tree.source(benchmark, one.span.path),
        benchmark=shown(benchmark),
        variant=place.variant,
        name=one.name,
        span=replace(one.span, path=shown(one.span.path)),
        root=shown(one.span.path),
        params=one.params,
        launch_sites=tuple(sites),
        closure=tuple(replace(span, path=shown(span.path)) for span in one.closure),
        domain=facts.domain if facts else None,
        family=facts.family if facts else None,
        language="triton",
        configurations=one.configurations,
    )


def _sites(tree: SuiteTree, reports: Mapping[str, PythonReport]) -> dict[tuple[str, str], list[LaunchSite]]:
    """The launches of each function by path and name: of its own file, else of files that import it."""
    found: dict[tuple[str, str], list[LaunchSite]] = {}
    imported: dict[str, list[LaunchSite]] = defaultdict(list)
    for path, report in sorted(reports.items()):
        for site in report.launches:
            if site.imported:
                imported[site.name].append(_site(path, site))
    for path, report in reports.items():
        for one in report.found:
            of_file = [each for each in report.launches if each.name == one.name and not each.imported]
            own = [_site(path, each) for each in of_file]
            found[path, one.name] = own or imported.get(one.name, [])
    return found


def _site(path: str, one: Launched) -> LaunchSite:
    warps = one.keywords.get("num_warps", str(WARPS))
    return LaunchSite(
        path=shown(path),
        line=one.line,
        grid=", ".join(one.grid),
        block=f"32 * ({warps})" if not warps.isdigit() else str(32 * int(warps)),
        arguments=tuple(map(Argument, one.arguments)),
        keywords=one.keywords,
    )
