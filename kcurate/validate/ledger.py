"""Where verdicts are kept and found again: the workspace's JSON lines, and `verdicts/` beside a pair.

The JSON lines are the record of everything ever judged on a device; the last line of a key counts. Not
covered: the files' form (`kcurate.store`).
"""

from __future__ import annotations

from kcurate import store
from kcurate.errors import InputError
from kcurate.records import Environment, Verdict
from kcurate.validate.inputs import Item
from kcurate.workspace import Workspace


class Ledger:
    """The verdicts of one device."""

    def __init__(self, workspace: Workspace, environment: Environment) -> None:
        self.environment = environment
        self.path = workspace.ledger(environment.device)
        self._known = {verdict.key: verdict for verdict in store.read_jsonl(self.path, Verdict)}

    def find(self, item: Item, key: str) -> Verdict | None:
        """The last verdict on this content on this device, from the workspace or from beside the pair."""
        if key in self._known:
            return self._known[key]
        path = store.verdict_path(item.folder, self.environment.device)
        try:
            verdict = store.read_json(path, Verdict)
        except InputError:
            return None
        return verdict if verdict.key == key else None

    def add(self, item: Item, verdict: Verdict) -> None:
        """Keep a new verdict; the one that is on file already is not written again.

        Raises:
            InputError: a file cannot be written.
        """
        if self._known.get(verdict.key) == verdict:
            return
        store.append_jsonl(self.path, verdict)
        self._known[verdict.key] = verdict
        if verdict.environment.backend == "cuda" and item.candidate is not None:
            store.write_verdict(item.folder, verdict)
