"""`--fail-on OUTCOME,...`: a command that did its work ends with exit code 1 if an outcome occurred."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from kcurate.records import Summary

ANY = "any"
# The enumerations of a command's outcomes, and outcomes that are in none.
OUTCOMES: Mapping[str, tuple[str, ...]] = {
    "extract": (
        "kcurate.extract.walk:FileOutcome",
        "kcurate.extract.reporting:KernelOutcome",
        "kcurate.extract.pairs:PairOutcome",
        "unevaluated",
    ),
    "deopt": (
        "kcurate.deopt.stage:StartOutcome",
        "kcurate.deopt.models.counting:StartOutcome",
        "kcurate.deopt.models.counting:SearchOutcome",
        "kcurate.records:AttemptOutcome",
        "kcurate.records:Outcome",
    ),
    "validate": ("kcurate.records:Outcome",),
    "profile": ("kcurate.profile.stage:SideOutcome", "kcurate.profile.labels:LabelOutcome"),
    "build": ("kcurate.dataset.stage:RowOutcome",),
    "report": ("kcurate.records:Outcome", "stale", "not_judged", "same_id"),
    "verify-dataset": ("kcurate.verify_dataset.stage:Drift",),
    "demo": (
        "kcurate.extract.reporting:KernelOutcome",
        "kcurate.deopt.stage:StartOutcome",
        "kcurate.records:Outcome",
        "kcurate.dataset.stage:RowOutcome",
    ),
    "draft": ("kcurate.draft.pairing:PairOutcome", "open", "refused", "outdated", "single_size"),
}


def _names(command: str) -> set[str]:
    found = {ANY}
    for place in OUTCOMES[command]:
        module, _, name = place.partition(":")
        found |= set(getattr(importlib.import_module(module), name)) if name else {place}
    return found


def _parse(context: typer.Context, given: str | None) -> str | None:
    """Refuse a name that is no outcome of the command, before it does anything.

    Raises:
        typer.BadParameter: there is one.
    """
    names = split(given)
    if not names or context.resilient_parsing:
        return given
    from kcurate.core.config import near

    known = _names(context.info_name or "")
    for name in names:
        if name not in known:
            raise typer.BadParameter(
                f"no outcome {name!r}: {near(name, known, otherwise=', '.join(sorted(known)))}"
            )
    return given


def split(given: str | None) -> tuple[str, ...]:
    """The names in the option's value."""
    return tuple(part.strip() for part in (given or "").split(",") if part.strip())


FailOnOption = Annotated[
    str | None,
    typer.Option(
        "--fail-on",
        metavar="OUTCOME,...",
        callback=_parse,
        help="End with exit code 1 if one of these outcomes occurred; any: if an item did not pass.",
    ),
]


def check(summary: Summary, given: Sequence[str]) -> None:
    """End with an error if one of these outcomes occurred.

    Raises:
        InputError: it did; everything that the command does is done.
    """
    from kcurate.errors import InputError

    found: dict[str, Any] = {
        name: sum(outcomes.get(name, 0) for outcomes in summary.counts.values())
        for name in given
        if name != ANY
    }
    if ANY in given:
        found["not passed"] = sum(not item.passed for item in summary.results)
    if any(found.values()):
        what = ", ".join(f"{count} {name}" for name, count in found.items() if count)
        raise InputError(what, where="--fail-on")
