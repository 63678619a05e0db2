"""Merges unit reports into one record for each kernel, with its place, id and licence."""

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
# The launches of one kernel name in one variant: by folder, those of files in or below it.
SitesBelow = dict[str, dict[NamedSite, None]]
Placed = TypeVar("Placed", LaunchSite, Condition, Finding)

# Launches in other units that are kept for a kernel name and folder.
MAX_SITES = 64
# The outcome of each `__global__` in a file for which no unit could be parsed.
NOT_PARSED = "not_parsed"


@dataclass(frozen=True)
class TreeKernels:
    """All kernels of one tree, in file order.

    `codes` is by kernel id. `file_codes` (for files in variant folders: one file with all their kernels) and
    `device_fractions` are by path. `source_paths` are the files that were read; `reasons` says why one that
    contains `__global__` has no kernel. `unread` counts, by path, kernels that could not be extracted.
    `conditions` counts the preprocessor conditions that were evaluated; `unevaluated` are (unit, condition)
    for those without a known value. `lost` are the Triton functions that could not be extracted, by path.
    `not_found` are, by unit, includes that are neither in its repository nor standard. `marks` counts every
    `__global__` by outcome; `marks_in_text` is how many the text has. `definitions` as in `TreeFiles`. `jit`
    counts Triton functions: kernels, helpers, lost ones. `second` are the findings of a second reader.
    `reached`: as in `KernelSource`, by kernel id.
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
    """Take each file's kernels from the first unit that has any; `failed` maps a unit to its error."""
    units = {
        path: [results[root] for root in roots if root in results] for path, roots in files.roots.items()
    }
    chosen = {
        path: next((unit for unit in units[path] if unit.kernels_of(path)), None) for path in sorted(units)
    }
    placed = {path: (place, unit) for path, unit in chosen.items() if unit and (place := files.place(path))}
    kernels, codes, reached = _kernels(files, placed, _launches(files, results))
    in_variants = {path: unit for path, (place, unit) in placed.items() if place.variant is not None}
    file_codes = {path: unit.file_codes[path] for path, unit in in_variants.items()}
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
    """The second reader's findings on each file: from the unit of its kernels, else from its first unit."""
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
    """The records of the files' kernels; by kernel id their code, and `reached`."""
    kernels: list[Kernel] = []
    codes: dict[str, bytes] = {}
    reached: dict[str, bytes] = {}
    taken: set[tuple[str, int]] = set()
    for path, (place, unit) in placed.items():
        # A string may be a part of several programs; its kernels count once.
        members = [kernel for kernel in unit.kernels_of(path) if _start(files, kernel) not in taken]
        taken.update(_start(files, kernel) for kernel in members)
        ids = unique(kernel_id(files.tree.suite, place, member.name) for member in members)
        # Files outside the variant folders may launch the kernels of every variant.
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
    """The number of unread kernels by file, and the number of `__global__` by outcome."""
    unread: dict[str, int] = {}
    marks: Counter[str] = Counter()
    for path, unit in chosen.items():
        count = max((report.unread.get(path, 0) for report in ([unit] if unit else units[path])), default=0)
        if count:
            unread[files.file(path)] = unread.get(files.file(path), 0) + count
        reports = [unit, *units[path]] if unit else units[path]
        reported = next((report.marks[path] for report in reports if path in report.marks), None)
        if reported is None:
            marks[NOT_PARSED] += files.marks.get(path, 0)
        else:
            marks.update({str(mark): number for mark, number in reported.items()})
    marks[COMPUTED_TEXT] += sum(files.marks[path] for path in files.lost)
    return unread, marks


def _start(files: TreeFiles, kernel: KernelSource) -> tuple[str, int]:
    """The file and start byte of a kernel, which identify it."""
    span = files.span(kernel.span)
    return span.path, span.start_byte


def _of_files(files: TreeFiles, why: Mapping[str, Reason], reached: Collection[str]) -> dict[str, Reason]:
    """The reasons by file instead of by part: a file without kernels has the reason of its first part."""
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
    """The record of a kernel in its place.

    If its unit does not launch it, its launches are those of the first member of `sites` that has any.
    """
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
    """The record with the path and line of the file instead of a part."""
    path, line = files.file(record.path), files.line(record.path, record.line)
    return replace(record, path=shown(path), line=line)


def _nearest_sites(qualified: str, path: str, sites: Mapping[str, SitesBelow]) -> dict[LaunchSite, None]:
    """The launches that name a kernel, qualified or by a suffix, in the nearest folder that has any.

    Nearest, because a corpus has thousands of kernels of one name, each with its own launch beside it.
    """
    by_folder = sites.get(qualified.rpartition("::")[2], {})
    for folder in folders_around(path):
        sites_in_folder = by_folder.get(folder, ())
        suffix_matches = (
            site
            for name, site in sites_in_folder
            if f"::{qualified}".endswith(f"::{name.removeprefix('::')}")
        )
        if matching := dict.fromkeys(suffix_matches):
            return matching
    return {}


def _launches(files: TreeFiles, results: Mapping[str, UnitReport]) -> dict[VariantKey, dict[str, SitesBelow]]:
    """The launches by benchmark and variant, then by the kernel's unqualified name, then by folder.

    A folder has at most `MAX_SITES` of each name, from files in or below it. A launch of `wave::step` in
    `app/src/a.cu` is at `[(benchmark, variant)]["step"]` in the folders `app/src`, `app` and `""`.
    """
    sites: dict[VariantKey, dict[str, SitesBelow]] = defaultdict(lambda: defaultdict(dict))
    launches_of_files = [(root, result.launches) for root, result in sorted(results.items())]
    launches_of_files += [(launch[1].path, (launch,)) for launch in files.launches]
    for root, launches in launches_of_files:
        place = files.place(root)
        if place is not None:
            of_variant = sites[(place.benchmark, place.variant)]
            for name, site in launches:
                by_folder = of_variant[name.rpartition("::")[2]]
                for folder in folders_around(site.path):
                    sites_in_folder = by_folder.setdefault(folder, {})
                    if len(sites_in_folder) < MAX_SITES:
                        sites_in_folder[name, site] = None
    return sites
