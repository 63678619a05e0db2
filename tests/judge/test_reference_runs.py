"""Long sums are compared with the reference in wider accumulation, where that computes the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
import small
from timed_rig import TimedJudge

from kcurate.backends.base import CompileFailure
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.judge.reference_runs import WIDE_TERMS, accumulated, with_wider_accumulators
from kcurate.judge.workers.compiling import CompileWorkers
from kcurate.judge.workers.requests import CloseAnswer, Compile
from kcurate.records import Buffer, Candidate, Init, Launch, Outcome, Problem, Side, Sizes, Tolerance

CHAIN = """
extern "C" __global__ void total(const float* x, const float* w, float* y, int n) {
    float s = 0.0f;
    for (int i = 0; i < n; i++) s += x[i];
    *y = s * *w;
}
"""
TREE = """
extern "C" __global__ void total(const float* x, const float* w, float* y, int n) {
    __shared__ float part[256];
    float s = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) s += x[i];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) *y = part[0] * *w;
}
"""
# As a split-K product does it: every part waits for its turn to add, so the order is fixed.
SEMAPHORE = """
extern "C" __global__ void total(const float* x, const float* w, float* y, int n) {
    __shared__ float parts[256];
    __shared__ int turn;
    if (threadIdx.x == 0) turn = 0;
    __syncthreads();
    float s = 0.0f;
    int rows = (n + 255) / 256, begin = threadIdx.x * rows, end = min(n, begin + rows);
    for (int i = begin; i < end; i++) s += x[i];
    parts[threadIdx.x] = s;
    __syncthreads();
    for (int t = 0; t < 256; t++) {
        if (t == (int)threadIdx.x && turn == t) {
            *y = (t ? *y : 0.0f) + parts[t] * *w;
            turn = t + 1;
        }
        __syncthreads();
    }
}
"""
# A side that looks at the bits of its sum: with wider accumulation it computes something else.
BITS = CHAIN.replace("* *w", "* *w * (sizeof(s) == 4 ? 1.0f : 2.0f)")
UNIFORM = Init("uniform")


def sums(slow: str = CHAIN, fast: str = TREE, n: int = 1 << 20, x: Init = UNIFORM) -> Candidate:
    """One sum of at most n terms, times w, by one thread and by one block."""
    problem = Problem(
        Sizes(({"n": 500}, {"n": n}), {"n": n}),
        {
            "x": Buffer("float32", ("n",), x),
            "w": Buffer("float32", (1,), Init("uniform", {"low": 1, "high": 2})),
            "y": Buffer("float32", (1,), role="out", tolerance=Tolerance(terms="n")),
        },
    )
    one, block = (Launch("total", (1,), (threads,), ("x", "w", "y", "n")) for threads in (1, 256))
    return small.candidate("sums", problem, Side(slow, (one,)), Side(fast, (block,)))


@pytest.fixture(scope="module")
def one() -> Iterator[Judge]:
    with contextlib.closing(Judge(JudgeConfig("emulator", spares=1))) as made:
        yield made


def test_a_more_accurate_side_passes_beside_an_inaccurate_reference(one: Judge) -> None:
    """All terms are 0.7: adding them in one chain is off by 1% in the end, by 1e-7 in a tree."""
    candidate = sums(x=Init("constant", {"value": 0.7}))
    verdict = one.judge(candidate)
    assert verdict.outcome is Outcome.CORRECT, verdict.detail
    assert "wide_reference" in verdict.checks


def test_without_the_wider_reference_it_would_not(one: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcurate.judge.reference_runs.wider_accumulation", lambda _: None)
    verdict = one.judge(sums(x=Init("constant", {"value": 0.7})))
    assert verdict.outcome is Outcome.MISMATCH
    assert "wide_reference" not in verdict.checks


def test_a_side_with_the_bits_of_an_inaccurate_reference_passes(one: Judge) -> None:
    """The rounding is the reference's own: only a side that rounds as much in another way is refused."""
    terms = Init("constant", {"value": 0.7})
    verdict = one.judge(sums(fast=CHAIN.replace("s += x[i]", "s = s + x[i]"), x=terms))
    assert verdict.outcome is Outcome.CORRECT, verdict.detail
    scaled = CHAIN.replace("s += x[i]", "s += 1.5f * x[i]").replace("= s *", "= s / 1.5f *")
    verdict = one.judge(sums(fast=scaled, x=terms))
    assert verdict.outcome is Outcome.MISMATCH


def test_a_wider_text_that_computes_something_else_is_not_used(one: Judge) -> None:
    verdict = one.judge(sums(slow=BITS, n=5000))
    assert verdict.outcome is Outcome.CORRECT, verdict.detail
    assert "wide_reference" not in verdict.checks


