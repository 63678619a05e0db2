"""Triton kernels in a tree's Python files, added to its CUDA kernels; no file is run or imported.

A function that is called but never launched is a helper. A function from which another decorator may make
kernels has the outcome `generated_kernel`. Not covered: extracting a function's code
(`kcurate.triton_source.extracting`).
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kcurate.core import time_limits
from kcurate.core.grouping import grouped
from kcurate.core.json_text import shown
from kcurate.core.worker_pool import Failure, Pool
from kcurate.extract.merge import TreeKernels
from kcurate.extract.naming import kernel_id, unique
from kcurate.extract.reasons import Lost, Reason
from kcurate.extract.sources import TreeFiles
from kcurate.extract.units import MAX_REASON
from kcurate.extract.walk import FileOutcome, read_source
from kcurate.records import Argument, Configuration, Kernel, LaunchSite, Param, Span
from kcurate.suites import Place
from kcurate.triton_source import extracting
from kcurate.triton_source.configurations import WARPS, Config
from kcurate.triton_source.extracting import Cut, Launched
from kcurate.triton_source.module_names import Defined, Tree

READ_TOGETHER = 32
_OPTIONS = ("num_warps", "num_stages")


@dataclass(frozen=True)
class PythonTask:
    """Python files to read: the tree's root, all its Python files, and those to read."""

    root: Path
    every: tuple[str, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True)
class TritonFunction:
    """A `@triton.jit` function: its code and what its record needs, except for place, id and launches.

    `used` are the functions it calls (path, name); `wrapped` is a decorator that may make kernels from it;
    `lost`: why there is no code.
    """

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
    """The functions and launches of a file; `failed`: why reading it ended early."""

    path: str
    functions: tuple[TritonFunction, ...] = ()
    launches: tuple[Launched, ...] = ()
    failed: str | None = None


def read_python(task: PythonTask) -> list[PythonReport]:
    """Read files in a worker."""

    def read(path: str) -> str | None:
        data = read_source(task.root / path)
        if not isinstance(data, bytes):
            return None
        # A byte order mark becomes form feeds, which Python ignores, so that no offset changes.
        data = b"\f\f\f" + data[3:] if data.startswith(BOM_UTF8) else data
        return data.decode("utf-8", "replace")

    tree = Tree(task.every, read)
    return [_report(tree, path) for path in task.paths]


def _report(tree: Tree, path: str) -> PythonReport:
    file = tree.file(path)
    if file is None:
        return PythonReport(path, failed="it is not Python, or is too large")
    try:
        kernels = tuple(map(_function, extracting.cuts(file)))
        return PythonReport(path, kernels, tuple(extracting.launches(file)))
    except Exception as error:  # noqa: BLE001 - the boundary around code that reads whatever a tree holds
        return PythonReport(path, failed=f"{type(error).__name__}: {error}"[:MAX_REASON])


