"""Writes verdicts and finds them again: the workspace's JSON lines, and `verdicts/` in pair folders.

All verdicts are written here. The JSON lines hold every verdict ever made on a device; the last line with a
key counts. Not covered: file formats (`kcurate.core.store`), which of several verdicts counts
(`kcurate.verdicts.standing`).
"""

from __future__ import annotations

from pathlib import Path

from kcurate.core import store
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError
from kcurate.records import Environment, Verdict


def record(workspace: Workspace, verdict: Verdict, *, beside: Path | None = None) -> None:
    """Append a verdict to the workspace; one from a GPU is also written into the pair folder `beside`.

    Raises:
        InputError: a file cannot be written.
    """
    store.append_jsonl(workspace.ledger(verdict.environment.device), verdict)
    if beside is not None and verdict.environment.backend == "cuda":
        store.write_verdict(beside, verdict)


class Ledger:
    """The verdicts of one device."""

    def __init__(self, workspace: Workspace, environment: Environment) -> None:
        self.environment = environment
        self._workspace = workspace
        path = workspace.ledger(environment.device)
        self._known = {verdict.key: verdict for verdict in store.read_jsonl(path, Verdict)}

    def find(self, folder: Path, key: str) -> Verdict | None:
        """The last verdict with this key on this device, from the workspace or the pair folder."""
        if key in self._known:
            return self._known[key]
        try:
            verdict = store.read_json(store.verdict_path(folder, self.environment.device), Verdict)
        except InputError:
            return None
        return verdict if verdict.key == key else None

    def add(self, verdict: Verdict, *, beside: Path | None = None) -> None:
        """Record a verdict unless it is already the last one of its key.

        Raises:
            InputError: a file cannot be written.
        """
        if self._known.get(verdict.key) != verdict:
            record(self._workspace, verdict, beside=beside)
            self._known[verdict.key] = verdict