def test_a_wider_text_that_does_not_compile_is_not_used(one: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_all = CompileWorkers.compile

    def compile_(workers: CompileWorkers, requests: Sequence[Compile]) -> object:
        if any("double" in request.code for request in requests):
            return [CompileFailure("error", "no")]
        return compile_all(workers, requests)

    monkeypatch.setattr(CompileWorkers, "compile", compile_)
    verdict = one.judge(sums(n=5000))
    assert verdict.outcome is Outcome.CORRECT, verdict.detail
    assert "wide_reference" not in verdict.checks


def test_a_wider_text_that_fails_is_not_used(one: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    def wild(code: bytes) -> bytes:
        return code.replace(b"*y = s", b"double z; y[1LL << 45] = s")

    monkeypatch.setattr("kcurate.judge.reference_runs.wider_accumulation", wild)
    verdict = one.judge(sums(n=5000))
    assert verdict.outcome is Outcome.CORRECT, verdict.detail
    assert "wide_reference" not in verdict.checks
    assert one.judge(small.scaled()).outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    "wrong",
    [
        TREE.replace("i += 256) s += x[i];", "i += 256) s += n > 1000 ? (i % 100 ? x[i] : 0.0f) : x[i];"),
        TREE.replace("s += x[i];", "s += __uint_as_float(__float_as_uint(x[i]) & 0xffff0000u);"),
        TREE.replace("* *w", "* *w * (n > 1000 ? 1.001f : 1.0f)"),
    ],
)
def test_wrong_sums_are_refused_beside_an_inaccurate_reference(one: Judge, wrong: str) -> None:
    assert one.judge(sums(fast=wrong)).outcome is Outcome.MISMATCH


def test_only_long_sums_in_float_are_worth_a_run() -> None:
    problem = sums().problem
    assert problem is not None
    assert accumulated(problem, {"n": WIDE_TERMS}) == ("y",)
    assert accumulated(problem, {"n": WIDE_TERMS - 1}) == ()
    for other in (
        Buffer("float16", (1,), role="out", tolerance=Tolerance(terms="n")),
        Buffer("float32", (1,), role="out", tolerance=Tolerance(terms="n", relative=0.01)),
        Buffer("float32", (1,), role="out", tolerance=Tolerance(terms="n", accumulate="float64")),
        Buffer("float32", (1,), role="out"),
    ):
        changed = replace(problem, buffers={**problem.buffers, "y": other})
        assert accumulated(changed, {"n": 1 << 20}) == ()


def test_the_bench_size_counts_only_where_it_is_run() -> None:
    candidate = sums(n=1 << 20)
    assert candidate.problem is not None
    short = replace(candidate.problem, sizes=Sizes(({"n": 500},), {"n": 1 << 20}))
    candidate = replace(candidate, problem=short)
    assert with_wider_accumulators(candidate, "slow", timed=False) is None
    assert with_wider_accumulators(candidate, "slow", timed=True) is not None


def at_bench(fast: str = TREE, n: int = 1 << 17, x: Init = UNIFORM) -> Candidate:
    """The bench size is the one long sum."""
    candidate = sums(fast=fast, n=600, x=x)
    assert candidate.problem is not None
    longer = replace(candidate.problem, sizes=Sizes(candidate.problem.sizes.test, {"n": n}))
    return replace(candidate, problem=longer)


@pytest.fixture
def rig() -> Iterator[TimedJudge]:
    with contextlib.closing(TimedJudge()) as made:
        made.us = {"slow": 120.0, "fast": 60.0}
        yield made


def test_the_bench_size_runs_structured_spoiled_and_wider(rig: TimedJudge) -> None:
    verdict = rig.judge(at_bench())
    assert verdict.outcome is Outcome.CONFIRMED, (verdict.detail, verdict.log)
    assert {"bench_structured", "spoiled_inputs", "wide_reference", "timed_outputs"} <= set(verdict.checks)
    again = rig.judge(at_bench(TREE + "// another\n"))
    assert again.outcome is Outcome.CONFIRMED, again.detail


def test_at_the_bench_size_too_a_more_accurate_side_passes_beside_an_inaccurate_reference(
    rig: TimedJudge,
) -> None:
    """Parts that the driver copies are held against the outputs that the side was compared with: the plain
    reference is off by 1% here, five times what the side may be off by.
    """
    terms = Init("constant", {"value": 0.7})
    verdict = rig.judge(at_bench(SEMAPHORE, n=1 << 20, x=terms))
    assert verdict.outcome is Outcome.CONFIRMED, verdict.detail
    assert {"bench_structured", "wide_reference"} <= set(verdict.checks)


def test_a_part_that_the_driver_copied_is_held_against_the_wider_reference(
    rig: TimedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If our kernels are made to say that the outputs agree, what the driver copied says otherwise."""
    monkeypatch.setattr(CloseAnswer, "within", lambda *_: True)
    wrong = SEMAPHORE.replace("* *w", "* *w * (n > 1000 ? 1.01f : 1.0f)")
    verdict = rig.judge(at_bench(wrong, n=1 << 20, x=Init("constant", {"value": 0.7})))
    assert verdict.outcome is Outcome.MISMATCH, verdict.detail
    assert "not what was compared" in verdict.detail


@pytest.mark.parametrize(
    "wrong",
    [
        "n > 1000 ? __uint_as_float((__float_as_uint(x[i]) + 0x1000u) & 0xffffe000u) : x[i]",
        "n > 1000 ? (i % 4 ? 0.0f : 4.0f * x[i]) : x[i]",
    ],
)
def test_what_is_wrong_at_the_bench_size_alone_is_refused_there(rig: TimedJudge, wrong: str) -> None:
    verdict = rig.judge(at_bench(TREE.replace("s += x[i];", f"s += {wrong};")))
    assert verdict.outcome is Outcome.MISMATCH
    assert "structured inputs" in verdict.detail
    assert rig.judge(at_bench()).outcome is Outcome.CONFIRMED


def test_a_problem_that_is_too_weak_at_the_bench_size_is_refused(rig: TimedJudge) -> None:
    candidate = at_bench()
    assert candidate.problem is not None
    loose = Buffer(
        "float32",
        (1,),
        role="out",
        tolerance=Tolerance(terms="max(n, (n - 100000) * n * n)", accumulate="float16"),
    )
    problem = replace(candidate.problem, buffers={**candidate.problem.buffers, "y": loose})
    verdict = rig.judge(replace(candidate, problem=problem))
    assert verdict.outcome is Outcome.MALFORMED, verdict.detail
    assert "inputs rounded to the next narrower type: its tolerance accepts them (n=131072" in verdict.detail
