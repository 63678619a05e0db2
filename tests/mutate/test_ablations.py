"""The parts of a side, the text that holds them all behind guards, and the side without each."""

from __future__ import annotations

import pytest

from kcurate.mutate.ablations import Ablation, ablations, code_with_guards, combined
from kcurate.mutate.guards import SWITCH
from kcurate.records import Buffer, Copy, For, Init, Launch, Side, WhileNonzero

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
ALIKE, OTHER = Buffer("int32", ("n",)), Buffer("int32", (1,))
LAUNCH = Launch("f", ("n", 2), (64,), ("x", "count", "n"), shared_bytes=4096)
SIDE = Side(CODE, (LAUNCH,))


def parts(side: Side = SIDE) -> dict[str, Ablation]:
    return {part.label: part for part in ablations(side)}


@pytest.mark.parametrize(
    "what",
    [
        "the value of old = atomicAdd(count, 1)",
        "the call twice(x[0])",
        "the calls twice(twice(x[0])), where x[0] serves",
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
    assert not parts()["__syncthreads();"].visible_in_counts
    assert not parts()["__launch_bounds__(64)"].visible_in_counts
    assert parts()["for (int i = 0; i < n; i++) v += i;"].visible_in_counts


def test_a_part_has_its_line_in_the_code() -> None:
    assert parts()["__syncthreads();"].line == 10


def test_one_text_has_all_guards_and_without_any_it_is_the_code() -> None:
    numbers = {number for part in ablations(SIDE) for number in part.numbers}
    text = code_with_guards(SIDE, numbers)
    assert all(SWITCH.replace("@", str(number)) in text for number in numbers)
    assert code_with_guards(SIDE, ()) == CODE
    assert text.count("\n") == CODE.count("\n")


def test_attributes_go_together_and_each_alone() -> None:
    code = CODE.replace("float* x", "volatile float* x")
    both, bounds, volatile = [part for part in ablations(Side(code, ())) if part.attribute_offsets]
    assert both.label == "__launch_bounds__(64), and 1 more attributes"
    assert "".join(both.side.code.split()) == "".join(CODE.replace("__launch_bounds__(64)", "").split())
    assert both.covers(bounds) and both.covers(volatile) and not bounds.covers(both)
    assert not both.covers(parts()["__syncthreads();"])


def test_a_pragma_before_a_loop_body_is_not_the_body() -> None:
    code = """__global__ void f(int* x) {
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int k = 0; k < 2; k++)
            x[i] += k;
}"""
    inner = [part for part in ablations(Side(code, ())) if part.label.startswith("for (int k")]
    assert inner and "#pragma unroll\n        { if (!true) " in inner[0].side.code


ROUNDS = """struct Cipher {
    __device__ void lock(unsigned& word) const { word = word * 3 + 1; }
    __device__ void unlock(unsigned& word) const { word = (word - 1) * 2863311531u; }
};
template <class T> __device__ T lower(T word) { return word - 1; }
extern "C" __global__ void f(const int* x, int* y, int n) {
    __shared__ int next;
    int i = blockIdx.x * 32 + threadIdx.x, warp = threadIdx.x / 32;
    for (int turn = 0; turn < 8; turn++) {
        int j = next + i;
        if (warp == turn)
            y[j ^ 5] = x[j ^ 5];
        __syncthreads();
    }
    unsigned word = x[i];
    Cipher().lock(word);
    unsigned plain = word;
    Cipher().unlock(plain);
    unsigned last = plain ^ 77;
    unsigned less = lower(last);
    unsigned least = lower<unsigned>(less);
    y[i] = last + least;
}
"""


@pytest.mark.parametrize(
    "what",
    [
        "Cipher().lock(word); to Cipher().unlock(plain);",
        "the value of last in unsigned last = plain ^ 77;, where plain serves",
        "the value of last in unsigned last = plain ^ 77;, where x[i] serves",
        "the value of last in y[i] = last + least;, where word serves",
        "the value of warp in int i = blockIdx.x * 32 + threadIdx.x, warp =..., where threadIdx.x serves",
        "the calls lower<unsigned>(less), where last serves",
        "the place j ^ 5, where j serves",
        "the order of the rounds of for (int turn = 0; turn < 8; turn++) { int j..., with i for j",
    ],
)
def test_an_earlier_value_takes_a_later_ones_place(what: str) -> None:
    assert any(_alike(what, part) for part in parts(Side(ROUNDS, ())))


def _alike(shown: str, what: str) -> bool:
    """Whether a part is the one that is shown with `...` for what may be left out."""
    before, _, after = shown.partition("...")
    return what.startswith(before) and what.endswith(after)


def test_nothing_runs_between_two_values_that_are_alike() -> None:
    part = parts(Side(ROUNDS, ()))["the value of last in y[i] = last + least;, where word serves"]
    assert part.reuses_value
    assert "{ if (!true) Cipher().unlock(plain); }" in part.side.code
    assert "(true ? (unsigned)(word) : (last))" in part.side.code


WAITS = """#include <cuda/atomic>
__global__ void f(const float* x, float* y, int* z, int n) {
    float copy[8], sum = 0;
    int at = 0;
    for (int i = 0; i < n; i++) {
        copy[i ^ 1] = x[at + i];
        sum += x[i + int(sum) / 64];
        at = sum < 0 ? i : 0;
    }
    cuda::atomic_ref<float> total(*y);
    total.fetch_add(sum + copy[1]);
    total.store(sum, cuda::memory_order_seq_cst);
}
"""


@pytest.mark.parametrize(
    "what",
    [
        "the value of at in at = sum < 0 ? i : 0;, where i serves",
        "the place i ^ 1, where i serves",
        "the term int(sum) / 64 of the place [i + int(sum) / 64]",
        "other ways than one in sum < 0 ? i : 0 (false)",
        "the order of total.fetch_add(sum + copy[1])",
        "the order of total.store(sum, cuda::memory_order_seq_cst)",
    ],
)
def test_counts_do_not_show_what_a_thread_waits_for(what: str) -> None:
    assert not parts(Side(WAITS, ()))[what].visible_in_counts


def test_an_order_that_the_code_relaxes_stays() -> None:
    relaxed = WAITS.replace("seq_cst", "relaxed")
    assert not any("order of total.store" in what for what in parts(Side(relaxed, ())))


def test_a_kernels_parameters_are_in_no_place() -> None:
    assert not any(part.label.endswith(" n serves") for part in ablations(Side(ROUNDS, ())))


FORMS = """__global__ void f(int* x, const int* table, int n, int rounds) {
    int i = threadIdx.x, mine = i % 8;
    for (int k = 0; k < rounds; k++)
        x[table[i]] += logf(expf(x[i])) + k;
    for (int k = n; k >= 0; k--) x[k] += 1;
    for (int turn = 0; turn < 8; turn++)
        if ((turn ^ mine) < 1 && i < n) x[i] = atomicOr(&x[i], 0);
    unsigned waiting = 255;
    while (waiting) {
        if (i == waiting) x[i] = 1;
        waiting &= waiting - 1;
    }
    int first = atomicAdd(x, 8);
    switch (i % 2) { case 0: x[i] = first; break; case 1: x[i] = first; break; }
    if (i < 4) atomicExch(&x[i], 7); else x[i] = 7;
}
"""


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a quarter of the rounds of for (int k = 0;", "k < ((rounds) - (true ? (rounds) / 4 : 0))"),
        ("half the rounds of for (int k = n;", "k = ((n) - (true ? (n) / 2 : 0))"),
        (
            "all but the last round of for (int k = n;",
            "k--; const bool rounds_follow = (k >= 0); k = this_round;",
        ),
        ("the order of the rounds of for (int turn", "while ((turn < 8) && !((turn ^ mine) < 1 && i < n))"),
        ("all conditions in one round of while", "if ((true ? true : (i == waiting))) x[i] = 1;"),
        ("the place table[i], where i serves", "x[(true ? (i) : (table[i]))]"),
        ("the calls logf(expf(x[i]))", "(true ? (x[i]) : (logf(expf(x[i]))))"),
        ("the atomic in atomicOr", "(true ? (*(&x[i])) : (atomicOr(&x[i], 0)))"),
        ("the atomic in atomicExch", "(true ? (*(&x[i]) = (7)) : (atomicExch(&x[i], 7)))"),
        ("the order of atomicAdd", "(true ? ((8) * (blockIdx.x * blockDim.x + threadIdx.x)) : (atomicAdd("),
        ("other ways than one in switch", "switch ((true ? (0) : (i % 2)))"),
        ("other ways than one in if", "if ((true ? true : (i < 4)))"),
    ],
)
def test_a_part_runs_in_another_form(what: str, text: str) -> None:
    assert any(text in part.side.code for part in ablations(Side(FORMS, ())) if part.label.startswith(what))


def test_no_form_has_a_name_that_sides_may_not_use() -> None:
    assert not any("kcu" in part.side.code.lower() for part in ablations(Side(FORMS, ())))


def test_parts_of_the_code_and_one_of_the_plan_go_together() -> None:
    all_parts = parts()
    loop, barrier = all_parts["for (int i = 0; i < n; i++) v += i;"], all_parts["__syncthreads();"]
    half = all_parts["in the plan: half the blocks of f"]
    joined = combined(SIDE, (loop, barrier, half))
    assert joined is not None and not joined.visible_in_counts and joined.has_fewer_blocks
    assert joined.numbers == tuple(sorted((*loop.numbers, *barrier.numbers)))
    assert joined.side.plan == half.side.plan and joined.side.code.count("true") == 2
    assert combined(SIDE, (loop, all_parts["__launch_bounds__(64)"])) is None


def test_guards_of_one_span_and_of_its_end_nest() -> None:
    code = (
        "__global__ void f(int* x) { for (int i = 0; i < 2; i++) { if (threadIdx.x == i) { x[i] += 1; } } }"
    )
    side = Side(code, ())
    text = code_with_guards(side, {number for part in ablations(side) for number in part.numbers})
    depth = 0
    for sign in text:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0
    assert "break; } }" in text.split("for (int")[1]


def test_a_buffer_takes_the_place_of_one_that_is_filled_again() -> None:
    there = Launch("f", (1,), (64,), ("x", "a", "n"))
    back = Launch("g", (1,), (64,), ("a", "b", "n"))
    side = Side(CODE, (there, back, Copy("b", "y")), buffers=dict.fromkeys(("a", "b"), ALIKE))
    plans = [part.side.plan for part in ablations(side, {"x": ALIKE, "y": ALIKE, "z": OTHER})]
    assert (Copy("x", "y"),) in plans
    assert (there, Copy("a", "y")) in plans
    assert (Copy("b", "y"),) in plans
    assert not any("z" in str(plan) for plan in plans)


def test_loops_of_the_host_run_once() -> None:
    rounds = For("k", "n", (LAUNCH,))
    until_done = WhileNonzero("count", 10, (LAUNCH,))
    plans = {part.side.plan for part in ablations(Side(CODE, (rounds, until_done))) if part.line is None}
    fewer = [
        For("k", f"(0) + (1) * {rounds}", (LAUNCH,))
        for rounds in (
            "1",
            "ceil_div(ceil_div((n) - (0), (1)), 2)",
            "ceil_div(3 * ceil_div((n) - (0), (1)), 4)",
        )
    ]
    last = For("k", "n", (LAUNCH,), "(0) + (1) * (ceil_div((n) - (0), (1)) - 1)")
    assert {(until_done,), (rounds,), (rounds, LAUNCH)} <= plans
    assert {(loop, until_done) for loop in (*fewer, last)} <= plans


TABLES = """__global__ void write(int *after, int *odd, int step, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) after[i] = 2 * i + step;
    if (i < n) odd[i] = after[i] + 1;
}
__global__ void fill(int *places, int wide) { places[threadIdx.x] = 1; places[0] = wide; }
__global__ void jump(int *to, const int *steps, const float *weights, int *y, int m)
{
    y[to[threadIdx.x]] = (int)weights[threadIdx.x] + steps[m];
    to[m] = 3;
}"""


def test_loads_from_tables_of_formulas_may_be_computed() -> None:
    own = {
        "steps": Buffer("int32", ("n",), init=Init("formula", {"value": "n - i0 / 3"})),
        "weights": Buffer("float32", ("n",), init=Init("arange")),
        "after": Buffer("int32", ("n",), role="scratch"),
        "places": Buffer("int32", ("n",), role="scratch"),
    }
    plan = (
        Launch("write", (1,), (64,), ("after", "y", "k", "n")),
        Launch("fill", (1,), (64,), ("places", "n")),
        Launch("jump", (1,), (64,), ("after", "steps", "weights", "y", "n")),
    )
    of_tables = {
        part.label: part for part in ablations(Side(TABLES, plan, buffers=own)) if "formula" in part.label
    }
    steps, weights = (
        of_tables[f"the table {name}, where the formula of its entries serves"]
        for name in ("steps", "weights")
    )
    assert len(of_tables) == 2  # the kernel that fills `after` reads it, and `step` has no name in `jump`
    assert "(int)(m - ((long long)(m)) / 3)" in steps.side.code and steps.visible_in_counts
    assert "(float)(((long long)(threadIdx.x)))" in weights.side.code and not weights.visible_in_counts


def test_a_table_that_a_kernel_writes_down_may_be_computed() -> None:
    code = TABLES.replace("    if (i < n) odd[i] = after[i] + 1;\n", "").replace("int step,", "int step, ")
    own = {"after": Buffer("int32", ("n",), role="scratch")}
    plan = (
        Launch("write", (1,), (64,), ("after", "y", "n", "n")),
        Launch("jump", (1,), (64,), ("after", "x", "w", "y", "n")),
    )
    (part,) = (part for part in ablations(Side(code, plan, buffers=own)) if "formula" in part.label)
    assert "(int)(2 * ((long long)(threadIdx.x)) + m)" in part.side.code
    assert "to[m] = 3;" in part.side.code
