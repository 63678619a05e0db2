"""One workspace with the small tree extracted and drafted, for all tests that only look."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from kcurate.core import store
from kcurate.draft.stage import FORM_NAME, DraftConfig, draft
from kcurate.extract.stage import ExtractConfig, run
from kcurate.records import KnownProblem, Summary
from tests.draft.sources import write_tree


@dataclass(frozen=True)
class Drafted:
    """A workspace after `kcurate problem draft`."""

    root: Path
    summary: Summary
    lines: tuple[str, ...]

    def folder(self, kernel: str) -> Path:
        """The folder of a kernel by its name."""
        (found,) = (path.parent for path in (self.root / "kernels").rglob(f"{kernel}/kernel.json"))
        return found

    def form(self, kernel: str) -> str:
        """The draft's text."""
        return (self.folder(kernel) / FORM_NAME).read_text()

    def known(self, kernel: str) -> KnownProblem:
        """The admitted problem."""
        return store.read_json(self.folder(kernel) / "problem.json", KnownProblem)


@pytest.fixture(scope="session")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Drafted:
    folder = tmp_path_factory.mktemp("drafts")
    tree = write_tree(folder / "tree")
    root = folder / "work"
    run(ExtractConfig((tree,), root, compile=False))
    lines: list[str] = []
    summary = draft(DraftConfig(root), note=lines.append)
    return Drafted(root, summary, tuple(lines))
