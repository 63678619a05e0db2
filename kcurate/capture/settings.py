"""The settings of `kcurate capture`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import Argument, Option, WorkspaceOption

Recorder = Literal["auto", "cupti", "cudart", "triton"]


@dataclass(frozen=True)
class Limits:
    """What the recorders may read and write; see `FORMAT.md`."""

    per_kernel: Annotated[
        int, Option("Record buffers of at most N distinct launches per kernel.", metavar="N", min=1)
    ] = 4
    total_bytes: Annotated[
        int, Option("Bytes of contents to look at in one process.", "--max-bytes", "N", min=0)
    ] = 4 << 30
    buffer_bytes: Annotated[
        int, Option("Bytes of one buffer to look at, from its start.", "--max-buffer-bytes", "N", min=0)
    ] = 256 << 20
    seconds: Annotated[
        float, Option("Stop recording new buffers after S seconds.", "--max-seconds", "S", min=0)
    ] = 600.0


@dataclass(frozen=True)
class CaptureConfig:
    """What to run. `kernel` None: record the kernels in the workspace, or all if it has none."""

    command: Annotated[
        tuple[str, ...], Argument("The program and its arguments.", metavar="-- PROGRAM [ARGS]...")
    ]
    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    kernel: Annotated[
        str | None, Option("Record kernels whose name matches, in the workspace or not.", metavar="REGEX")
    ] = None
    also: Annotated[
        tuple[str, ...],
        Option("Run once more with these arguments, for a second size; may be repeated.", metavar="ARGS"),
    ] = ()
    recorder: Annotated[
        Recorder,
        Option(
            "cupti (on a GPU), cudart (stands in for the shared CUDA runtime; no kernel runs), triton "
            "(in Python programs), or auto.",
            metavar="NAME",
        ),
    ] = "auto"
    limits: Limits = field(default_factory=Limits)
    timeout_s: Annotated[
        float | None, Option("Kill the program and its children after S seconds.", "--timeout", "S", min=0)
    ] = None
    keep_data: Annotated[bool, Option("Keep the contents of all buffers that were looked at.")] = False
    run_kernels: Annotated[
        bool,
        Option(
            "Without a GPU: run extracted kernels on the emulator, so that later kernels see real inputs."
        ),
    ] = False
