"""A mistake at the bench size alone: harmless at the test sizes, wrong beyond them."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from benchmarks.switched_mistakes import at_bench_alone
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.records import Candidate, Outcome, Sizes
from tests import small


def switched(bench: int = 5000) -> Candidate:
    one = small.scaled()
    assert one.problem is not None
    problem = replace(one.problem, sizes=replace(one.problem.sizes, bench={"n": bench}))
    side = at_bench_alone(one.fast, replace(one.fast, code=one.fast.code.replace("a * x", "a + x")), problem)
    assert side is not None
    return replace(one, problem=problem, fast=side)


def test_the_mistake_acts_above_the_test_sizes_alone() -> None:
    one = switched()
    assert one.problem is not None
    at_bench = replace(one, problem=replace(one.problem, sizes=Sizes(({"n": 5000},), {"n": 5000})))
    with contextlib.closing(Judge(JudgeConfig("emulator"))) as judge:
        right, wrong = judge.judge(one), judge.judge(at_bench)
    assert right.outcome is Outcome.CORRECT, right.detail
    assert (wrong.outcome, wrong.side) == (Outcome.MISMATCH, "fast")


@pytest.mark.parametrize(
    "code",
    [
        small.SCALE.replace("int n", "float n"),
        small.SCALE.replace("scale(", "other("),
    ],
)
def test_a_text_that_cannot_be_switched_is_left_out(code: str) -> None:
    one = small.scaled()
    assert one.problem is not None
    assert at_bench_alone(one.fast, replace(one.fast, code=code), one.problem) is None


def test_sizes_that_no_parameter_tells_apart_are_left_out() -> None:
    one = small.scaled()
    assert one.problem is not None
    same = replace(one.problem, sizes=Sizes(one.problem.sizes.test, one.problem.sizes.test[0]))
    assert at_bench_alone(one.fast, one.fast, same) is None
