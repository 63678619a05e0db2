"""Parses one translation unit in a worker: its kernels, their code, and every launch in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from kcurate.cuda_source import KernelSource, UnitReport, extract_unit
from kcurate.extract.includes import Reader


@dataclass(frozen=True)
class UnitTask:
    """A unit to parse: the tree's root, its include folders, and the unit's file in it."""

    tree_root: Path
    include: tuple[str, ...]
    root: str


def read_unit(task: UnitTask) -> UnitReport:
    """Parse a unit, its kernels in the order of their files; their place in the suite is filled in later."""
    reader = Reader(task.tree_root, task.include)
    report = extract_unit(task.root, reader.read, reader.resolve)
    kernels: dict[tuple[str, int], KernelSource] = {}
    for kernel in report.kernels:  # a file that is included twice yields its kernels twice
        kernels.setdefault((kernel.span.path, kernel.span.start_byte), kernel)
    return replace(report, kernels=tuple(kernel for _, kernel in sorted(kernels.items())))
