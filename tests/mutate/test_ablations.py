"""The parts of a side, the text that holds them all behind guards, and the side without each."""

from __future__ import annotations

import pytest

from kcurate.mutate.ablations import SWITCH, Ablation, ablations, guarded
from kcurate.records import For, Launch, Side, WhileNonzero

CODE = """__device__ float twice(float x) { return x + x; }
extern "C" __global__ void __launch_bounds__(64) f(float* x, int* count, int n) {
    int old = atomicAdd(count, 1);
    float v = twice(twice(x[0]));
#pragma unroll
    for (int i = 0; i < n; i++)
        v += i;
    if (old > n)
        v = 0;
    __syncthreads();
    x[threadIdx.x] = v;
}
"""
LAUNCH = Launch("f", ("n", 2), (64,), ("x", "count", "n"), shared_bytes=4096)
SIDE = Side(CODE, (LAUNCH,))


def parts(side: Side = SIDE) -> dict[str, Ablation]:
    return {part.what: part for part in ablations(side)}


@pytest.mark.parametrize(
    "what",
    [
        "the value of old = atomicAdd(count, 1)",
        "the call twice(x[0])",
        "the calls twice(twice(x[0]))",
        "for (int i = 0; i < n; i++) v += i;",
        "all but one round of for (int i = 0; i < n; i++) v += i;",
        "half the rounds of for (int i = 0; i < n; i++) v += i;",
        "if (old > n) v = 0;",
        "__syncthreads();",
        "x[threadIdx.x] = v;",
        "__launch_bounds__(64)",
        "in the plan: half the blocks of f",
        "in the plan: half of the 4096 bytes of shared memory of f",
    ],
)
def test_a_part_can_be_left_out(what: str) -> None:
    assert what in parts()


def test_counts_do_not_show_what_barriers_and_attributes_cost() -> None:
    assert not parts()["__syncthreads();"].counted
    assert not parts()["__launch_bounds__(64)"].counted
    assert parts()["v += i;"].counted


def test_a_part_has_its_line_in_the_code() -> None:
    assert parts()["__syncthreads();"].line == 10


def test_one_text_has_all_guards_and_without_any_it_is_the_code() -> None:
    numbers = {part.number for part in ablations(SIDE) if part.number}
    text = guarded(CODE, numbers)
    assert all(f"{SWITCH} != {number}" in text or f"{SWITCH} == {number}" in text for number in numbers)
    assert guarded(CODE, ()) == CODE
    assert text.count("\n") == CODE.count("\n")


def test_a_pragma_before_a_loop_body_is_not_the_body() -> None:
    code = """__global__ void f(int* x) {
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int k = 0; k < 2; k++)
            x[i] += k;
}"""
    inner = [part for part in ablations(Side(code, ())) if part.what.startswith("for (int k")]
    assert inner and "#pragma unroll\n        { if (part_left_out != " in inner[0].side.code


def test_loops_of_the_host_run_once() -> None:
    rounds = For("k", "n", (LAUNCH,))
    until_done = WhileNonzero("count", 10, (LAUNCH,))
    plans = {part.side.plan for part in ablations(Side(CODE, (rounds, until_done))) if part.line is None}
    once = For("k", "(0) + (1)", (LAUNCH,))
    assert {(until_done,), (rounds,), (once, until_done), (rounds, LAUNCH)} <= plans
