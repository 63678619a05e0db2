"""A plan is bound once for the same records and sizes, and again for others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcurate.errors import ProblemError
from kcurate.problem import bind_once as once
from kcurate.problem.bind_once import bind_once
from kcurate.problem.program import bind
from tests import small


def test_the_same_records_give_the_same_program() -> None:
    one = small.scaled()
    assert one.problem is not None
    first = bind_once(one.problem, one.fast, {"n": 100})
    assert first == bind(one.problem, one.fast, {"n": 100})
    assert bind_once(one.problem, one.fast, {"n": 100}) is first
    assert bind_once(one.problem, one.fast, {"n": 200}) != first
    other = replace(one.fast, plan=(replace(one.fast.plan[0], block=(64,)),))  # type: ignore[arg-type]
    assert bind_once(one.problem, other, {"n": 100}) != first


def test_an_error_comes_each_time_and_old_programs_go() -> None:
    one = small.scaled()
    assert one.problem is not None
    broken = replace(one.fast, plan=(replace(one.fast.plan[0], args=("nothing",)),))  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(ProblemError):
            bind_once(one.problem, broken, {"n": 100})
    for n in range(1, 3 * once.MAX_PROGRAMS):
        bind_once(one.problem, one.fast, {"n": n})
    assert len(once._recent) == once.MAX_PROGRAMS
