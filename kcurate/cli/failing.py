"""When a command that did its work has failed (exit code 1): its own rule, or `--fail-on OUTCOME,...`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcurate.cli.completing import starting
from kcurate.core.config import near
from kcurate.errors import FailedError

if TYPE_CHECKING:
    from kcurate.records import Summary

ANY = "any"
NONE = "none"
ONE_FAILED, ALL_FAILED = "one of them did not pass", "none of them passed"
# By stage: the items that decide, and when it failed. Others raise an error of their own (`RAISED`), or have
# done their work whatever came of the items.
FAILS: Mapping[str, tuple[str, str]] = {
    "extract": ("kernels", ALL_FAILED),
    "import": ("rows", ALL_FAILED),
    "deopt": ("kernels", ALL_FAILED),
    "problem draft": ("kernels", ALL_FAILED),
    "validate": ("candidates", ONE_FAILED),
    "tune": ("settings", ALL_FAILED),
    "verify-dataset": ("rows", ONE_FAILED),
}
RAISED: Mapping[str, str] = {
    "capture": "the program failed (its own exit code), or launched nothing that could be recorded",
    "pair": "the sides do not agree, or neither has a problem",
    "optimize": "no answer is faster (without a GPU: right)",
    "problem check": "a file is refused",
    "build": "no pair became a row",
}
# The enumerations of a command's outcomes, and outcomes that are in none.
OUTCOMES: Mapping[str, tuple[str, ...]] = {
    "extract": (
        "kcurate.extract.walk:FileOutcome",
        "kcurate.extract.reporting:KernelOutcome",
        "kcurate.extract.pairs:PairOutcome",
        "kcurate.extract.history:RepositoryOutcome",
        "kcurate.extract.commit_changes:CommitOutcome",
        "kcurate.extract.commit_changes:ChangeOutcome",
        "kcurate.extract.shards:RowOutcome",
        "unevaluated",
    ),
    "deopt": (
        "kcurate.deopt.stage:StartOutcome",
        "kcurate.deopt.models.run:StartOutcome",
        "kcurate.deopt.models.run:SearchOutcome",
        "kcurate.records:AttemptOutcome",
        "kcurate.records:Outcome",
    ),
    "import": ("kcurate.answers.stage:RowOutcome",),
    "mint": ("kcurate.mint.admission:Admission", "kcurate.records:Outcome", "failed"),
    "validate": ("kcurate.records:Outcome",),
    "profile": ("kcurate.profiling.stage:SideOutcome", "kcurate.profiling.label_check:LabelOutcome"),
    "build": ("kcurate.dataset.stage:RowOutcome",),
    "report": ("kcurate.records:Outcome", "stale", "not_judged", "same_id"),
    "verify-dataset": ("kcurate.verify_dataset.stage:Drift",),
    "demo": (
        "kcurate.extract.reporting:KernelOutcome",
        "kcurate.deopt.stage:StartOutcome",
        "kcurate.records:Outcome",
        "kcurate.dataset.stage:RowOutcome",
    ),
    "draft": (
        "kcurate.draft.for_pairs.shared_problem:PairOutcome",
        "open",
        "refused",
        "outdated",
        "single_size",
    ),
}


def _names(command: str) -> set[str]:
    outcomes = {ANY, NONE}
    for place in OUTCOMES[command]:
        module, _, name = place.partition(":")
        outcomes |= set(getattr(importlib.import_module(module), name)) if name else {place}
    return outcomes


def _parse(context: typer.Context, text: str | None) -> str | None:
    """Refuse a name that is not an outcome of the command, before the command does anything.

    Raises:
        typer.BadParameter: there is one.
    """
    names = split(text)
    if not names or context.resilient_parsing:
        return text

    known = _names(context.info_name or "")
    for name in names:
        if name not in known:
            raise typer.BadParameter(
                f"no outcome {name!r}: {near(name, known, otherwise=', '.join(sorted(known)))}"
            )
    return text


def split(text: str | None) -> tuple[str, ...]:
    """The names in the option's value."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _completed(context: typer.Context, incomplete: str) -> list[str]:
    """The outcomes that the shell offers; those before the last comma stay."""
    return starting(_names(context.info_name or ""), incomplete)


FailOnOption = Annotated[
    str | None,
    typer.Option(
        "--fail-on",
        metavar="OUTCOME,...",
        callback=_parse,
        autocompletion=_completed,
        help="Exit with 1 only if one of these outcomes occurred; any: if an item did not pass; none: never.",
    ),
]


def check(summary: Summary, fail_on: Sequence[str]) -> None:
    """End with an error if one of these outcomes occurred; without any, by the stage's own rule.

    Raises:
        FailedError: one occurred; the command's work is done.
    """
    if not fail_on:
        kind, rule = FAILS.get(summary.stage, ("", ""))
        items = [item for item in summary.results if item.kind == kind]
        failed = sum(not item.passed for item in items)
        if failed and (rule == ONE_FAILED or failed == len(items)):
            what = f"{failed} of {len(items)} {kind} did not pass"
            raise FailedError(what, where=f"kcurate {summary.stage}")
        return
    occurred: dict[str, Any] = {
        name: sum(outcomes.get(name, 0) for outcomes in summary.counts.values())
        for name in fail_on
        if name not in (ANY, NONE)
    }
    if ANY in fail_on:
        occurred["not passed"] = sum(not item.passed for item in summary.results)
    if any(occurred.values()):
        what = ", ".join(f"{count} {name}" for name, count in occurred.items() if count)
        raise FailedError(what, where="--fail-on")
