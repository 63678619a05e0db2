"""Writes natural pairs as candidates: both sides as extracted, with their problem if it is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kcurate.core import store
from kcurate.core.notes import Note, silent
from kcurate.errors import InputError
from kcurate.extract.joining import join_codes
from kcurate.extract.naming import safe_part, unique
from kcurate.extract.pairs import Match, PairOutcome, SourceFile
from kcurate.records import Candidate, Kernel, KnownProblem, Origin, Side
from kcurate.suites import Tree
from kcurate.suites.problems import load_problems, with_problem

UNKNOWN_DOMAIN = "unclassified"
PIPELINE = "pipeline"


@dataclass(frozen=True)
class _Pair:
    """A candidate to write: a file pair, or the file pairs of a pipeline in order."""

    benchmark: str
    name: str
    by: str
    slow: tuple[SourceFile, ...]
    fast: tuple[SourceFile, ...]


def write_candidates(
    folder: Path, tree: Tree, matches: Iterable[Match], note: Note = silent
) -> list[Candidate]:
    """Write every match that is a pair to `folder/<suite>/<benchmark>/<name>/`, in order.

    The problem comes from `sources/` if it is known there; a problem already in the folder is kept. File
    pairs that `sources/` declares a pipeline become one candidate, at the position of the first. An existing
    record that cannot be read is moved aside.
    """
    pairs = _pairs(list(matches), load_problems(tree.suite) if tree.facts else ())
    names = unique(
        "/".join([tree.suite, safe_part(pair.benchmark), *map(safe_part, pair.name.split("/"))])
        for pair in pairs
    )
    return [
        merged_with_earlier(folder / name, _candidate(name, tree, pair), note)
        for name, pair in zip(names, pairs, strict=True)
    ]


def merged_with_earlier(folder: Path, candidate: Candidate, note: Note) -> Candidate:
    """Write a candidate to its folder; an earlier candidate there keeps its problem."""
    earlier = _earlier(folder, note)
    merged = _merged(earlier, candidate)
    if earlier != merged:
        store.write_candidate(folder, merged, durable=earlier is not None)  # a new one can be made again
    return merged


def _earlier(folder: Path, note: Note) -> Candidate | None:
    """The candidate already in the folder; None: there is none, or it is unreadable and was moved aside."""
    path = folder / "pair.json"
    if not store.exists(path):
        return None
    try:
        return store.read_candidate(folder)
    except InputError as error:
        note(f"{error.where}: {error.what}; {store.put_aside(path)} has the old record, this is a new one")
        return None


def _merged(earlier: Candidate | None, candidate: Candidate) -> Candidate:
    """The record to write: the new code, with the problem and plans that somebody supplied earlier."""
    if earlier is None or earlier.problem is None:
        return candidate
    return replace(
        earlier,
        slow=replace(earlier.slow, code=candidate.slow.code),
        fast=replace(earlier.fast, code=candidate.fast.code),
    )


def _pairs(matches: Sequence[Match], known: Iterable[KnownProblem]) -> list[_Pair]:
    """The candidates to write: matches with the outcome PAIR, and pipelines joined."""
    joined = {id(files[0]): files for problem in known for files in _pipelines(matches, problem)}
    in_pipeline = {id(match) for files in joined.values() for match in files}
    pairs = []
    for match in matches:
        files = joined.get(id(match), [match])
        if id(match) in in_pipeline and id(match) not in joined:
            continue
        if id(match) not in joined and match.outcome is not PairOutcome.PAIR:
            continue
        slow = tuple(file.slow for file in files if file.slow is not None)
        fast = tuple(file.fast for file in files if file.fast is not None)
        assert len(slow) == len(fast) == len(files)
        name = match.name if len(files) == 1 else PIPELINE
        pairs.append(_Pair(match.benchmark, name, match.by, slow, fast))
    return pairs


def _pipelines(matches: Sequence[Match], known: KnownProblem) -> list[list[Match]]:
    """The file pairs of a pipeline, in order, for each pair rule under which all its files have partners."""
    pipelines = []
    for rule in {match.rule: None for match in matches if match.benchmark == known.benchmark}:
        stems = {
            match.slow.place.rest.removesuffix(".cu"): match
            for match in matches
            if match.benchmark == known.benchmark and match.rule == rule and match.slow and match.fast
        }
        if known.pipeline and all(file in stems for file in known.pipeline):
            pipelines.append([stems[file] for file in known.pipeline])
    return pipelines


def _candidate(name: str, tree: Tree, pair: _Pair) -> Candidate:
    slow, fast = pair.slow[0], pair.fast[0]
    assert slow.place.benchmark is not None
    facts = tree.benchmark(slow.place.benchmark)
    source = tree.source(slow.place.benchmark, slow.path)
    files = (*pair.slow, *pair.fast)
    candidate = Candidate(
        id=name,
        family=facts.family if facts else pair.benchmark,
        domain=facts.domain if facts else UNKNOWN_DOMAIN,
        license=joint_license([kernel for file in files for kernel in file.kernels]),
        origin=Origin(
            "natural",
            suite=tree.suite,
            url=source.url,
            revision=source.revision,
            kernels=tuple(kernel.id for file in files for kernel in file.kernels),
        ),
        techniques=tuple(sorted(_techniques(pair.fast) - _techniques(pair.slow))),
        description=f"{_paths(pair.slow)} as the slow side, {_paths(pair.fast)} as the fast one"
        f" (matched by {pair.by}).",
        problem=None,
        slow=_side(pair.slow),
        fast=_side(pair.fast),
    )
    if facts is None:
        return candidate
    return with_problem(candidate, slow.place.benchmark, slow.place.variant, fast.place.variant)


def _side(files: Sequence[SourceFile]) -> Side:
    code = files[0].code if len(files) == 1 else join_codes(file.code for file in files)
    return Side(code=code.decode("utf-8", "replace"), plan=())


def _paths(files: Sequence[SourceFile]) -> str:
    return ", ".join(file.path for file in files)


def _techniques(files: Sequence[SourceFile]) -> set[str]:
    return {technique for file in files for kernel in file.kernels for technique in kernel.techniques}


def joint_license(kernels: Iterable[Kernel]) -> str | None:
    """The licences of all kernels joined; None: the licence of one is unknown."""
    licenses = {kernel.license for kernel in kernels}
    known = sorted(license_ for license_ in licenses if license_ is not None)
    if len(known) < len(licenses):
        return None
    return known[0] if len(known) == 1 else " AND ".join(f"({k})" if " " in k else k for k in known)