def _function(cut: Cut) -> TritonFunction:
    parts = {(part.file.path, part.name): _span(part) for part in cut.parts}
    marked = extracting.pointers(cut.node)
    params = tuple(
        Param(arg.arg, "tl.constexpr" if constexpr else "", pointer=arg.arg in marked)
        for arg, constexpr in extracting.parameters(cut.node)
    )
    configurations = tuple(_frozen(configuration, cut.computed) for configuration in cut.configurations)
    if cut.computed and not configurations:
        configurations = (_frozen(Config({}), cut.computed),)
    return TritonFunction(
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
    """A configuration completed by values that heuristics compute, which may also set the options."""
    values = {**computed, **config.constants}
    options = {name: values.pop(name) for name in _OPTIONS if isinstance(values.get(name), int)}
    warps = options.get("num_warps", config.num_warps)
    return Configuration(values, warps, options.get("num_stages", config.num_stages))


def _span(definition: Defined) -> Span:
    text, node = definition.file.text, definition.node
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    last = node.end_lineno or first
    lines = text.encode().splitlines(keepends=True)
    start, end = (sum(map(len, lines[:count])) for count in (first - 1, last))
    return Span(definition.file.path, start, end, first, last)


def with_triton(files: TreeFiles, tree: TreeKernels, pool: Pool) -> TreeKernels:
    """The tree's kernels together with the Triton kernels of its Python files."""
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
        reports.update((report.path, report) for report in answer)
    return _merged(files, tree, reports)


def _merged(files: TreeFiles, tree: TreeKernels, reports: Mapping[str, PythonReport]) -> TreeKernels:
    sites = _sites(files, reports)
    helpers = {used for report in reports.values() for kernel in report.functions for used in kernel.used}
    kernels, codes = list(tree.kernels), dict(tree.codes)
    reasons, lost = dict(tree.reasons), dict(tree.lost)
    functions: Counter[str] = Counter()
    for path, jit in files.modules:
        report, place = reports[path], files.place(path)
        file = files.file(path)
        if report.failed and jit:
            reasons[file] = Reason(FileOutcome.PARSER_FAILED, f"reading it failed: {report.failed}")
        if place is None:
            continue
        extracted, lost_functions = [], []
        for kernel in report.functions:
            launched = sites.get((path, kernel.name), ())
            if not launched and (path, kernel.name) in helpers:
                continue
            if not launched and kernel.wrapped:
                why = f"nothing launches it, and @{kernel.wrapped} may make another kernel from it"
                line = files.line(path, kernel.span.start_line)
                lost_functions.append(Lost(kernel.name, line, str(extracting.Reason.GENERATED), why))
            elif kernel.lost:
                lost_functions.append(replace(kernel.lost, line=files.line(path, kernel.lost.line)))
            else:
                extracted.append(kernel)
        functions.update(
            kernel=len(extracted),
            lost=len(lost_functions),
            helper=len(report.functions) - len(extracted) - len(lost_functions),
        )
        ids = unique(kernel_id(files.tree.suite, place, kernel.name) for kernel in extracted)
        for id_, kernel in zip(ids, extracted, strict=True):
            kernels.append(_record(files, place, id_, kernel, sites.get((path, kernel.name), ())))
            codes[id_] = kernel.code.encode()
        if lost_functions:
            lost[file] = (*lost.get(file, ()), *lost_functions)
            if not extracted:
                reasons[file] = Reason(
                    FileOutcome.UNREAD_KERNEL, f"{lost_functions[0].name}: {lost_functions[0].why}"
                )
    return replace(tree, kernels=tuple(kernels), codes=codes, reasons=reasons, lost=lost, jit=functions)


def _record(
    files: TreeFiles, place: Place, id_: str, kernel: TritonFunction, sites: Sequence[LaunchSite]
) -> Kernel:
    tree = files.tree
    benchmark = place.benchmark or tree.suite
    facts = tree.benchmark(benchmark)
    return Kernel(
        id=id_,
        source=tree.source(benchmark, kernel.span.path),
        benchmark=shown(benchmark),
        variant=place.variant,
        name=kernel.name,
        span=files.span(kernel.span),
        root=shown(kernel.span.path),
        params=kernel.params,
        launch_sites=tuple(sites),
        closure=tuple(map(files.span, kernel.closure)),
        domain=facts.domain if facts else None,
        family=facts.family if facts else None,
        language="triton",
        configurations=kernel.configurations,
    )


def _sites(files: TreeFiles, reports: Mapping[str, PythonReport]) -> dict[tuple[str, str], list[LaunchSite]]:
    """The launches of each function, by path and name: those in its file, else in files that import it."""
    sites: dict[tuple[str, str], list[LaunchSite]] = {}
    imported = grouped(
        (site.name, _site(files, path, site))
        for path, report in sorted(reports.items())
        for site in report.launches
        if site.imported
    )
    for path, report in reports.items():
        for kernel in report.functions:
            of_file = [site for site in report.launches if site.name == kernel.name and not site.imported]
            sites_here = [_site(files, path, site) for site in of_file]
            sites[path, kernel.name] = sites_here or imported[kernel.name]
    return sites


def _site(files: TreeFiles, path: str, launch: Launched) -> LaunchSite:
    warps = launch.keywords.get("num_warps", str(WARPS))
    return LaunchSite(
        path=shown(files.file(path)),
        line=files.line(path, launch.line),
        grid=", ".join(launch.grid),
        block=f"32 * ({warps})" if not warps.isdigit() else str(32 * int(warps)),
        arguments=tuple(map(Argument, launch.arguments)),
        keywords=launch.keywords,
    )
