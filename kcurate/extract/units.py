"""Parses one translation unit in a worker: its kernels, their code, and every launch in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kcurate.cuda_source import KernelSource, UnitReport, extract_unit
from kcurate.extract.flags import NO_FLAGS, Flags
from kcurate.extract.includes import Reader
from kcurate.extract.second_reader import Clang
from kcurate.extract.sources import TreeFiles

# Longest error text kept, in characters.
MAX_REASON = 300


@dataclass(frozen=True)
class UnitTask:
    """A unit to parse: the tree's root, its include folders, the unit's path in the tree, its flags.

    `located` are (name, includer, file) for includes that no include folder resolves. `file_codes`: whether
    the joint file of each path's kernels is wanted. `clang`: the second reader, if any.
    """

    tree_root: Path
    include: tuple[str, ...]
    path: str
    flags: Flags = NO_FLAGS
    located: tuple[tuple[str, str, str], ...] = ()
    file_codes: bool = True
    clang: Clang | None = None


def unit_task(files: TreeFiles, unit: str, clang: Clang | None = None) -> UnitTask:
    """The task for a unit of a tree."""
    include = files.tree.manifest.layout.include
    joint = unit in files.with_variants
    return UnitTask(files.tree.root, include, unit, files.flags[unit], files.located[unit], joint, clang)


def read_unit(task: UnitTask) -> UnitReport:
    """Parse a unit; its kernels are in the order of their files, their place in the suite is filled in later.

    An unexpected error becomes a report with `failed`, so that other units are unaffected.
    """
    located = dict[tuple[str, str], str | None](((name, by), file) for name, by, file in task.located)
    reader = Reader(task.tree_root, (*task.flags.include, *task.include), located)
    try:
        second = partial(task.clang.read, standard=task.flags.standard) if task.clang else None
        report = extract_unit(
            task.path, reader.read, reader.resolve, task.flags.macros(), second, file_codes=task.file_codes
        )
    except Exception as error:  # noqa: BLE001 - the boundary around code that reads whatever a tree holds
        return UnitReport(task.path, failed=f"{type(error).__name__}: {error}"[:MAX_REASON])
    kernels: dict[tuple[str, int], KernelSource] = {}
    for kernel in report.kernels:  # a file that is included twice yields its kernels twice
        kernels.setdefault((kernel.span.path, kernel.span.start_byte), kernel)
    return replace(report, kernels=tuple(kernel for _, kernel in sorted(kernels.items())))
