"""`kcurate build`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcurate.cli.failing import FailOnOption, split
from kcurate.cli.options import DEFAULT_WORKSPACE, JsonOption, WorkspaceOption


def build(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    built_in: Annotated[
        bool, typer.Option("--built-in/--no-built-in", help="Also take the pairs that ship with kcurate.")
    ] = False,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Evaluation set that no row may overlap, such as a KernelBench checkout: a folder, "
            "or a .json, .jsonl or .parquet file. May be repeated.",
        ),
    ] = None,
    allow_licence: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Allow a LicenseRef-NAME, or `unknown` for no licence. May be repeated."
        ),
    ] = None,
    near: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Share of equal shingles from which a pair is a near-duplicate."),
    ] = 0.95,
    test_share: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=0.9,
            metavar="SHARE",
            help="Share for the test split of the families that have no code in common with many others; "
            "default: 0.35, which gives 15% of the built-in pairs.",
        ),
    ] = None,
    version: Annotated[
        str | None, typer.Option(metavar="X.Y.Z", help="The dataset's version; default: the next one.")
    ] = None,
    fail_on: FailOnOption = None,
    json: JsonOption = False,
) -> None:
    """Build a dataset from the judged pairs (pairs, sft, grpo; card, attribution) in dataset/.

    Example: kcurate build -w work --against KernelBench/
    """
    from kcurate.cli import output
    from kcurate.dataset.gates import Rules
    from kcurate.dataset.stage import BuildConfig, require_rows, run
    from kcurate.reward import splits

    rules = Rules(tuple(allow_licence or ()), tuple(against or ()), near)
    share = splits.TEST_SHARE if test_share is None else test_share
    config = BuildConfig(workspace, built_in, rules, version, share)
    summary = run(config, note=output.note)
    output.report(summary, as_json=json, fail_on=split(fail_on))
    require_rows(summary)
