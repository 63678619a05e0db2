"""Confirmed pairs that a prompt may show: the built-in ones, which do not change while a search runs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from kcurate import store
from kcurate.deopt.models.targets import Target
from kcurate.problem.shown import shown_code
from kcurate.prompts import Example, Technique
from kcurate.prompts.tasks import MAX_EXAMPLE_CHARS
from kcurate.records import Candidate, Outcome

# One is enough to show what is meant; more costs more than it teaches.
EXAMPLES = 1


class Examples:
    """The confirmed pairs below a folder; read when first asked for. Safe to use from many threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._pairs: tuple[Candidate, ...] | None = None
        self._lock = threading.Lock()

    def __call__(self, target: Target, technique: Technique | None) -> Sequence[Example]:
        """The shortest confirmed pairs of a technique, none of the target's own family."""
        if technique is None:
            return ()
        with self._lock:
            if self._pairs is None:
                self._pairs = tuple(_confirmed(self.root))
            pairs = self._pairs
        fitting = [
            Example(shown_code(pair.slow.code), shown_code(pair.fast.code), technique.name)
            for pair in pairs
            if technique.name in pair.techniques and pair.family != target.start.family
        ]
        small = [example for example in fitting if _size(example) <= MAX_EXAMPLE_CHARS]
        return sorted(small, key=_size)[:EXAMPLES]


def _size(example: Example) -> int:
    return len(example.slow) + len(example.fast)


def _confirmed(root: Path) -> list[Candidate]:
    return [
        store.read_candidate(folder)
        for folder in store.find_candidates(root)
        if any(verdict.outcome is Outcome.CONFIRMED for verdict in store.read_verdicts(folder))
    ]
