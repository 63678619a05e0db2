"""The speedup over the naive variant in a suite, with which a made slow side is compared.

A naive variant is a hand-written slow side for the same problem. It belongs to a pair in the same folder as
the pair that a candidate was made from, or to a natural pair of the same kernel. Not covered: the judge's
conclusion (`kcurate.judge.made_slow`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath

from kcurate.core import resources, store
from kcurate.core.workspace import Workspace
from kcurate.records import Candidate, Outcome
from kcurate.verdicts.standing import best, current, judged


def naive_speedup(
    candidate: Candidate, fast_us: float, device: str, workspace: Workspace | None, size: str | None = None
) -> float | None:
    """The speedup over the slowest naive variant, among the built-in pairs and the workspace's.

    `fast_us`: the time of the candidate's fast side on `device`. It is compared with the time of the naive
    variant if that was measured on such a device; otherwise the speedup in the naive variant's pair counts.
    `size`: the name of a bench size; None: the headline size.

    Raises:
        InputError: a pair or a verdict on file cannot be read.
    """
    ratios = []
    for pair, verdicts in judged(_folders(candidate, workspace), workspace):
        if pair.origin.made == "slow" or pair.problem != candidate.problem:
            continue
        verdict = best(current(pair, verdicts), device)
        if verdict is None or verdict.outcome is not Outcome.CONFIRMED:
            continue
        slow_us = verdict.slow.median_us if verdict.slow is not None else None
        speedup = verdict.speedup
        if size is not None:
            timed = next((timing for timing in verdict.sizes if timing.name == size), None)
            slow_us, speedup = (timed.slow_us, timed.speedup) if timed is not None else (None, None)
        if slow_us and verdict.environment.device == device:
            ratios.append(slow_us / fast_us)
        elif speedup is not None:
            ratios.append(speedup.ratio)
    return max(ratios, default=None)


def _folders(candidate: Candidate, workspace: Workspace | None) -> Iterator[Path]:
    """The folders beside the pair that a candidate was made from, and of natural pairs of its kernels."""
    parent = PurePosixPath(candidate.origin.parent or "")
    roots = [resources.pairs_dir(), *([workspace.pairs] if workspace else [])]
    inside = len(parent.parts) > 1 and not parent.is_absolute() and ".." not in parent.parts
    for root in roots:
        if inside and store.exists(root / parent / "pair.json"):
            yield from store.find_candidates((root / parent).parent)
    kernels = set(candidate.origin.kernels)
    if workspace is None or not kernels:
        return
    yield from (folder for folder, named in _natural(workspace.pairs) if kernels & named)


@lru_cache(maxsize=1)
def _natural(pairs: Path) -> tuple[tuple[Path, frozenset[str]], ...]:
    """The folders of a workspace's natural pairs, each with the names of its kernels."""
    origins = ((folder, store.read_candidate(folder).origin) for folder in store.find_candidates(pairs))
    return tuple(
        (folder, frozenset(origin.kernels)) for folder, origin in origins if origin.kind == "natural"
    )
