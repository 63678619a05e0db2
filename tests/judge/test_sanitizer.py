"""What is run under compute-sanitizer: the smallest size that exercises every axis of the launches."""

from __future__ import annotations

from dataclasses import replace

import small

from kcurate.judge.sanitizer import smallest


def test_the_smallest_size_with_several_blocks_is_chosen() -> None:
    candidate = small.scaled()
    assert candidate.problem is not None
    tests = ({"n": 1}, {"n": 5000}, {"n": 90000})
    sizes = replace(candidate.problem.sizes, test=tests)
    wanted = smallest(replace(candidate, problem=replace(candidate.problem, sizes=sizes)))
    assert wanted == {"n": 5000}
