"""What test sizes leave untested, and the setting that mends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcurate.problem.size_gaps import SizeGap, advice, divisible, mended, size_gaps
from kcurate.records import BenchSize, Buffer, Expr, For, Init, Launch, Problem, Scalar, Side, Sizes, Step

ROW = Buffer("float32", ("n",), Init("uniform", {"low": 0, "high": 1}))


def problem(*test: dict[str, int], bench: dict[str, int], **buffers: Buffer) -> Problem:
    return Problem(Sizes(test, bench), buffers or {"x": ROW, "y": replace(ROW, role="out", init=None)})


def launch(*grid: Expr, **other: Any) -> Launch:
    return Launch("f", grid, (256,), ("x", "y", "n"), **other)


def side(*plan: Step) -> dict[str, Side]:
    return {"slow": Side("", plan)}


def texts(made: Problem, *plan: Step) -> list[str]:
    def text(gap: SizeGap) -> str:
        assert gap.mend is not None
        return f"{gap.what}: add {', '.join(f'{name}={value}' for name, value in gap.mend.items())}"

    return [text(gap) for gap in size_gaps(made, side(*plan))]


def test_an_axis_with_one_block_at_every_test_size_is_named_with_the_size_that_mends_it() -> None:
    made = problem({"n": 100}, {"n": 201}, bench={"n": 4096})
    where = "slow.plan[0].grid[0] (ceil_div(n, 256))"
    assert texts(made, launch("ceil_div(n, 256)")) == [f"{where} has one block at every test size: add n=257"]


@pytest.mark.parametrize(
    "grid", ["ceil_div(n, 256)", "(n + 255) / 256", "(n + 256 - 1) / 256", "(n - 1) / 256 + 1"]
)
def test_blocks_that_always_end_with_the_size_are_a_gap(grid: str) -> None:
    made = problem({"n": 512}, {"n": 1024}, {"n": 3}, bench={"n": 4096})
    (text,) = texts(made, launch(grid))
    assert text == f"slow.plan[0].grid[0] ({grid}) has no ragged end at every test size: add n=257"
    assert not texts(problem({"n": 512}, {"n": 300}, bench={"n": 4096}), launch(grid))


def test_a_division_that_is_exact_at_every_size_asks_for_no_remainder() -> None:
    """A kernel without guards: its plan says that it needs multiples."""
    made = problem({"n": 512}, {"n": 1024}, bench={"n": 4096})
    assert not texts(made, launch("n / 256"))
    assert not texts(made, launch("n / 256"), launch("ceil_div(n, 256)"))
    assert texts(problem({"n": 256}, {"n": 16}, bench={"n": 4096}), launch("max(1, n / 256)"))


def test_sizes_are_raised_to_what_a_grid_without_a_ragged_end_computes() -> None:
    """One side computes 32 rows a block and leaves the rest out, the other a row a block."""
    made = problem({"n": 61}, {"n": 64}, {"n": 3}, bench={"n": 1000})
    sides = {"slow": Side("", (launch("n / 32"),)), "fast": Side("", (launch("n"),))}
    raised = divisible(made, sides).sizes
    assert [setting["n"] for setting in (*raised.test, raised.headline)] == [64, 64, 32, 1024]
    for whole in ("ceil_div(n, 32)", "(n - 1) / 32 + 1", "(n + 31) / 32", "n"):
        assert divisible(made, side(launch(whole))) == made


def test_only_the_sizes_that_a_division_divides_are_raised() -> None:
    """`rows` is in the grid, but it is `cols` that is cut into fours."""
    made = problem({"cols": 61, "rows": 53}, bench={"cols": 1000, "rows": 333})
    fours = divisible(made, side(launch("ceil_div((cols / 4) * rows, 256)"))).sizes
    assert fours.test == ({"cols": 64, "rows": 53},) and fours.headline == {"cols": 1000, "rows": 333}
    both = divisible(made, side(launch("(cols * rows) / 4"))).sizes
    assert both.test == ({"cols": 64, "rows": 56},)


def test_one_block_a_row_has_no_ragged_end() -> None:
    assert not texts(problem({"n": 5}, {"n": 3}, bench={"n": 4096}), launch("n"))
    assert not texts(problem({"n": 5}, {"n": 3}, bench={"n": 4096}), launch(132))


def test_multiples_are_kept_where_they_can_mend() -> None:
    (text,) = texts(problem({"n": 64}, {"n": 128}, bench={"n": 4096}), launch("ceil_div(n, 256)"))
    assert text.endswith("add n=320")


def test_loops_and_scalars_lead_to_the_size_behind_an_axis() -> None:
    made = replace(
        problem({"n": 40}, {"n": 77}, bench={"n": 4096}), scalars={"half": Scalar("int32", "n / 2")}
    )
    loop = For("k", "half", (launch("ceil_div(n - k, 128)"),))
    assert texts(made, loop)[0].endswith("has one block at every test size: add n=129")
    assert texts(made, launch("ceil_div(half, 64)"))[0].endswith("add n=130")


def test_levels_that_only_millions_of_elements_reach_are_no_gap() -> None:
    made = problem({"n": 1000}, {"n": 70001}, bench={"n": 1 << 26})
    levels = "n"
    for _ in range(3):
        levels = f"ceil_div({levels}, 256)"
        assert not texts(made, launch(levels))


def test_a_size_that_no_trial_varies_is_a_gap_unless_the_code_is_compiled_for_it() -> None:
    table = Buffer("float32", ("rows", "n"), Init("normal"))
    made = problem({"rows": 5, "n": 64}, {"rows": 9, "n": 64}, bench={"rows": 99, "n": 64}, x=table)
    told = Launch("f", ("rows",), (256,), ("x", "rows", "n"))
    assert texts(made, told) == ["test sizes leave n at 64: add rows=5, n=128"]
    assert not texts(made, replace(told, template=("{n}",)))
    assert not texts(made, replace(told, args=("x", "rows")))
    varied = replace(made, sizes=replace(made.sizes, bench={"rows": 99, "n": 128}))
    assert texts(varied, replace(told, template=("{n}",)))


def test_two_sizes_that_are_equal_at_every_trial_are_a_gap() -> None:
    table = Buffer("float32", ("rows", "n"), Init("normal"))
    made = problem({"rows": 5, "n": 5}, {"rows": 64, "n": 64}, bench={"rows": 99, "n": 64}, x=table)
    assert texts(made, Launch("f", ("rows",), (64,), ("x", "rows", "n"))) == [
        "test sizes leave rows and n equal: add rows=5, n=6"
    ]


def test_a_problem_of_one_size_has_no_gap() -> None:
    made = problem({}, bench={}, x=Buffer("float32", (5,), role="out"))
    assert not texts(replace(made, single_size=True), launch(1))


def test_the_mended_problem_has_no_gap_left() -> None:
    table = Buffer("float32", ("rows", "n"), Init("normal"))
    bench = (BenchSize("large", {"rows": 4096, "n": 4096}), BenchSize("small", {"rows": 512, "n": 64}))
    made = Problem(Sizes(({"rows": 8, "n": 8}, {"rows": 16, "n": 16}), bench), {"x": table})
    plan = side(Launch("f", ("ceil_div(rows, 128)", "ceil_div(n, 32)"), (256,), ("x", "rows", "n")))
    assert len(size_gaps(made, plan)) == 3
    line = advice(made, plan)
    closed = mended(made, plan)
    assert advice(closed, plan) is None
    assert line == (
        "slow.plan[0].grid[0] (ceil_div(rows, 128)) has one block at every test size (and 2 more): "
        "add the test size rows=136, n=8; rows=8, n=40"
    )
    assert not size_gaps(closed, plan)
    assert closed.sizes.test[:2] == made.sizes.test and len(closed.sizes.test) == 4


def test_settings_at_which_the_plan_has_no_value_mend_nothing() -> None:
    made = problem({"n": 100}, {"n": 201}, bench={"n": 4096})
    assert texts(made, launch("ceil_div(n, 256) + 0 * log2(n - 99)"))[0].endswith("add n=257")
