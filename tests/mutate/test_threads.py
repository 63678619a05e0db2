"""Kernels with fewer threads: which threads leave at once, and which lanes are not launched."""

from __future__ import annotations

import pytest

from kcurate.mutate.ablations import Ablation, ablations
from kcurate.records import For, Launch, Side

GLOBAL = "blockIdx.x * blockDim.x + threadIdx.x"


def parts(body: str, plan: tuple[Launch | For, ...] = ()) -> list[Ablation]:
    return [*ablations(Side(f"__global__ void f(const float* x, float* y, int n) {{ {body} }}", plan))]


def of(body: str, words: str, plan: tuple[Launch | For, ...] = ()) -> list[Ablation]:
    return [part for part in parts(body, plan) if words in part.label]


def launch(grid: str) -> Launch:
    return Launch("f", (grid,), (64,), ("x", "y", "n"))


def test_threads_leave_before_the_work_that_they_do_not_store() -> None:
    loop = "for (int k = 0; k < 9; k++) s += x[k];"
    (part,) = of(f"int i = {GLOBAL}; float s = 0; {loop} if (i < n) y[i] = s;", "the work of the threads")
    assert f"int i = {GLOBAL}; if (true && !(i < n)) return; float s = 0;" in part.side.code
    assert part.at_bench_only


@pytest.mark.parametrize(
    "body",
    [
        f"int i = {GLOBAL}; float s = x[i]; if (i < n) y[i] = s;",  # nothing costly comes before
        f"int i = {GLOBAL}; for (int k = 0; k < 9; k++) i += k; if (i < n) y[i] = 1;",  # it changes
        f"int i = {GLOBAL}; float s = 0; while (s < x[i]) s += 1; if (x[i] < 1) y[i] = s; ",  # a load
        f"int i = {GLOBAL}; float s = 0; while (s < n) s += 1; if (i < n) y[i] = s; else y[i] = 0;",
    ],
)
def test_threads_stay_where_the_condition_is_not_known_before(body: str) -> None:
    assert not of(body, "the work of the threads")


@pytest.mark.parametrize("place", [f"({GLOBAL}) / 4", f"({GLOBAL}) >> 2"])
def test_one_thread_stands_for_those_that_share_a_number(place: str) -> None:
    body = f"int i = {place}; if (i < n) y[i] = x[i];"
    (part,) = of(body, "4 threads for each", (For("t", 3, (launch("n"),)), launch("2")))
    assert f"(true ? (({GLOBAL})) : (({GLOBAL})" in part.side.code
    inner, outer = part.side.plan
    assert isinstance(inner, For) and inner.do == (launch("ceil_div(n, 4)"),)
    assert outer == launch("ceil_div(2, 4)")


@pytest.mark.parametrize(
    "guard", ["if (lane >= 4) return;", "if (threadIdx.x % 32 >= 4) return;", "if (lane < 4) y[i] = x[i];"]
)
def test_lanes_take_the_places_of_idle_ones(guard: str) -> None:
    body = f"int lane = threadIdx.x % 32; int i = ({GLOBAL}) / 32 * 4 + lane; {guard} y[i] = x[i];"
    found = of(body, "the idle lanes", (launch("n"),))
    assert {part.side.plan[0].grid[0] for part in found} == {f"ceil_div(n, {k})" for k in (2, 4, 8, 16, 32)}
    assert any(f"(true ? (int)(({GLOBAL}) * 8)" in part.side.code for part in found)


def test_lanes_that_work_together_are_none_too_many() -> None:
    body = f"int i = ({GLOBAL}) / 32; float s = __shfl_down_sync(~0u, x[i], 1); if (threadIdx.x % 32) return;"
    assert not of(f"{body} y[i] = s;", "lanes") and not of(f"{body} y[i] = s;", "threads for each")


def test_a_block_of_one_warp() -> None:
    (part,) = of("y[0] = x[0];", "all but one warp", (launch("n"),))
    assert part.side.plan == (Launch("f", ("n",), (32,), ("x", "y", "n")),)
    small = Launch("f", ("n",), (32,), ("x", "y", "n"))
    assert not of("y[0] = x[0];", "all but one warp", (small, Launch("f", ("n",), (16, 4), ("x", "y", "n"))))
