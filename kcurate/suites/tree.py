"""The suite that a path belongs to. A tree is a root folder with a manifest, whose facts may not apply to it.

Detection checks the path and its parents, so a benchmark's folder or a single file is recognised too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kcurate.records import Source
from kcurate.suites.layout import Place, locate
from kcurate.suites.manifest import GENERIC, Benchmark, Manifest

# A tree that merely resembles a suite must not inherit its licence: this many of the manifest's
# benchmarks must exist before its facts are applied.
MIN_KNOWN_BENCHMARKS = 3


@dataclass(frozen=True)
class Tree:
    """A root folder under one manifest.

    `facts`: whether the manifest's URL, revision, licence and domains apply here. `url`: where a tree of no
    suite is from.
    """

    root: Path
    manifest: Manifest
    facts: bool
    revision: str | None = None
    url: str | None = None

    @property
    def suite(self) -> str:
        """The suite's name; for the generic layout, the name of the root folder."""
        return self.manifest.suite

    @property
    def another_revision(self) -> str | None:
        """The revision that the manifest describes, if another one is checked out."""
        expected = self.manifest.revision
        return expected if self.facts and self.revision not in (None, expected) else None

    def locate(self, path: str) -> Place | None:
        """Where a file of this tree belongs (`path` relative to the root); None: outside the layout."""
        place = locate(self.manifest.layout, path)
        if place is not None and place.benchmark is None:
            return replace(place, benchmark=self.suite)
        return place

    def benchmark(self, name: str) -> Benchmark | None:
        """The manifest's facts about a benchmark."""
        return self.manifest.benchmarks.get(name) if self.facts else None

    def source(self, benchmark: str, path: str) -> Source:
        """The provenance of a file; its licence is what the manifest says."""
        if self.benchmark(benchmark) is None:
            return Source(self.suite, self.url, self.revision)
        manifest = self.manifest
        license_ = manifest.license_of(benchmark, path)
        return Source(self.suite, manifest.url, self.revision or manifest.revision, license_)


def _is_root(folder: Path, manifest: Manifest) -> bool:
    for marker in manifest.layout.markers:
        try:
            if all(next(folder.glob(glob), None) is not None for glob in marker):
                return True
        except OSError:
            continue
    return False


def _known_benchmarks(folder: Path, manifest: Manifest) -> int:
    """How many of the manifest's benchmarks have a folder under `folder`."""
    patterns = [path.partition("{benchmark}") for path in manifest.layout.paths if "{benchmark}" in path]
    around = {(before, after.split("/")[0]) for before, _, after in patterns}
    return sum(
        any((folder / f"{before}{name}{after}").is_dir() for before, after in around)
        for name in manifest.benchmarks
    )


def head_revision(root: Path) -> str | None:
    """The commit checked out at `root`, read from its `.git` folder; None if there is none."""
    git = root / ".git"
    try:
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if head.startswith("ref: "):
            name = head.removeprefix("ref: ")
            loose = git / name
            if loose.is_file():
                head = loose.read_text(encoding="utf-8").strip()
            else:
                packed = (git / "packed-refs").read_text(encoding="utf-8").splitlines()
                head = next((line.split()[0] for line in packed if line.endswith(f" {name}")), "")
    except (OSError, UnicodeDecodeError):
        return None
    return head if re.fullmatch(r"[0-9a-f]{40,64}", head) else None


def find_tree(folder: Path, manifests: Mapping[str, Manifest], *, parents: bool = True) -> Tree | None:
    """The suite tree with root `folder` or, with `parents`, around it; None if no manifest matches."""
    for candidate in (folder, *folder.parents) if parents else (folder,):
        for manifest in manifests.values():
            if _is_root(candidate, manifest):
                facts = _known_benchmarks(candidate, manifest) >= MIN_KNOWN_BENCHMARKS
                return Tree(candidate, manifest, facts, head_revision(candidate))
    return None


def forced_tree(folder: Path, manifest: Manifest) -> Tree:
    """`folder` under a manifest chosen by the user; its root is the nearest parent that matches it."""
    tree = find_tree(folder, {manifest.suite: manifest})
    root = tree.root if tree else folder
    if manifest.suite == GENERIC:
        return generic_tree(root, manifest)
    return Tree(root, manifest, True, head_revision(root))


def generic_tree(folder: Path, manifest: Manifest) -> Tree:
    """`folder` as its own tree, named after it."""
    name = re.sub(r"[^A-Za-z0-9._+-]+", "_", folder.name).strip("._-") or GENERIC
    return Tree(folder, replace(manifest, suite=name), False, head_revision(folder))
