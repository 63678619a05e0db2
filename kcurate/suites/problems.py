"""The known problems of a suite's benchmarks: `sources/problems/<suite>/*.json`.

Finds the problem that fits given code. Not covered: whether a problem is valid (`kcurate.problem`), inferring
problems for trees without known ones (`kcurate.draft`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from kcurate.core import resources, store
from kcurate.records import Candidate, KnownProblem, Launch, Step, steps

# The problem drafted, recorded or written for a kernel, in its folder; it takes precedence over the suite's.
PROBLEM_NAME = "problem.json"


@cache
def load_problems(suite: str) -> tuple[KnownProblem, ...]:
    """Every known problem of a suite, by file name; empty for an unknown suite.

    Raises:
        RecordError: a file does not match `schemas/knownproblem.json`.
    """
    folder = resources.sources_dir() / "problems" / suite
    return tuple(store.read_json(path, KnownProblem) for path in sorted(folder.glob("*.json")))


def tied(known: KnownProblem, code: str) -> KnownProblem:
    """The problem, restricted to this code of its kernel."""
    return replace(known, code_id=store.content_id(code))


def is_of(known: KnownProblem, code: str) -> bool:
    """Whether a problem was made for this code, or for no particular code."""
    return known.code_id in (None, store.content_id(code))


def launched(plan: Iterable[Step]) -> Iterator[str]:
    """The names of the kernels that a plan launches, loops included, in order."""
    return (step.launch for step in steps(plan) if isinstance(step, Launch))


def own_problem(folder: Path, code: str) -> KnownProblem | None:
    """The admitted problem beside a kernel; None if there is none, or it was made for other code."""
    path = folder / PROBLEM_NAME
    problem = store.read_json(path, KnownProblem) if store.exists(path) else None
    return problem if problem is not None and is_of(problem, code) else None


def find_problem(
    suite: str, benchmark: str, codes: dict[str, str], path: str | None = None
) -> KnownProblem | None:
    """The known problem for these variants (name to code); None: there is none.

    If there are several, the first that covers `path` and whose plans launch only kernels in the codes.
    """
    for known in load_problems(suite):
        if (
            known.benchmark == benchmark
            and known.covers(path)
            and all(
                variant in known.sides and _mentions(code, launched(known.sides[variant].plan))
                for variant, code in codes.items()
            )
        ):
            return known
    return None


def _mentions(code: str, names: Iterable[str]) -> bool:
    names_here = (name.rpartition("::")[2] for name in names)
    return all(re.search(rf"\b{re.escape(name)}\s*\(", code) for name in names_here)


def with_problem(candidate: Candidate, benchmark: str, slow: str | None, fast: str | None) -> Candidate:
    """A natural pair with the known problem and plans of its variants; unchanged if none is known."""
    suite = candidate.origin.suite
    slow_name, fast_name = slow or "", fast or ""
    if suite is None or slow_name == fast_name:
        return candidate
    known = find_problem(suite, benchmark, {slow_name: candidate.slow.code, fast_name: candidate.fast.code})
    if known is None:
        return candidate
    return replace(
        candidate,
        origin=replace(candidate.origin, problem="known"),
        problem=known.problem,
        slow=known.sides[slow_name].side(candidate.slow.code),
        fast=known.sides[fast_name].side(candidate.fast.code),
    )
