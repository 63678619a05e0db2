"""`kcurate list`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kcurate.cli import completing, ending, output
from kcurate.cli.failing import split
from kcurate.core.config import DEFAULT_WORKSPACE, near
from kcurate.core.options import JsonOption, WorkspaceOption
from kcurate.errors import OptionError

if TYPE_CHECKING:
    from kcurate.records import Item

# Characters of a reason in the table; --json has all of it.
MAX_WHY = 100


def list_(
    kind: Annotated[
        Literal["kernels", "pairs", "verdicts", "runs"] | None,
        typer.Argument(metavar="[kernels|pairs|verdicts|runs]", help="What to list; default: count all."),
    ] = None,
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="Only those whose id contains this.",
            show_default=False,
            autocompletion=completing.either,
        ),
    ] = "",
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OUTCOME,...",
            help="Only these outcomes; may be repeated.",
            autocompletion=completing.outcomes,
        ),
    ] = None,
    suite: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only of this suite.", autocompletion=completing.suites)
    ] = None,
    built_in: Annotated[
        bool, typer.Option("--built-in/--no-built-in", help="Also list the pairs that ship with kcurate.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """List what a workspace holds, with outcomes and reasons: kernels, pairs, verdicts or runs.

    Example: kcurate list pairs --outcome mismatch
    """
    from kcurate.core.workspace import Workspace
    from kcurate.lookup import listing

    kinds: list[str] = [kind] if kind else list(listing.KINDS)
    wanted = _outcomes(outcome or [], kinds)
    listed: list[Item] = []
    for each in kinds:
        listed += listing.find(
            each, Workspace(workspace), name=name, suite=suite, outcomes=wanted, built_in=built_in
        )
    if json:
        ending.listed("list", listed, {}, str(workspace))
    elif kind is None:
        counts: dict[tuple[str, str], int] = {}
        for item in listed:
            counts[item.kind, item.outcome] = counts.get((item.kind, item.outcome), 0) + 1
        rows = [(*key, count) for key, count in counts.items()]
        output.table(f"workspace {workspace}", ("kind", "outcome", "count"), rows)
    else:
        lines = [(item.id, item.outcome, _short(item.why)) for item in listed]
        output.table(f"{len(listed)} {kind}, workspace {workspace}", ("id", "outcome", "why"), lines)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_WHY else f"{line[:MAX_WHY]} ..."


def known_outcomes(kinds: Sequence[str]) -> set[str]:
    """The outcomes that items of these kinds can have; of all kinds if there are none."""
    from kcurate.lookup import listing
    from kcurate.records import Outcome

    judged = (*Outcome, "stale", "not_judged")
    by_kind = {"kernels": listing.KERNEL_OUTCOMES, "pairs": judged, "verdicts": judged}
    kinds = kinds or tuple(listing.KINDS)
    return {str(name) for kind in kinds for name in by_kind.get(kind, listing.RUN_OUTCOMES)}


def _outcomes(texts: list[str], kinds: list[str]) -> tuple[str, ...]:
    """The outcomes that `--outcome` names.

    Raises:
        OptionError: no item of these kinds can have one of them.
    """
    known = known_outcomes(kinds)
    names = tuple(name for text in texts for name in split(text))
    for name in names:
        if name not in known:
            raise OptionError(
                f"no outcome {name!r}",
                where="--outcome",
                hint=near(name, known, otherwise=", ".join(sorted(known))),
            )
    return names
