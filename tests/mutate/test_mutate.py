"""Mistakes and honest changes: what they make of a text, and that the judge tells them apart."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
import small

from benchmarks import harmless_changes
from benchmarks.harmless_changes import in_turns
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.mutate import wrong
from kcurate.mutate.choosing import results_of_change
from kcurate.mutate.spans import Code
from kcurate.records import Launch, Outcome, Problem, Side

CODE = """
#define TILE 32
// if (i < n) is only said here
extern "C" __global__ void rows(const float* x, float* y, int* seen, int n)
{
    __shared__ float part[TILE][33];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; k++)
        sum += x[i * n + k] * 2.0f;
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (i < n && sum == sum)
        y[i] = part[threadIdx.y][threadIdx.x] / 4.0f;
    atomicAdd(seen, 16);
    helper(sum, i);
}
"""
SIDE = Side(CODE, (Launch("rows", ("ceil_div(n, 128)",), (128,), ("x", "y", "seen", "n")),))


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        ("index_off_by_one", "x[i * n + k + 1]"),
        ("missing_guard", "__syncthreads();\n    y[i] ="),
        ("dropped_barrier", "= sum;\n    if (i < n"),
        ("wrong_operator", "i * n - k"),
        ("wrong_operator", "x[i + n + k]"),
        ("wrong_operator", "sum -= x"),
        ("bound_off_by_one", "k <= n"),
        ("lost_tail", "k < n / 32 * 32"),
        ("narrower_accumulate", "(__float_as_uint(sum + (x[i * n + k] * 2.0f)) & 0xffff0000u)"),
        ("swapped_arguments", "helper(i, sum)"),
        ("swapped_arguments", "part[threadIdx.x][threadIdx.y] = sum"),
        ("wrong_constant", "/ 4.04f"),
        ("halved_constant", "atomicAdd(seen, 8)"),
        ("dropped_atomic", "*seen += 16;"),
        ("dropped_statement", "2.0f;\n    __syncthreads"),
        ("wrong_axis", "threadIdx.y;\n    float sum"),
        ("wrong_logic", "i < n || sum"),
    ],
)  # fmt: skip
def test_operator_makes_its_mistake_once(operator: str, text: str) -> None:
    made = [one.side.code for one in results_of_change(SIDE, wrong.OPERATORS, operator)]
    assert sum(text in code for code in made) == 1
    assert CODE not in made
    assert len(set(made)) == len(made)


def test_comments_and_directives_are_left_alone() -> None:
    for operator in wrong.OPERATORS:
        for one in results_of_change(SIDE, wrong.OPERATORS, operator):
            assert "#define TILE 32\n// if (i < n) is only said here\n" in one.side.code


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("renamed", "float sum_other = 0.0f"),
        ("reordered", "(k * i"),
        ("fused", "sum = fmaf(x[i * n + k], 2.0f, sum);"),
        ("loop_form", "k += 1"),
        ("loop_form", "n > k"),
        ("hoisted", "{ const auto at_ = i; y[at_] = part"),
        ("unrolled", "#pragma unroll 2\n    for"),
        ("reciprocal", "* (1.0f / 4.0f)"),
    ],
)
def test_honest_change_is_what_it_says(change: str, text: str) -> None:
    code = CODE.replace("i * n + k]", "(i * k) + n]") if change == "reordered" else CODE
    made = [
        one.side.code for one in results_of_change(replace(SIDE, code=code), harmless_changes.CHANGES, change)
    ]
    assert sum(text in one for one in made) >= 1


def test_a_pointer_of_a_declared_type_is_not_a_product() -> None:
    code = """typedef unsigned long long word;
    template <typename T> __global__ void k(word * states, T * other, int a, int b) { states[a * b] = 0; }"""
    side = replace(SIDE, code=code)
    assert [one.label for one in results_of_change(side, harmless_changes.CHANGES, "reordered")] == ["a * b"]
    assert [one.label for one in results_of_change(side, wrong.OPERATORS, "wrong_operator")] == ["a * b"]


def test_block_size_changes_only_if_nothing_depends_on_it() -> None:
    plain = Side(small.SCALE, (small.EACH,))
    assert {
        one.side.plan[0].block for one in results_of_change(plain, harmless_changes.CHANGES, "reblocked")
    } == {
        (64,),
        (256,),
    }
    assert not results_of_change(SIDE, harmless_changes.CHANGES, "reblocked")


def test_choice_follows_the_seed() -> None:
    assert in_turns(SIDE, wrong.OPERATORS, 20, 1) == in_turns(SIDE, wrong.OPERATORS, 20, 1)
    assert in_turns(SIDE, wrong.OPERATORS, 20, 1) != in_turns(SIDE, wrong.OPERATORS, 20, 2)
    assert len({one.change for one in in_turns(SIDE, wrong.OPERATORS, 20, 1)}) >= 9
    assert in_turns(SIDE, harmless_changes.CHANGES, 9, 1) == in_turns(SIDE, harmless_changes.CHANGES, 9, 1)
    assert len(in_turns(SIDE, wrong.OPERATORS, 10_000, 1)) < 10_000


def test_brackets_without_a_partner_do_not_stop_anything() -> None:
    code = Code.of("int a[3; ) { ( ]")
    assert all(code.inside(i) is not None for i in range(len(code.tokens)))
    for operator in wrong.OPERATORS.values():
        assert list(operator(replace(SIDE, code=code.text))) is not None


BLOCK_SUM = """
extern "C" __global__ void total(const float* x, float* s, int n) {
    __shared__ float part[128];
    float v = 0.0f;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) v += x[i];
    part[threadIdx.x] = v;
    __syncthreads();
    for (int d = 64; d > 0; d /= 2) {
        if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(s, part[0]);
}
"""


@pytest.mark.slow
def test_the_judge_refuses_mistakes_and_passes_honest_changes() -> None:
    atomics = small.honest()["atomics"]
    assert isinstance(atomics.problem, Problem)
    summed = replace(atomics, fast=replace(atomics.fast, code=BLOCK_SUM))
    told: list[bool] = []
    with contextlib.closing(Judge(JudgeConfig("emulator", spares=1))) as judge:
        for number, pair in enumerate((small.scaled(), summed)):
            for variant in in_turns(pair.fast, harmless_changes.CHANGES, 4, number):
                verdict = judge.judge(replace(pair, fast=variant.side))
                assert verdict.outcome is Outcome.CORRECT, (
                    variant.change,
                    variant.label,
                    verdict.detail,
                )
            for mutant in in_turns(pair.fast, wrong.OPERATORS, 14, number):
                verdict = judge.judge(replace(pair, fast=mutant.side))
                if verdict.outcome is not Outcome.COMPILE_ERROR:
                    told.append(not verdict.outcome.correct)
                    print(mutant.change, mutant.label, verdict.outcome)
    # A few mistakes change nothing here: half the steps of a loop that both halves of a block take.
    assert sum(told) >= 0.8 * len(told)
    assert len(told) > 12
