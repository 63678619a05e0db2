"""The settings of `kcurate validate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import (
    BackendOption,
    GpuOption,
    JobsOption,
    Option,
    PairsArgument,
    RayOption,
    WorkspaceOption,
)


@dataclass(frozen=True)
class ValidateConfig:
    """What to validate, and where. `paths` empty: the workspace's pairs. `jobs` 0: chosen for the machine."""

    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    paths: PairsArgument = ()
    backend: BackendOption = "auto"
    gpu: GpuOption = "auto"
    again: Annotated[bool, Option("Judge also pairs that already have a final verdict.")] = False
    sanitize: Annotated[bool, Option("Also run both sides under compute-sanitizer at small sizes.")] = False
    trust_python: Annotated[bool, Option("Allow slow sides in PyTorch: trusted code, in a sandbox.")] = False
    jobs: JobsOption = 0
    ray: RayOption = None
