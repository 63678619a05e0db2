"""Natural pairs as candidates on disk: both sides taken as they are, with the problem where it is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kcurate import store
from kcurate.extract.naming import safe_part, unique
from kcurate.extract.pairs import Match, PairOutcome, SourceFile
from kcurate.records import Candidate, Origin, Side
from kcurate.suites import Tree
from kcurate.suites.problems import with_problem

UNKNOWN_DOMAIN = "unclassified"


def write_candidates(folder: Path, tree: Tree, matches: Iterable[Match]) -> list[Candidate]:
    """Write every match that is a pair to `folder/<suite>/<benchmark>/<name>/`, in their order.

    The problem is what `sources/` knows of it, if anything; one that is in the folder already is kept.
    """
    pairs = [match for match in matches if match.outcome is PairOutcome.PAIR]
    names = unique(
        "/".join([tree.suite, safe_part(match.benchmark), *map(safe_part, match.name.split("/"))])
        for match in pairs
    )
    candidates = []
    for name, match in zip(names, pairs, strict=True):
        candidate = _candidate(name, tree, match)
        place = folder / name
        merged = _merged(place, candidate)
        if not ((place / "pair.json").exists() and store.read_candidate(place) == merged):
            store.write_candidate(place, merged)
        candidates.append(merged)
    return candidates


def _merged(folder: Path, candidate: Candidate) -> Candidate:
    """What is to lie in the folder: the new code, and the problem and plans that somebody supplied."""
    if not (folder / "pair.json").exists():
        return candidate
    earlier = store.read_candidate(folder)
    if earlier.problem is None:
        return candidate
    return replace(
        earlier,
        slow=replace(earlier.slow, code=candidate.slow.code),
        fast=replace(earlier.fast, code=candidate.fast.code),
    )


def _candidate(name: str, tree: Tree, match: Match) -> Candidate:
    slow, fast = match.slow, match.fast
    assert slow is not None and fast is not None and slow.place.benchmark is not None
    facts = tree.benchmark(slow.place.benchmark)
    source = tree.source(slow.place.benchmark, slow.path)
    known_slow = {technique for kernel in slow.kernels for technique in kernel.techniques}
    known_fast = {technique for kernel in fast.kernels for technique in kernel.techniques}
    candidate = Candidate(
        id=name,
        family=facts.family if facts else match.benchmark,
        domain=facts.domain if facts else UNKNOWN_DOMAIN,
        license=_joint_license(slow, fast),
        origin=Origin(
            "natural",
            suite=tree.suite,
            url=source.url,
            revision=source.revision,
            kernels=tuple(kernel.id for file in (slow, fast) for kernel in file.kernels),
        ),
        techniques=tuple(sorted(known_fast - known_slow)),
        description=f"{slow.path} as the slow side, {fast.path} as the fast one (matched by {match.by}).",
        problem=None,
        slow=_side(slow),
        fast=_side(fast),
    )
    if facts is None:
        return candidate
    return with_problem(candidate, slow.place.benchmark, slow.place.variant, fast.place.variant)


def _side(file: SourceFile) -> Side:
    return Side(code=file.code.decode("utf-8", "replace"), plan=())


def _joint_license(slow: SourceFile, fast: SourceFile) -> str | None:
    """The licence of both sides together; None when that of any kernel is not known."""
    licenses = {kernel.source.license for file in (slow, fast) for kernel in file.kernels}
    known = sorted(license_ for license_ in licenses if license_ is not None)
    if len(known) < len(licenses):
        return None
    return known[0] if len(known) == 1 else " AND ".join(f"({k})" if " " in k else k for k in known)
