"""The settings of `kcurate extract`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import (
    Argument,
    DefineOption,
    IncludeDirsOption,
    JobsOption,
    LicenceOption,
    Option,
    PackOption,
    RayWorkersOption,
    WorkspaceOption,
)


@dataclass(frozen=True)
class ExtractConfig:
    """What to extract and how.

    `compile` None: compile if NVRTC is installed. `root` is the tree of the paths that belong to no suite;
    None: each folder, or a file's folder, is a tree. `include_dirs` are folders inside the trees. `pairs`:
    whether natural pairs are wanted.
    """

    paths: Annotated[
        tuple[Path, ...], Argument("Source trees, folders in them, or single files.", metavar="[PATH...]")
    ] = ()
    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    suite: Annotated[
        str,
        Option(
            "auto, parboil, rodinia, generic, or your own manifest (a .toml file).",
            metavar="NAME",
            completes="suites",
        ),
    ] = "auto"
    jobs: JobsOption = 1
    ray: RayWorkersOption = None
    include: Annotated[
        tuple[str, ...], Option("Only matching files; may be repeated.", "--include --path", "GLOB")
    ] = ()
    exclude: Annotated[tuple[str, ...], Option("No matching files; may be repeated.", metavar="GLOB")] = ()
    define: DefineOption = ()
    include_dirs: IncludeDirsOption = ()
    compile_commands: Annotated[
        Path | None,
        Option(
            "compile_commands.json with each file's flags; default: at the tree's root or in build/.",
            metavar="FILE",
        ),
    ] = None
    min_device_fraction: Annotated[
        float | None,
        Option(
            "Report files with a smaller share of device code; default: from the suite's manifest.",
            metavar="F",
            min=0.0,
            max=1.0,
        ),
    ] = None
    compile: Annotated[
        bool | None, Option("Compile-check each kernel; default: if NVRTC works.", "--compile/--no-compile")
    ] = None
    history: Annotated[
        bool, Option("PATHs are git repositories: kernels before and after a commit become natural pairs.")
    ] = False
    since: Annotated[
        str | None,
        Option("With --history: only commits after this revision, or this date (2025-01-31).", metavar="REV"),
    ] = None
    shards: Annotated[
        tuple[str, ...],
        Option(
            "Instead of PATHs: Parquet or JSON lines (.gz, .zst) with a file a row; files, a glob, a folder, "
            "USER/NAME on the Hub.",
            "--shards --from",
            metavar="SHARDS",
        ),
    ] = ()
    column: Annotated[
        tuple[str, ...],
        Option(
            "With --from: the column of content, path, repository, revision or licence; may be repeated.",
            metavar="ROLE=NAME",
            check="kcurate.extract.shards:check_columns",
        ),
    ] = ()
    root: Path | None = None
    pairs: bool = True
    licence: LicenceOption = None
    pack: PackOption = False
