"""Confirmed pairs to show in prompts: the built-in ones, which do not change during a search."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kcurate.core import own_files, store
from kcurate.deopt.models.targets import Target
from kcurate.problem.shown import shown_code
from kcurate.prompts import Example, Technique
from kcurate.prompts.tasks import MAX_EXAMPLE_CHARS
from kcurate.records import SIDES, Outcome

# One example shows what is meant; further ones cost more than they help.
EXAMPLES = 1


@dataclass(frozen=True)
class _Entry:
    """The facts by which a pair is selected before it is read."""

    folder: Path
    family: str
    techniques: frozenset[str]
    size_bytes: int


class Examples:
    """The confirmed pairs in a folder; read on first use. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._entries: tuple[_Entry, ...] | None = None
        self._found: dict[tuple[str, str], tuple[Example, ...]] = {}
        self._lock = threading.Lock()

    def __call__(self, target: Target, technique: Technique | None) -> Sequence[Example]:
        """The shortest confirmed pairs in CUDA for a technique, excluding the target's own family."""
        if technique is None or target.wants != "cuda":
            return ()
        key = (technique.name, target.start.family)
        with self._lock:
            if self._entries is None:
                self._entries = tuple(sorted(_entries(self.root), key=lambda entry: entry.size_bytes))
            if key not in self._found:
                self._found[key] = tuple(self._search(*key))
            return self._found[key]

    def _search(self, technique: str, family: str) -> Iterator[Example]:
        count = 0
        for entry in self._entries or ():
            if technique not in entry.techniques or entry.family == family or count == EXAMPLES:
                continue
            pair = store.read_candidate(entry.folder)
            example = Example(shown_code(pair.slow.code), shown_code(pair.fast.code), technique)
            small = len(example.slow) + len(example.fast) <= MAX_EXAMPLE_CHARS
            if small and any(v.outcome is Outcome.CONFIRMED for v in store.read_verdicts(entry.folder)):
                count += 1
                yield example


def _entries(root: Path) -> Iterator[_Entry]:
    """Every pair in CUDA with a verdict, from the raw `pair.json` (validated when the pair is read)."""
    for folder in store.find_candidates(root):
        if not store.is_folder(folder / "verdicts"):
            continue
        data = json.loads(own_files.read(folder / "pair.json"))
        if any("language" in data[side] for side in SIDES):
            continue
        size = sum(len(own_files.read(folder / name)) for name in ("slow.cu", "fast.cu"))
        yield _Entry(folder, data["family"], frozenset(data["techniques"]), size)
