"""The settings of `kcurate profile`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import GpuOption, Option, PairsArgument, WorkspaceOption


@dataclass(frozen=True)
class ProfileConfig:
    """The pairs to profile. `paths` empty: the workspace's and, with `built_in`, the package's."""

    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    paths: PairsArgument = ()
    built_in: Annotated[bool, Option("Also the pairs of the package.")] = False
    gpu: GpuOption = "auto"
    again: Annotated[bool, Option("Profile also sides that have a profile of this device.")] = False
    limit: Annotated[int, Option("At most so many pairs; 0: all.", metavar="N", min=0)] = 0
