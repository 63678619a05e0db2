"""Sides with inline PTX from text to verdict on the emulator: run, or unsupported with a name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import pytest
import small

from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.records import Outcome, Verdict


@pytest.fixture(scope="module")
def one() -> Iterator[Judge]:
    with contextlib.closing(Judge(JudgeConfig("emulator", spares=1))) as made:
        yield made


def judged(one: Judge, code: str) -> Verdict:
    candidate = small.scaled()
    return one.judge(replace(candidate, fast=replace(candidate.fast, code=code)))


def test_a_side_with_inline_ptx_is_judged(one: Judge) -> None:
    given = small.scaled().fast.code
    assert "y[i] = a * x[i];" in given
    asm = 'asm volatile("mul.f32 %0, %1, %2;" : "=f"(y[i]) : "f"(a), "f"(x[i]));'
    assert judged(one, given.replace("y[i] = a * x[i];", asm)).outcome is Outcome.CORRECT
    wrong = asm.replace("mul.f32", "add.f32")
    assert judged(one, given.replace("y[i] = a * x[i];", wrong)).outcome is Outcome.MISMATCH


@pytest.mark.parametrize(
    ("head", "statement", "named"),
    [
        ("", 'asm volatile("discard.global.L2 [%0], 128;" :: "l"(x));', "discard.global.L2"),
        (
            "#include <cub/block/block_shuffle.cuh>\n",
            "cub::BlockShuffle<int, 32> shuffle;",
            "cub/block/block_shuffle.cuh",
        ),
        (
            "#include <cuda/ptx>\n",
            "cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release);",
            "cuda/ptx",
        ),
    ],
)
def test_what_the_emulator_lacks_is_unsupported_by_name(
    one: Judge, head: str, statement: str, named: str
) -> None:
    given = small.scaled().fast.code
    verdict = judged(one, head + given.replace("{", "{" + statement, 1))
    assert verdict.outcome is Outcome.UNSUPPORTED, (verdict.detail, verdict.log)
    assert named in verdict.detail + (verdict.log or "")
