"""`kcurate pack` and `kcurate unpack`."""

from __future__ import annotations

from typing import Annotated

from kcurate.cli import output
from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import Argument, JsonOption, WorkspaceOption
from kcurate.errors import InputError


def pack(workspace: WorkspaceOption = DEFAULT_WORKSPACE, json: JsonOption = False) -> None:
    """Move the records of a workspace into Parquet shards.

    All commands work as before.

    Example: kcurate pack -w work
    """
    from kcurate.core import packing
    from kcurate.core.runs import recorded

    with recorded("pack", workspace, note=output.note) as record:
        record.begin({"workspace": workspace})
        packing.start(workspace)
        summary = record.finish({"files": {"packed": packing.pack(workspace)}})
    output.report(summary, as_json=json)


def unpack(
    names: Annotated[
        tuple[str, ...],
        Argument(
            "Pairs and kernels, whose files are written beside the shards; default: all, and no shards stay.",
            metavar="NAME",
            completes="either",
        ),
    ] = (),
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    json: JsonOption = False,
) -> None:
    """Write the records of a packed workspace as files again.

    Example: kcurate unpack deep-learning/softmax -w work
    """
    from kcurate.core import names as by_name
    from kcurate.core import packing
    from kcurate.core.packs import Place
    from kcurate.core.runs import recorded
    from kcurate.core.workspace import Workspace

    if not packing.is_packed(workspace):
        raise InputError("not packed", where=str(workspace), hint="kcurate pack packs it")
    places = [Place.of(by_name.some(name, Workspace(workspace))) for name in names]
    folders = [place.name for place in places if place is not None]
    with recorded("unpack", workspace, note=output.note) as record:
        record.begin({"workspace": workspace, "names": names})
        written, blocked = packing.unpack(workspace, folders) if folders or not names else (0, 0)
        summary = record.finish({"files": {"written": written, "blocked": blocked}}, pack=False)
    output.report(summary, as_json=json)
