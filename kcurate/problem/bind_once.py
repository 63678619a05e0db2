"""An LRU cache of bound programs, shared by the stages of a judgement (per process, unlocked).

Binding is slow: some plans have 40,000 operations. Records are compared by identity, since comparing plans
could take as long as binding them. Not covered: binding (`kcurate.problem.program`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from kcurate.problem.program import Program, bind
from kcurate.records import Problem, Side

# Two sides at the sizes of most problems.
KEPT = 16
_recent: OrderedDict[tuple[int, int, tuple[tuple[str, int], ...]], tuple[Problem, Side, Program]] = (
    OrderedDict()
)


def bind_once(problem: Problem, side: Side, sizes: Mapping[str, int], *, where: str = "plan") -> Program:
    """As `bind`; the same program for the same records.

    Raises:
        ProblemError: as `bind`.
    """
    key = (id(problem), id(side), tuple(sorted(sizes.items())))
    if key in _recent:
        _recent.move_to_end(key)
        return _recent[key][2]
    program = bind(problem, side, sizes, where=where)
    _recent[key] = (problem, side, program)  # the records live as long as their ids are in use
    while len(_recent) > KEPT:
        _recent.popitem(last=False)
    return program
