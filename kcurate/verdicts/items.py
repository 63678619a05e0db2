"""A verdict as an item of results: outcome, sentence of the judge, file with the rest, what comes next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kcurate.core import resources, store
from kcurate.core.runs import command
from kcurate.core.workspace import Workspace
from kcurate.records import Item, Outcome, Verdict
from kcurate.verdicts.readable import Judged as Judged
from kcurate.verdicts.readable import Unreadable
from kcurate.verdicts.standing import best as best_of
from kcurate.verdicts.standing import current

OUTDATED = "its verdicts are on other content, or of an older protocol of the judge"
PASSED = (Outcome.CONFIRMED, Outcome.CORRECT)


def item(kind: str, name: str, verdict: Verdict, folder: Path, workspace: Workspace) -> Item:
    """The item of a pair in `folder`, called `name`, with this verdict."""
    device = verdict.environment.device
    places = (store.verdict_path(folder, device), workspace.ledger(device))
    file = next((path for path in places if path.is_file()), folder / "pair.json")
    passed = verdict.outcome in PASSED
    why = f"{verdict.side} side: {verdict.detail}" if verdict.side and not passed else verdict.detail
    if verdict.speedup is not None and not why:
        why = f"{verdict.speedup.ratio:.2f} times as fast on {verdict.environment.device}"
    following = None if passed else _next(verdict.outcome, name, folder, workspace)
    return Item(kind, name, verdict.outcome, passed, why, str(file), following)


def standing(kind: str, outcome: str, best: Verdict | None, pair: Judged, workspace: Workspace) -> Item:
    """The item of a pair with its standing verdict; `outcome` may be what a stage made of it.

    A built-in pair that nobody has judged is no fault of the workspace: it counts as passed.
    """
    name, folder = pair.candidate.id, pair.folder
    if best is not None:
        made = item(kind, name, best, folder, workspace)
        if outcome == best.outcome:
            return made
        return replace(made, outcome=outcome, passed=False, why=f"{best.outcome}: {made.why}".rstrip(": "))
    why = OUTDATED if outcome == "stale" else "not judged yet"
    following = command(workspace.root, "validate", _found(name, folder, workspace))
    ours = outcome == "not_judged" and folder == resources.pairs_dir() / name
    return Item(kind, name, outcome, ours, why, str(folder / "pair.json"), following)


def of_pair(pair: Judged, workspace: Workspace) -> Item:
    """The item of a pair with what stands of its verdicts."""
    best = best_of(current(pair.candidate, pair.verdicts))
    outcome = "stale" if pair.verdicts else "not_judged"
    return standing("pairs", best.outcome if best else outcome, best, pair, workspace)


def unreadable(kind: str, outcome: str, found: Unreadable, workspace: Workspace) -> Item:
    """The item of a folder whose pair, verdicts or kernel cannot be read; extract writes a kernel again."""
    following = None if kind == "kernels" else command(workspace.root, "validate", found.folder)
    return Item(kind, str(found.folder), outcome, False, found.why, str(found.folder / found.file), following)


def _next(outcome: Outcome, name: str, folder: Path, workspace: Workspace) -> str:
    """The command that comes next."""
    inside = folder == workspace.pairs / name
    found = _found(name, folder, workspace)
    if outcome is Outcome.HARNESS_ERROR:
        return "kcurate doctor"
    if outcome is Outcome.NO_PROBLEM and inside:
        return command(workspace.root, "problem", "draft")
    if outcome in (Outcome.NO_PROBLEM, Outcome.AMBIGUOUS_TIMING):
        return command(workspace.root, "validate", found)
    if outcome is Outcome.UNSUPPORTED:
        return command(workspace.root, "validate", found, "--gpu", "0")
    return command(workspace.root, "show", found)


def _found(name: str, folder: Path, workspace: Workspace) -> str | Path:
    """What a command finds the pair by: its id if it is in the workspace or built in, else its folder."""
    return name if folder in (workspace.pairs / name, resources.pairs_dir() / name) else folder
