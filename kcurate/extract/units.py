"""One translation unit, parsed in a worker: its kernels, their code, and every launch that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kcurate.records import Kernel, LaunchSite


@dataclass(frozen=True)
class UnitTask:
    """A unit to read: the tree's root, its include folders, and the unit's file in it."""

    tree_root: Path
    include: tuple[str, ...]
    root: str


@dataclass(frozen=True)
class UnitKernel:
    """A kernel as its unit shows it: `path` is the file on disk (the record has it as text)."""

    path: str
    kernel: Kernel
    code: bytes
    device_fraction: float


@dataclass(frozen=True)
class UnitResult:
    """What a unit holds; `kernels` in the order of their files, `file_codes` by path."""

    kernels: tuple[UnitKernel, ...]
    launches: tuple[tuple[str, LaunchSite], ...]
    file_codes: Mapping[str, bytes]

    def kernels_of(self, path: str) -> list[UnitKernel]:
        """The kernels that a file defines, in its order."""
        return [kernel for kernel in self.kernels if kernel.path == path]
