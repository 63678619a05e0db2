"""The contents of a workspace as items: kernels, pairs, verdicts, runs.

Not covered: how it is displayed (`kcurate.cli.listing`), one pair or kernel in full (`kcurate.lookup.show`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kcurate.core import store
from kcurate.core.runs import SUMMARY, command
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError
from kcurate.records import Item, Kernel, Verdict
from kcurate.verdicts import items, readable
from kcurate.verdicts.items import item

KERNEL_OUTCOMES = ("compiled", "compile_error", "not_compiled", "malformed")
RUN_OUTCOMES = ("finished", "failed", "interrupted", "unfinished")


class Listed(NamedTuple):
    """An item and its suite."""

    suite: str
    item: Item


def kernels(workspace: Workspace, *, built_in: bool) -> Iterator[Listed]:
    """Every extracted kernel, classified by compile result."""
    for path in store.find(workspace.kernels, "kernel.json"):
        try:
            kernel = store.read_json(path, Kernel)
        except InputError as error:
            broken = readable.Unreadable.of(path.parent, error)
            yield Listed("", items.unreadable("kernels", "malformed", broken, workspace))
            continue
        yield Listed(kernel.source.suite, kernel_item(kernel, path.parent, workspace))


def kernel_item(kernel: Kernel, folder: Path, workspace: Workspace) -> Item:
    """An extracted kernel; one with an admitted problem is ready for deopt."""
    outcome, why = "not_compiled", ""
    if kernel.compiled is not None:
        outcome = "compiled" if kernel.compiled.ok else "compile_error"
        log = (kernel.compiled.log or "").splitlines()
        why = "" if kernel.compiled.ok else next((line for line in log if "error" in line), "".join(log[:1]))
    passed = outcome != "compile_error"
    next_words = (
        ("deopt", folder) if store.exists(folder / "problem.json") else ("problem", "draft", kernel.id)
    )
    next_command = command(workspace.root, *next_words) if passed else None
    return Item("kernels", kernel.id, outcome, passed, why.strip(), str(folder / "kernel.json"), next_command)


def pairs(workspace: Workspace, *, built_in: bool) -> Iterator[Listed]:
    """Every pair, by its standing verdict."""
    for reading in readable.judged(readable.folders(workspace, built_in=built_in), workspace):
        if isinstance(reading, readable.Unreadable):
            yield Listed("", items.unreadable("pairs", "malformed", reading, workspace))
        else:
            origin = reading.candidate.origin
            yield Listed(origin.suite or origin.kind, items.of_pair(reading, workspace))


def verdicts(workspace: Workspace, *, built_in: bool) -> Iterator[Listed]:
    """Every verdict on file, oldest first on each device."""
    for path in store.find(workspace.verdicts, "*.jsonl"):
        for verdict in store.read_jsonl(path, Verdict):
            row = item("verdicts", verdict.candidate, verdict, workspace.pairs / verdict.candidate, workspace)
            why = f"{verdict.environment.device}: {row.why}" if row.why else verdict.environment.device
            yield Listed(verdict.candidate.partition("/")[0], replace(row, why=why))


def runs(workspace: Workspace, *, built_in: bool) -> Iterator[Listed]:
    """Every run, oldest first."""
    folders = [folder for folder in (workspace.root / "runs").glob("*") if folder.is_dir()]
    for folder in sorted(folders, key=lambda path: path.name.rpartition("-")[2]):
        outcome, why = _run_outcome(folder)
        file = folder / (SUMMARY if outcome == "finished" else "log")
        yield Listed("", Item("runs", folder.name, outcome, outcome == "finished", why, str(file)))


def _run_outcome(folder: Path) -> tuple[str, str]:
    """How a run ended, and its counts or the last line of its log."""
    try:
        data = json.loads((folder / SUMMARY).read_bytes())
        counts = data.get("counts", data.get("items", {}))
        texts = (
            f"{kind}: {', '.join(f'{n} {outcome}' for outcome, n in by_outcome.items())}"
            for kind, by_outcome in counts.items()
        )
        return "finished", "; ".join(texts)
    except (OSError, ValueError, AttributeError):
        pass
    try:
        lines = (folder / "log").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    last = lines[-1] if lines else ""
    if "Traceback (most recent call last):" not in "\n".join(lines):
        return "unfinished", "it still runs, or was killed"
    return ("interrupted", "") if last.startswith(("KeyboardInterrupt", "SystemExit")) else ("failed", last)


KINDS: Mapping[str, Callable[..., Iterator[Listed]]] = {
    "kernels": kernels,
    "pairs": pairs,
    "verdicts": verdicts,
    "runs": runs,
}


def find(
    kind: str,
    workspace: Workspace,
    *,
    name: str = "",
    suite: str | None = None,
    outcomes: tuple[str, ...] = (),
    built_in: bool = False,
) -> Iterator[Item]:
    """The items of a kind whose id contains `name`, filtered by suite and outcomes (None, empty: any).

    Raises:
        InputError: there is no such workspace.
    """
    if not workspace.root.is_dir() and not built_in:
        raise InputError(
            "no workspace here", where=str(workspace.root), hint="give one with -w, or --built-in"
        )
    for listed in KINDS[kind](workspace, built_in=built_in):
        fits = name in listed.item.id and (not outcomes or listed.item.outcome in outcomes)
        if fits and (suite is None or listed.suite == suite):
            yield listed.item
