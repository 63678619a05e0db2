"""Mistakes that do not compile or do not fit the plan."""

from __future__ import annotations

import pytest
from small import scaled

from kcurate.mutate.broken import ATTEMPTS
from kcurate.mutate.choosing import results_of_change
from kcurate.mutate.wrong import OPERATORS

CODE = """
extern "C" __global__ void scale(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = __fmul_rn(a, 2.0f);
    for (int k = 0; k < 2; k++) v += x[k];
    if (i < n) y[i] = v * x[i];
}
"""


@pytest.mark.parametrize(
    ("change", "gone", "there"),
    [
        ("lost_declaration", "int i = blockIdx", "y[i]"),
        ("misspelt_call", "__fmul_rn(", "fmul_rn("),
        ("lost_semicolon", "v += x[k];", "v += x[k]"),
        ("endless_loop", "k++", "for (int k = 0; k < 2;)"),
    ],
)
def test_changes_of_the_text(change: str, gone: str, there: str) -> None:
    base = scaled().fast
    sides = [one.side.code for one in results_of_change(type(base)(CODE, base.plan), ATTEMPTS, change)]
    assert any(there in code and (not gone or gone not in code) for code in sides), sides


@pytest.mark.parametrize("change", ["missing_argument", "unknown_kernel", "half_the_grid"])
def test_changes_of_the_plan(change: str) -> None:
    base = scaled().fast
    (made,) = results_of_change(base, ATTEMPTS, change)
    assert made.side.code == base.code and made.side.plan != base.plan


def test_they_are_attempts_beside_the_mistakes() -> None:
    assert OPERATORS.keys() < ATTEMPTS.keys() and len(ATTEMPTS) == len(OPERATORS) + 7
