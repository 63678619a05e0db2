"""A verdict as an item in the summary of a command: outcome, reason, file with the details, next command."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kcurate.core import resources, store
from kcurate.core.notes import Note
from kcurate.core.runs import command
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError
from kcurate.records import SIDES, Candidate, Item, Outcome, Verdict
from kcurate.verdicts.readable import Judged as Judged
from kcurate.verdicts.readable import Unreadable
from kcurate.verdicts.standing import best as best_of
from kcurate.verdicts.standing import current

OUTDATED = "its verdicts are on other content, or of an older protocol of the judge"
EARLIER_CODE = "still of its kernels' earlier code, until pair or deopt makes it anew"
# How many pairs a line on them names.
_NAMED = 3
PASSED = (Outcome.CONFIRMED, Outcome.CORRECT)


def item(kind: str, name: str, verdict: Verdict, folder: Path, workspace: Workspace) -> Item:
    """The item of a pair in `folder`, called `name`, with this verdict."""
    device = verdict.environment.device
    places = (store.verdict_path(folder, device), workspace.ledger(device))
    file = next((path for path in places if store.exists(path)), folder / "pair.json")
    passed = verdict.outcome in PASSED
    why = f"{verdict.side} side: {verdict.detail}" if verdict.side and not passed else verdict.detail
    if verdict.speedup is not None and not why:
        why = f"{verdict.speedup.ratio:.2f} times as fast on {verdict.environment.device}"
    following = None if passed else _next(verdict.outcome, name, folder, workspace)
    return Item(kind, name, verdict.outcome, passed, why, str(file), following)


def standing(kind: str, outcome: str, best: Verdict | None, pair: Judged, workspace: Workspace) -> Item:
    """The item of a pair with the verdict that counts; `outcome` may differ from it, as a stage sees it.

    A built-in pair without a verdict counts as passed, since the workspace is not at fault.
    """
    name, folder = pair.candidate.id, pair.folder
    if best is not None:
        row = item(kind, name, best, folder, workspace)
        if outcome == best.outcome:
            return row
        return replace(row, outcome=outcome, passed=False, why=f"{best.outcome}: {row.why}".rstrip(": "))
    why = OUTDATED if outcome == "stale" else "not judged yet"
    following = command(workspace.root, "validate", _pair_argument(name, folder, workspace))
    ours = outcome == "not_judged" and folder == resources.pairs_dir() / name
    return Item(kind, name, outcome, ours, why, str(folder / "pair.json"), following)


def of_pair(pair: Judged, workspace: Workspace) -> Item:
    """The item of a pair with the one of its verdicts that counts, and whether it has earlier code."""
    best = best_of(current(pair.candidate, pair.verdicts))
    outcome = "stale" if pair.verdicts else "not_judged"
    row = standing("pairs", best.outcome if best else outcome, best, pair, workspace)
    if not has_earlier_code(pair.candidate, workspace):
        return row
    return replace(row, why="; ".join(filter(None, (EARLIER_CODE, row.why))))


def has_earlier_code(candidate: Candidate, workspace: Workspace) -> bool:
    """Whether the kernel of a side has been extracted again with other code since the pair was written.

    False if a side is not the code of one kernel: several kernels, or a revision in a repository's history.
    """
    origin = candidate.origin
    names = origin.kernels if origin.made is None else origin.kernels * len(SIDES)
    if origin.kind not in ("natural", "rule", "model") or len(origin.kernels) > len(SIDES):
        return False
    return any(
        side != origin.made and _differs(workspace.kernels / name, getattr(candidate, side).code)
        for side, name in zip(SIDES, names, strict=False)
    )


def _differs(kernel: Path, code: str) -> bool:
    try:
        return store.read_kernel_code(kernel) != code
    except InputError:  # it was never extracted here, or is damaged, which whatever reads it says
        return False


def say_earlier_code(
    pairs: Iterable[tuple[Path, Candidate | None]], workspace: Workspace, note: Note
) -> None:
    """Note in one line which of these pairs (None: unreadable) have outdated code, if any."""
    folders = [str(folder) for folder, pair in pairs if pair and has_earlier_code(pair, workspace)]
    more = f" and {len(folders) - _NAMED} more" if len(folders) > _NAMED else ""
    if folders:
        note(f"{EARLIER_CODE}: {', '.join(folders[:_NAMED])}{more}")


def unreadable(kind: str, outcome: str, broken: Unreadable, workspace: Workspace) -> Item:
    """The item of a folder whose pair, verdicts or kernel cannot be read.

    It names no next command for a kernel, since extract writes kernels again.
    """
    following = None if kind == "kernels" else command(workspace.root, "validate", broken.folder)
    return Item(
        kind, str(broken.folder), outcome, False, broken.why, str(broken.folder / broken.file), following
    )


def _next(outcome: Outcome, name: str, folder: Path, workspace: Workspace) -> str:
    """The command that a user would run next."""
    inside = folder == workspace.pairs / name
    location = _pair_argument(name, folder, workspace)
    if outcome is Outcome.HARNESS_ERROR:
        return "kcurate doctor"
    if outcome is Outcome.NO_PROBLEM and inside:
        return command(workspace.root, "problem", "draft")
    if outcome in (Outcome.NO_PROBLEM, Outcome.AMBIGUOUS_TIMING):
        return command(workspace.root, "validate", location)
    if outcome is Outcome.UNSUPPORTED:
        return command(workspace.root, "validate", location, "--gpu", "0")
    return command(workspace.root, "show", location)


def _pair_argument(name: str, folder: Path, workspace: Workspace) -> str | Path:
    """The argument with which a command finds the pair: its folder, or its id if that is enough."""
    return name if folder in (workspace.pairs / name, resources.pairs_dir() / name) else folder
