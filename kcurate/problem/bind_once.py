"""An LRU cache of bound programs, shared by the stages of a judgement (per process, unlocked).

Binding is slow: some plans have 40,000 operations. Records are compared by identity, since comparing plans
could take as long as binding them. Not covered: binding (`kcurate.problem.program`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from kcurate.problem.ops import Program
from kcurate.problem.program import bind
from kcurate.records import Problem, Side

# Enough for both sides at every size of most problems.
MAX_PROGRAMS = 16
_recent: OrderedDict[tuple[int, int, tuple[tuple[str, int], ...]], tuple[Problem, Side, Program]] = (
    OrderedDict()
)


def bind_once(problem: Problem, side: Side, sizes: Mapping[str, int], *, where: str = "plan") -> Program:
    """As `bind`, but returns the cached program for records that were bound before.

    Raises:
        ProblemError: as `bind`.
    """
    key = (id(problem), id(side), tuple(sorted(sizes.items())))
    if key in _recent:
        _recent.move_to_end(key)
        return _recent[key][2]
    program = bind(problem, side, sizes, where=where)
    _recent[key] = (problem, side, program)  # holding the records keeps their ids from being reused
    while len(_recent) > MAX_PROGRAMS:
        _recent.popitem(last=False)
    return program
