"""The settings of `kcurate build` and `kcurate push`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import Option, WorkspaceOption

# Two pairs with at least this share of equal shingles are near-duplicates.
NEAR = 0.95


@dataclass(frozen=True)
class Rules:
    """Settings of the gates."""

    against: Annotated[
        tuple[Path, ...],
        Option(
            "Evaluation set that no row may overlap, such as a KernelBench checkout: a folder, "
            "or a .json, .jsonl or .parquet file. May be repeated.",
            metavar="PATH",
        ),
    ] = ()
    allow_licences: Annotated[
        tuple[str, ...],
        Option(
            "Allow a LicenseRef-NAME, or `unknown` for no licence. May be repeated.",
            "--allow-licence",
            "NAME",
        ),
    ] = ()
    with_imported: Annotated[
        bool, Option("Also take answers that others published (kcurate import), if their licence is known.")
    ] = False
    near: Annotated[
        float, Option("Share of equal shingles from which a pair is a near-duplicate.", metavar="SHARE")
    ] = NEAR


@dataclass(frozen=True)
class BuildConfig:
    """The sources of a build: the workspace's pairs and, with `built_in`, those shipped with the package."""

    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    built_in: Annotated[
        bool, Option("Also take the pairs that ship with kcurate.", "--built-in/--no-built-in")
    ] = False
    rules: Rules = field(default_factory=Rules)
    version: Annotated[
        str | None, Option("The dataset's version; default: the next one.", metavar="X.Y.Z")
    ] = None


@dataclass(frozen=True)
class PushConfig:
    """What to push where: `repo` on the Hub, or the folder `to`."""

    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    repo: Annotated[
        str | None,
        Option(
            "The dataset on the Hub; created if missing.",
            metavar="USER/NAME",
            check="kcurate.hub.repository:check_name",
        ),
    ] = None
    to: Annotated[Path | None, Option("Publish into this folder instead of the Hub.", metavar="DIR")] = None
    private: Annotated[bool, Option("Create the repository as private; refuse a public one.")] = False
    dry_run: Annotated[bool, Option("Check and compare only; change nothing.")] = False
    endpoint: str | None = None
    token: str | None = None
