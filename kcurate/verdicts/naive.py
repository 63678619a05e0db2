"""The speedup over a suite's own naive variant: what a slow side that was made is held against.

The naive variant is the slow side of a pair of the same problem that nobody made: the pair that a candidate
was made from, or a natural pair of the same kernel. Not covered: what follows (`kcurate.judge.made_slow`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from kcurate import resources, store
from kcurate.records import Candidate, Outcome
from kcurate.verdicts.standing import best, current, judged
from kcurate.workspace import Workspace


def naive_speedup(candidate: Candidate, workspace: Workspace | None, size: str | None = None) -> float | None:
    """The largest confirmed speedup over a naive variant, among the built-in pairs and the workspace's.

    At the headline bench size, or at the other one of that name.

    Raises:
        InputError: a pair or a verdict on file cannot be read.
    """
    found = []
    for pair, verdicts in judged(_folders(candidate, workspace), workspace):
        if pair.origin.made == "slow" or pair.problem != candidate.problem:
            continue
        verdict = best(current(pair, verdicts))
        if verdict is None or verdict.outcome is not Outcome.CONFIRMED:
            continue
        others = {one.name: one.speedup for one in verdict.sizes}
        speedup = others.get(size) if size is not None else verdict.speedup
        if speedup is not None:
            found.append(speedup.ratio)
    return max(found, default=None)


def _folders(candidate: Candidate, workspace: Workspace | None) -> Iterator[Path]:
    """The folders of the pair that a candidate was made from, and of natural pairs of its kernels."""
    parent = PurePosixPath(candidate.origin.parent or "")
    roots = [resources.pairs_dir(), *([workspace.pairs] if workspace else [])]
    inside = bool(parent.parts) and not parent.is_absolute() and ".." not in parent.parts
    yield from (root / parent for root in roots if inside and (root / parent / "pair.json").is_file())
    kernels = set(candidate.origin.kernels)
    if workspace is None or not kernels:
        return
    for folder in store.find_candidates(workspace.pairs):
        origin = store.read_candidate(folder).origin
        if origin.kind == "natural" and kernels & set(origin.kernels):
            yield folder
