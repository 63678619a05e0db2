"""Launches and shared memory of a slow side that was made, seen without what its kernels never read."""

from __future__ import annotations

from dataclasses import replace

import pytest
import small

from kcurate.backends.base import Compiled, Unread
from kcurate.judge.checks.repeated_launches import find_repeated_launch
from kcurate.judge.checks.unread import find_unread, find_unread_buffers, most_unread_bytes
from kcurate.problem import program
from kcurate.records import Buffer, Copy, Fill, Launch, Side, Step, ValueArg, WhileNonzero

AGAIN = [replace(small.EACH, args=("x", "y", "a", ValueArg(k, "int32"))) for k in (7, 8)]


def found(side: Side, unread: Unread, given_bytes: int = 0) -> list[str]:
    one = small.problem()
    bound = program.bind(one, side, one.sizes.test[0])
    compiled = Compiled("cuda", b"", "", {"scale": "_scale"}, (), "test", {"_scale": unread})
    return [finding.check for finding in find_unread(bound, side.code, compiled, given_bytes)]


def side(*plan: Launch | WhileNonzero) -> Side:
    return replace(small.scaled().slow, code=small.SCALE, plan=plan)


@pytest.mark.parametrize(
    ("unread", "checks"), [(Unread(), []), (Unread((3,)), ["redone"]), (Unread((2,)), [])]
)
def test_launches_that_differ_in_an_unread_argument_are_the_same(unread: Unread, checks: list[str]) -> None:
    assert found(side(*AGAIN), unread) == checks


def test_launches_that_differ_in_unread_shared_bytes_are_the_same() -> None:
    launches = [replace(small.EACH, shared_bytes=size) for size in (0, 512)]
    assert found(side(*launches), Unread()) == []
    assert found(side(*launches), Unread(dynamic=True)) == ["sham", "redone"]


def test_unread_shared_memory_is_refused() -> None:
    assert found(side(small.EACH), Unread(shared_bytes=4096)) == ["sham"]
    assert found(side(replace(small.EACH, shared_bytes=512)), Unread(dynamic=True)) == ["sham"]
    assert found(side(small.EACH), Unread(dynamic=True)) == []


def test_unread_shared_memory_that_was_given_is_not_refused() -> None:
    one = small.problem()
    given = replace(small.EACH, shared_bytes=512)
    bound = program.bind(one, side(small.EACH, given), one.sizes.test[0])
    unread = Unread(shared_bytes=64, dynamic=True)
    compiled = Compiled("cuda", b"", "", {"scale": "_scale"}, (), "test", {"_scale": unread})
    assert most_unread_bytes(bound, compiled) == 576
    assert found(side(given), unread, 576) == []
    assert found(side(given), unread, 575) == ["sham"]


def test_a_kernel_that_nothing_is_known_of_is_not_refused() -> None:
    one = small.problem()
    bound = program.bind(one, side(*AGAIN), one.sizes.test[0])
    assert not list(find_unread(bound, small.SCALE, Compiled("cuda", b"", "", {}, (), "test")))


INTO_OWN = replace(small.EACH, args=("x", "own", "a", "n"))


def unread_buffers(extent: str, unread: Unread, *more: Step) -> list[str]:
    own = {"own": Buffer("float32", (extent,), role="scratch")}
    one = replace(small.scaled().slow, code=small.SCALE, plan=(small.EACH, INTO_OWN, *more), buffers=own)
    problem = small.problem()
    bound = program.bind(problem, one, problem.sizes.headline)
    compiled = Compiled("cuda", b"", "", {"scale": "_scale"}, (), "test", {"_scale": unread})
    return [finding.check for finding in find_unread_buffers(bound, compiled)]


def test_a_large_buffer_that_nothing_reads_is_refused() -> None:
    assert unread_buffers("n", Unread(only_written=(1,))) == ["sham"]
    assert unread_buffers("n", Unread()) == []
    assert unread_buffers("n", Unread(only_written=(1,)), Copy("own", "y")) == []


def test_small_buffers_may_be_left_over_unless_atomics_contend_for_them() -> None:
    assert unread_buffers("8", Unread(only_written=(1,))) == []
    assert unread_buffers("8", Unread(only_written=(1,), updated=(1,))) == ["sham"]


def test_a_kernel_with_lone_fences_is_refused() -> None:
    assert found(side(small.EACH), Unread(lone_fences=True)) == ["sham"]


def test_a_buffer_that_only_the_plan_writes_is_refused() -> None:
    own = {"own": Buffer("float32", ("n",), role="scratch")}
    problem = small.problem()
    for step in (Fill("own"), Copy("x", "own")):
        one = replace(small.scaled().slow, code=small.SCALE, plan=(step, small.EACH), buffers=own)
        bound = program.bind(problem, one, problem.sizes.headline)
        assert [finding.check for finding in find_unread_buffers(bound)] == ["sham"]
        used = replace(one, plan=(step, replace(small.EACH, args=("own", "y", "a", "n"))))
        assert list(find_unread_buffers(program.bind(problem, used, problem.sizes.headline))) == []


OVER = replace(small.EACH, args=("own", "y", "a", "n"))


@pytest.mark.parametrize(
    ("plan", "refused"),
    [
        ((Fill("own"), Fill("own"), OVER), True),
        ((Fill("own", 1.0), Fill("own", 2.0), OVER), True),
        ((Copy("x", "own"), OVER, Copy("x", "own"), OVER), True),
        ((Copy("x", "own"), Fill("own"), OVER), True),
        ((Fill("own"), OVER, Fill("own", 1.0), OVER), False),
        ((Fill("own"), INTO_OWN, Fill("own"), OVER), False),
        ((Copy("x", "own"), OVER), False),
    ],
)
def test_a_fill_or_copy_is_not_repeated_in_vain(plan: tuple[Step, ...], *, refused: bool) -> None:
    own = {"own": Buffer("float32", ("n",), role="scratch")}
    problem = small.problem()
    one = replace(small.scaled().slow, code=small.SCALE, plan=plan, buffers=own)
    found = find_repeated_launch(program.bind(problem, one, problem.sizes.test[0]), one.code)
    assert bool(list(found)) == refused
