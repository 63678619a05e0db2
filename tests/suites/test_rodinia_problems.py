"""The problems of Rodinia's kernels: each binds and can be filled at every size; traps on kernels of our own.

The suite's own code is not here: `tests/suites/admission.py` judges every kernel of a user's copy.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Literal

import pytest

from kcurate.core import resources, store
from kcurate.deopt.rules import RULES
from kcurate.judge.checks.global_state import static_variables
from kcurate.judge.checks.lexer import Source
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.problem import program
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.problem.inputs import contents
from kcurate.records import (
    Buffer,
    Candidate,
    Init,
    KnownProblem,
    Launch,
    Origin,
    Outcome,
    Problem,
    Side,
    Sizes,
    Tolerance,
)
from kcurate.suites import load_manifests
from kcurate.suites.problems import find_problem, launched

FILES = sorted((resources.sources_dir() / "problems" / "rodinia").glob("*.json"))
# What a problem may take of a GPU's memory, both sides and copies of the outputs included.
BENCH_BYTES = 8 << 30
TEST_BYTES = 64 << 20


def known(name: str) -> KnownProblem:
    return store.read_json(resources.sources_dir() / "problems" / "rodinia" / f"{name}.json", KnownProblem)


NAMES = [path.stem for path in FILES]


def size_bytes(problem: Problem, which: str) -> list[int]:
    settings = problem.sizes.test if which == "test" else (problem.sizes.headline,)
    return [
        sum(
            math.prod(evaluate(extent, sizes) for extent in buffer.shape) * numpy_dtype(buffer.dtype).itemsize
            for buffer in problem.buffers.values()
        )
        for sizes in settings
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_problem_belongs_to_a_benchmark_and_launches_something(name: str) -> None:
    one = known(name)
    assert name.startswith(one.benchmark)
    assert one.suite == "rodinia" and one.benchmark in load_manifests()["rodinia"].benchmarks
    assert set(one.sides) == {""}, "Rodinia has one variant, without a name"
    assert list(launched(one.sides[""].plan))
    assert any(buffer.role in ("out", "inout") for buffer in one.problem.buffers.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_binds_at_every_size_and_the_buffers_can_be_filled(name: str) -> None:
    one = known(name)
    side = one.sides[""].side("")
    for sizes in (*one.problem.sizes.test, one.problem.sizes.headline):
        assert program.bind(one.problem, side, sizes).ops
    for sizes in one.problem.sizes.test:
        values = contents.generate(one.problem, side, sizes, 7)
        for variation in contents.VARIATIONS[1:]:
            assert contents.generate(one.problem, side, sizes, 7, variation).keys() == values.keys()
    assert max(size_bytes(one.problem, "test")) < TEST_BYTES
    assert max(size_bytes(one.problem, "bench")) < BENCH_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_gives_other_inputs(name: str) -> None:
    one = known(name)
    sizes = one.problem.sizes.test[0]
    first, second = (contents.generate(one.problem, None, sizes, seed) for seed in (1, 2))
    assert any(first[each].tobytes() != second[each].tobytes() for each in first)


def test_kernels_of_one_name_are_told_apart_by_file() -> None:
    double = known("cfd-flux-double")
    assert double.covers("cuda/cfd/euler3d_double.cu") and double.covers(None)
    assert not double.covers("cuda/cfd/pre_euler3d_double.cu")
    assert not double.covers("cuda/cfd/euler3d.cu")
    assert dataclasses.replace(double, paths=()).covers("cuda/cfd/euler3d.cu")


def test_a_kernel_in_a_namespace_is_found_by_its_own_name() -> None:
    code = "namespace dwt_cuda { template <int X, int Y> __global__ void fdwt97Kernel(const float* in) {} }"
    found = find_problem("rodinia", "dwt2d", {"": code}, "cuda/dwt2d/dwt_cuda/fdwt97.cu")
    assert found == known("dwt2d-fdwt97")
    assert find_problem("rodinia", "dwt2d", {"": code.replace("fdwt97Kernel", "other")}) is None


SPACED = """
namespace waves {
template <typename T> __global__ void lift(const T* in, T* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * T(2) + T(1);
}
}
template __global__ decltype(waves::lift<float>) waves::lift<float>;
template __global__ decltype(waves::lift<double>) waves::lift<double>;
"""
COUNT = """
__global__ void count(const int* in, unsigned* counts, int n) {
    volatile __shared__ unsigned table[16];
    if (threadIdx.x < 16) table[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        unsigned bin = in[i] & 15, next;
        ADD;
    }
    __syncthreads();
    if (threadIdx.x < 16) counts[threadIdx.x] = table[threadIdx.x] & 0x7ffffff;
}
"""
ATOMIC = COUNT.replace("ADD", "next = atomicAdd((unsigned*)&table[bin], 1u)")
# Each thread of a warp tags what it writes, and tries again where another one's tag stands.
TAGGED = COUNT.replace(
    "ADD",
    """do {
            next = ((table[bin] & 0x7ffffff) + 1) | (threadIdx.x << 27);
            table[bin] = next;
        } while (table[bin] != next)""",
)


def itself(problem: Problem, side: Side) -> Candidate:
    return Candidate("trap", "trap", "trap", None, Origin("curated"), (), "", problem, side, side)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    one = Judge(JudgeConfig(backend="emulator"))
    yield one
    one.close()


def test_a_kernel_template_in_a_namespace_is_launched_by_its_whole_name(judge: Judge) -> None:
    problem = Problem(
        Sizes(({"n": 100}, {"n": 257}), {"n": 4096}),
        {"x": Buffer("float64", ("n",), Init("normal")), "y": Buffer("float64", ("n",), role="out")},
    )
    launch = Launch("waves::lift", ("ceil_div(n, 128)",), (128,), ("x", "y", "n"), template=("double",))
    verdict = judge.judge(itself(problem, Side(SPACED, (launch,))))
    assert verdict.outcome is Outcome.CORRECT, verdict.detail
    unqualified = dataclasses.replace(launch, launch="lift")
    assert judge.judge(itself(problem, Side(SPACED, (unqualified,)))).outcome is Outcome.MALFORMED


def test_a_rule_finds_the_launches_of_a_kernel_in_a_namespace() -> None:
    (small_blocks,) = (rule for rule in RULES if rule.name == "small-blocks")
    launch = Launch("waves::lift", ("ceil_div(n, 128)",), (128,), ("x", "y", "n"), template=("double",))
    made = small_blocks.apply(Side(SPACED, (launch,)), known("nn").problem)
    assert isinstance(made, Side) and isinstance(made.plan[0], Launch)
    assert made.plan[0].block == (32,) and made.plan[0].launch == "waves::lift"


def test_an_instantiation_is_not_a_variable_but_a_variable_template_is() -> None:
    assert not static_variables(Source(SPACED).plain)
    kept = "template <class T> __device__ T kept; template __device__ int kept<int>;"
    assert "kept" in {variable.name for variable in static_variables(Source(kept).plain)}


def test_counting_in_lock_step_depends_on_the_order_of_threads(judge: Judge) -> None:
    """It relied on GPUs whose warps ran in lock step (until 2017); other orders lose counts."""
    problem = Problem(
        Sizes(({"n": 1000}, {"n": 33}), {"n": 4096}),
        {
            "x": Buffer("int32", ("n",), Init("integers", {"high": 16})),
            "counts": Buffer("uint32", (16,), role="out"),
        },
    )
    plan = (Launch("count", (1,), (32,), ("x", "counts", "n")),)
    candidate = dataclasses.replace(itself(problem, Side(TAGGED, plan)), slow=Side(ATOMIC, plan))
    verdict = judge.judge(candidate)
    assert (verdict.outcome, verdict.side) == (Outcome.NONDETERMINISTIC, "fast"), verdict.detail
    assert "depends on the order of threads" in verdict.detail


# Blocks take places in the order in which they come: the set of answers is always the same, its order is not.
TAKEN = """
__global__ void take(const int* in, int* out, unsigned* taken, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[atomicAdd(taken, 1u)] = in[i] * 3;
}
"""


@pytest.mark.parametrize(
    ("order", "outcome"), [("any", Outcome.CORRECT), ("exact", Outcome.NONDETERMINISTIC)]
)
def test_set_outputs_may_differ_in_order(
    judge: Judge, order: Literal["any", "exact"], outcome: Outcome
) -> None:
    problem = Problem(
        Sizes(({"n": 1000}, {"n": 257}), {"n": 4096}),
        {
            "x": Buffer("int32", ("n",), Init("integers", {"high": 1000000})),
            "y": Buffer("int32", ("n",), role="out", tolerance=Tolerance(order=order)),
            "taken": Buffer("uint32", (1,), role="inout"),
        },
    )
    launch = Launch("take", ("ceil_div(n, 64)",), (64,), ("x", "y", "taken", "n"))
    verdict = judge.judge(itself(problem, Side(TAKEN, (launch,))))
    assert verdict.outcome is outcome, verdict.detail
