"""Merges unit results: one record per kernel, whichever unit it came from, with place, id and licence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kcurate.core.json_text import shown
from kcurate.cuda_source import Finding, KernelSource, Seen, UnitReport
from kcurate.extract.flags import NO_FLAGS
from kcurate.extract.includes import Reader, folders_around
from kcurate.extract.naming import kernel_id, unique
from kcurate.extract.reasons import Lost, Reason, reasons
from kcurate.extract.sources import COMPUTED_TEXT, TreeFiles
from kcurate.extract.walk import FileOutcome
from kcurate.records import Condition, Kernel, LaunchSite
from kcurate.suites import Place, Tree

VariantKey = tuple[str | None, str | None]
NamedSite = tuple[str, LaunchSite]
# The launches of one name in a benchmark's variant: by folder, those of files in or below it.
SitesBelow = dict[str, dict[NamedSite, None]]
Placed = TypeVar("Placed", LaunchSite, Condition, Finding)

# So many launches in other units are kept of a kernel that its own unit does not launch.
MAX_SITES = 64
# What became of every `__global__` in a file that no unit could be read with.
NOT_PARSED = "not_parsed"


@dataclass(frozen=True)
class TreeKernels:
    """All kernels of one tree, in file order.

    `codes` is by kernel id; `file_codes` (of each file of a variant the joint closure of its kernels) and
    `device_fractions` are by path. `reasons` says why a path that contains `__global__` gives none,
    `source_paths` is what was read. `unread` counts a path's kernels that could not be extracted.
    `conditions` counts the preprocessor conditions that were evaluated; `unevaluated` are those that could
    not be, each with its unit's root. `lost` are the functions in Triton that could not be taken, by path.
    `not_found` are the includes of a unit that are neither in its repository nor standard, by its root.
    `marks` says what became of every `__global__` of a file; `marks_in_text` is how many there are.
    `definitions`: as in `TreeFiles`. `jit` counts the functions in Triton: kernels, helpers, those that are
    lost. `second`: what a second reader makes of the units that were taken; `reached`: as in `KernelSource`,
    by kernel id.
    """

    tree: Tree
    kernels: tuple[Kernel, ...]
    codes: Mapping[str, bytes]
    file_codes: Mapping[str, bytes]
    device_fractions: Mapping[str, float]
    source_paths: tuple[str, ...]
    reasons: Mapping[str, Reason]
    unread: Mapping[str, int]
    conditions: int
    unevaluated: tuple[tuple[str, Condition], ...]
    lost: Mapping[str, tuple[Lost, ...]] = field(default_factory=dict)
    not_found: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    marks: Mapping[str, int] = field(default_factory=dict)
    marks_in_text: int = 0
    definitions: Mapping[str, str] = field(default_factory=dict)
    jit: Mapping[str, int] = field(default_factory=dict)
    second: tuple[Finding, ...] = ()
    reached: Mapping[str, bytes] = field(default_factory=dict)


def merge(files: TreeFiles, results: Mapping[str, UnitReport], failed: Mapping[str, str]) -> TreeKernels:
    """Take each file's kernels from the first of its units with any; `failed` says why a unit has none."""
    units = {
        path: [results[root] for root in roots if root in results] for path, roots in files.roots.items()
    }
    chosen = {
        path: next((unit for unit in units[path] if unit.kernels_of(path)), None) for path in sorted(units)
    }
    placed = {path: (place, unit) for path, unit in chosen.items() if unit and (place := files.place(path))}
    kernels, codes, reached = _kernels(files, placed, _launches(files, results))
    wanted = {path: unit for path, (place, unit) in placed.items() if place.variant is not None}
    file_codes = {path: unit.file_codes[path] for path, unit in wanted.items()}
    unread, marks = _counts(files, units, chosen)
    reader = Reader(files.tree.root)
    texts = {path: reader.read(path) or b"" for path in files.roots if path not in placed}
    why = reasons(files.roots, results, failed, placed, texts, files.line)
    unevaluated = tuple(
        (root, _placed(files, condition))
        for root, result in sorted(results.items())
        for condition in result.unevaluated
    )
    return TreeKernels(
        files.tree,
        tuple(kernels),
        codes,
        file_codes,
        device_fractions={path: unit.device_fractions.get(path, 0.0) for path, (_, unit) in placed.items()},
        source_paths=tuple(file.path for file in files.found if file.outcome is None),
        reasons=_of_files(files, why, {files.file(path) for path in placed}),
        unread=unread,
        conditions=sum(result.conditions for result in results.values()),
        unevaluated=unevaluated,
        lost=files.lost,
        not_found={shown(root): result.not_found for root, result in results.items() if result.not_found},
        marks=marks,
        marks_in_text=sum(files.marks.values()),
        definitions=files.definitions,
        second=_second(files, placed, units),
        reached=reached,
    )


def _second(
    files: TreeFiles,
    placed: Mapping[str, tuple[Place, UnitReport]],
    units: Mapping[str, Sequence[UnitReport]],
) -> tuple[Finding, ...]:
    """What a second reader made of each file: in the unit that its kernels come from, else in the first."""
    chosen = {path: placed[path][1] if path in placed else next(iter(units[path]), None) for path in units}
    findings = {
        finding: None
        for path, unit in chosen.items()
        for finding in (unit.second if unit else ())
        if finding.path == path or finding.seen is Seen.FAILED
    }
    return tuple(_placed(files, finding) for finding in findings)


