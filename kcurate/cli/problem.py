"""`kcurate problem draft` and `kcurate problem check`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from kcurate.cli.failing import FailOnOption, split
from kcurate.cli.options import (
    DEFAULT_WORKSPACE,
    GpuOption,
    JsonOption,
    PriceOption,
    WorkspaceOption,
    given_path,
)

FORM_NAME = "problem.toml"


def draft(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KERNEL",
            help="Extracted kernels: folders, ids, or unique prefixes of ids; default: all in the workspace.",
        ),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    tree: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Where the sources are; default: where extract found them."),
    ] = None,
    known: Annotated[
        bool, typer.Option("--known", help="Also draft for kernels whose suite has a problem for them.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Overwrite draft files that exist already.")] = False,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Ask this model to fill in what stays open: claude, claude-<version>, or "
            "openai:<model>@<base-url>. Its answers are tried like any draft.",
        ),
    ] = None,
    budget_usd: Annotated[
        float | None,
        typer.Option("--budget-usd", "--max-usd", min=0, metavar="X", help="Spend at most this much."),
    ] = None,
    price: PriceOption = None,
    max_tokens: Annotated[int, typer.Option(min=256, metavar="N", help="Longest answer.")] = 16_000,
    gpu: GpuOption = "auto",
    fail_on: FailOnOption = None,
    json: JsonOption = False,
) -> None:
    """Infer problems (sizes, buffers, plan) for kernels that have none, and try them.

    They are tried on the emulator, and on a GPU, if there is one, where the emulator cannot decide.

    Example: kcurate problem draft -w work --tree parboil/
    """
    from kcurate.cli import output
    from kcurate.core import names
    from kcurate.core.workspace import Workspace
    from kcurate.draft.stage import DraftConfig
    from kcurate.draft.stage import draft as run
    from kcurate.models.opening import Spending

    spending = Spending(budget_usd, price, max_tokens)
    found = tuple(str(names.some(name, Workspace(workspace), (names.KERNEL,))) for name in kernels or ())
    config = DraftConfig(workspace, found, tuple(tree or ()), known, again, model, spending, gpu)
    failing = split(fail_on)
    run(config, note=output.note, report=lambda one: output.report(one, as_json=json, fail_on=failing))


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Finished draft files (problem.toml), or kernels by name.", parser=given_path
        ),
    ],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    json: JsonOption = False,
) -> None:
    """Report what is open or wrong in drafts, by file and line; admit those that pass.

    Example: kcurate problem check problem.toml -w work
    """
    from kcurate.cli import output
    from kcurate.draft.checking import check as run

    found = tuple(_form(file, workspace) for file in files)
    run(found, workspace, note=output.note, report=lambda one: output.report(one, as_json=json))


def _form(file: Path, workspace: Path) -> Path:
    """A draft's file, also by its folder or the name of its kernel."""
    from kcurate.core import names
    from kcurate.core.workspace import Workspace

    if file.is_file() or file.suffix == ".toml":
        return file
    return names.one(str(file), Workspace(workspace), (names.KERNEL,)) / FORM_NAME


COMMANDS: Mapping[str, Callable[..., Any]] = {"draft": draft, "check": check}
