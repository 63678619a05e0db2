"""`kcurate problem draft` and `kcurate problem check`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from kcurate.cli import failing, output
from kcurate.cli.failing import FailOnOption
from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import Argument, JsonOption, WorkspaceOption
from kcurate.draft.settings import DraftConfig

FORM_NAME = "problem.toml"


def draft(config: DraftConfig, fail_on: FailOnOption = None, json: JsonOption = False) -> None:
    """Infer problems (sizes, buffers, plan) for kernels that have none, and try them.

    They are tried on the emulator, and on a GPU, if there is one, where the emulator cannot decide.

    Example: kcurate problem draft -w work --tree parboil/
    """
    from kcurate.core import names
    from kcurate.core.workspace import Workspace
    from kcurate.draft.stage import draft as run

    workspace = Workspace(config.workspace)
    kernels = tuple(str(names.some(name, workspace, (names.KERNEL,))) for name in config.kernels)
    summary = run(
        replace(config, kernels=kernels),
        note=output.note,
        report=lambda summary: output.show(summary, as_json=json),
    )
    failing.check(summary, failing.split(fail_on))


def check(
    files: Annotated[
        tuple[Path, ...],
        Argument(
            "Finished draft files (problem.toml), or kernels by name.", metavar="FILE", completes="kernels"
        ),
    ],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    json: JsonOption = False,
) -> None:
    """Report what is open or wrong in drafts, by file and line; admit those that pass.

    Example: kcurate problem check problem.toml -w work
    """
    from kcurate.draft.trying.completed_files import check as run

    forms = tuple(_form(file, workspace) for file in files)
    run(forms, workspace, note=output.note, report=lambda summary: output.show(summary, as_json=json))


def _form(file: Path, workspace: Path) -> Path:
    """The draft's file that a path, a folder or the name of a kernel stands for."""
    from kcurate.core import names, store
    from kcurate.core.workspace import Workspace

    if store.exists(file) or file.suffix == ".toml":
        return file
    return names.one(str(file), Workspace(workspace), (names.KERNEL,)) / FORM_NAME


COMMANDS: Mapping[str, Callable[..., Any]] = {"draft": draft, "check": check}