def _kernels(
    files: TreeFiles,
    placed: Mapping[str, tuple[Place, UnitReport]],
    sites: Mapping[VariantKey, Mapping[str, SitesBelow]],
) -> tuple[list[Kernel], dict[str, bytes], dict[str, bytes]]:
    """The records of the files' kernels, each from its file's unit; by id their codes, and `reached`."""
    kernels: list[Kernel] = []
    codes: dict[str, bytes] = {}
    reached: dict[str, bytes] = {}
    taken: set[tuple[str, int]] = set()
    for path, (place, unit) in placed.items():
        # A string may be part of several programs.
        members = [each for each in unit.kernels_of(path) if _start(files, each) not in taken]
        taken.update(_start(files, each) for each in members)
        ids = unique(kernel_id(files.tree.suite, place, member.name) for member in members)
        # What no variant's folder holds may launch the kernels of each.
        launches = [sites[place.benchmark, variant] for variant in dict.fromkeys((place.variant, None))]
        flags = files.flags.get(unit.root, NO_FLAGS).shown()
        for id_, member in zip(ids, members, strict=True):
            kernels.append(replace(_record(files, place, id_, member, unit, launches), flags=flags))
            codes[id_] = member.code
            if member.reached is not None:
                reached[id_] = member.reached
    return kernels, codes, reached


def _counts(
    files: TreeFiles, units: Mapping[str, Sequence[UnitReport]], chosen: Mapping[str, UnitReport | None]
) -> tuple[dict[str, int], Counter[str]]:
    """By file, the kernels that could not be extracted; what became of every `__global__`."""
    unread: dict[str, int] = {}
    marks: Counter[str] = Counter()
    for path, unit in chosen.items():
        count = max((each.unread.get(path, 0) for each in ([unit] if unit else units[path])), default=0)
        if count:
            unread[files.file(path)] = unread.get(files.file(path), 0) + count
        reports = [unit, *units[path]] if unit else units[path]
        reported = next((each.marks[path] for each in reports if path in each.marks), None)
        if reported is None:
            marks[NOT_PARSED] += files.marks.get(path, 0)
        else:
            marks.update({str(mark): number for mark, number in reported.items()})
    marks[COMPUTED_TEXT] += sum(files.marks[path] for path in files.lost)
    return unread, marks


def _start(files: TreeFiles, kernel: KernelSource) -> tuple[str, int]:
    span = files.span(kernel.span)
    return span.path, span.start_byte


def _of_files(files: TreeFiles, why: Mapping[str, Reason], reached: Collection[str]) -> dict[str, Reason]:
    """The reasons of files by those of their parts: the first one, if the file gives no kernel."""
    by_file = dict(why)
    for path in files.source_maps.keys() & why.keys():
        if (file := files.file(path)) not in reached:
            by_file.setdefault(file, by_file.pop(path))
    for path, lost in files.lost.items():
        if path not in reached:
            by_file.setdefault(path, Reason(FileOutcome.UNREAD_KERNEL, f"{lost[0].name}: {lost[0].why}"))
    return by_file


def _record(
    files: TreeFiles,
    place: Place,
    id_: str,
    source: KernelSource,
    unit: UnitReport,
    sites: Sequence[Mapping[str, SitesBelow]],
) -> Kernel:
    """A kernel in its place; launches from other units if its own has none, of the first `sites` with any."""
    tree = files.tree
    benchmark = place.benchmark or tree.suite
    facts = tree.benchmark(benchmark)
    elsewhere = (tuple(_nearest_sites(source.qualified, source.span.path, known)) for known in sites)
    launches = source.launch_sites or next(filter(None, elsewhere), ())
    return Kernel(
        id=id_,
        source=tree.source(benchmark, source.span.path),
        benchmark=shown(benchmark),
        variant=place.variant,
        name=source.name,
        span=files.span(source.span),
        root=shown(unit.root),
        params=source.params,
        instantiations=source.instantiations,
        launch_sites=tuple(_placed(files, site) for site in launches),
        closure=tuple(map(files.span, source.closure)),
        shims=source.shims,
        features=source.features,
        techniques=source.techniques,
        domain=facts.domain if facts else None,
        family=facts.family if facts else None,
        device_fraction=unit.device_fractions.get(source.span.path, 0.0),
        unevaluated=tuple(_placed(files, condition) for condition in unit.unevaluated),
    )


def _placed(files: TreeFiles, record: Placed) -> Placed:
    """The same at its place in the file, with the path as text."""
    path, line = files.file(record.path), files.line(record.path, record.line)
    return replace(record, path=shown(path), line=line)


def _nearest_sites(qualified: str, path: str, sites: Mapping[str, SitesBelow]) -> dict[LaunchSite, None]:
    """The launches that name a kernel by its qualified name or a suffix, in the nearest folder with any.

    A corpus has thousands of kernels of one name, each with its own launch beside it.
    """
    below = sites.get(qualified.rpartition("::")[2], {})
    for folder in folders_around(path):
        here = below.get(folder, ())
        ending = (site for name, site in here if f"::{qualified}".endswith(f"::{name.removeprefix('::')}"))
        if named := dict.fromkeys(ending):
            return named
    return {}


def _launches(files: TreeFiles, results: Mapping[str, UnitReport]) -> dict[VariantKey, dict[str, SitesBelow]]:
    """The launches in each benchmark's variant by unqualified name and folder, in file order.

    A folder has the first `MAX_SITES` of each name in or below it.
    """
    sites: dict[VariantKey, dict[str, SitesBelow]] = defaultdict(lambda: defaultdict(dict))
    written = [(root, result.launches) for root, result in sorted(results.items())]
    written += [(launch[1].path, (launch,)) for launch in files.launches]
    for root, launches in written:
        place = files.place(root)
        if place is not None:
            known = sites[(place.benchmark, place.variant)]
            for name, site in launches:
                below = known[name.rpartition("::")[2]]
                for folder in folders_around(site.path):
                    here = below.setdefault(folder, {})
                    if len(here) < MAX_SITES:
                        here[name, site] = None
    return sites
