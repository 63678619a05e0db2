"""Parses one translation unit in a worker: its kernels, their code, and every launch in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kcurate.cuda_source import KernelSource, extract_unit
from kcurate.extract.includes import Reader
from kcurate.json_text import shown
from kcurate.records import Condition, Kernel, LaunchSite, Source, Span


@dataclass(frozen=True)
class UnitTask:
    """A unit to parse: the tree's root, its include folders, and the unit's file in it."""

    tree_root: Path
    include: tuple[str, ...]
    root: str


@dataclass(frozen=True)
class UnitKernel:
    """A kernel as found in its unit: `path` is the file on disk (the record holds it as text)."""

    path: str
    qualified: str
    kernel: Kernel
    code: bytes
    device_fraction: float


@dataclass(frozen=True)
class UnitResult:
    """Contents of a unit; `kernels` in the order of their files, `file_codes` by path.

    `unread` counts, per path, the kernels that could not be extracted; `conditions` the preprocessor
    conditions that were evaluated, `unevaluated` those that could not be.
    """

    kernels: tuple[UnitKernel, ...]
    launches: tuple[tuple[str, LaunchSite], ...]
    file_codes: Mapping[str, bytes]
    unread: Mapping[str, int]
    conditions: int
    unevaluated: tuple[Condition, ...]

    def kernels_of(self, path: str) -> list[UnitKernel]:
        """The kernels that a file defines, in order."""
        return [kernel for kernel in self.kernels if kernel.path == path]


def read_unit(task: UnitTask) -> UnitResult:
    """Parse a unit; its place in the suite is filled in later (`kcurate.extract.merge`)."""
    reader = Reader(task.tree_root, task.include)
    report = extract_unit(task.root, reader.read, reader.resolve)
    fractions = report.device_fractions or {}
    unevaluated = tuple(replace(condition, path=shown(condition.path)) for condition in report.unevaluated)
    kernels: dict[tuple[str, int], UnitKernel] = {}
    for kernel in report.kernels:  # a file that is included twice yields its kernels twice
        key = (kernel.span.path, kernel.span.start_byte)
        made = _unit_kernel(kernel, task.root, fractions.get(kernel.span.path, 0.0), unevaluated)
        kernels.setdefault(key, made)
    return UnitResult(
        kernels=tuple(kernel for _, kernel in sorted(kernels.items())),
        launches=tuple((name, _shown_site(site)) for name, site in report.launches),
        file_codes=report.file_codes or {},
        unread=report.unread or {},
        conditions=report.conditions,
        unevaluated=unevaluated,
    )


def _unit_kernel(
    found: KernelSource, root: str, device_fraction: float, unevaluated: tuple[Condition, ...]
) -> UnitKernel:
    kernel = Kernel(
        id="",
        source=Source(""),
        benchmark="",
        variant=None,
        name=found.name,
        span=_shown_span(found.span),
        root=shown(root),
        params=found.params,
        instantiations=found.instantiations,
        launch_sites=tuple(map(_shown_site, found.launch_sites)),
        closure=tuple(map(_shown_span, found.closure)),
        shims=found.shims,
        features=found.features,
        techniques=found.techniques,
        unevaluated=unevaluated,
    )
    return UnitKernel(found.span.path, found.qualified, kernel, found.code, device_fraction)


def _shown_span(span: Span) -> Span:
    return replace(span, path=shown(span.path))


def _shown_site(site: LaunchSite) -> LaunchSite:
    return replace(site, path=shown(site.path))
