"""Admission asks for more: test sizes that show every axis, and the stricter of two problems."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from draft.test_captured_stage import drafted, workspace
from draft.test_recorded import At, captured, i32, launch, reals

from kcurate.draft.trying.admit import stricter, with_closed_gaps
from kcurate.problem.size_gaps import advice
from kcurate.records import Buffer, Contents, Init, KnownProblem, Launch, Problem, Side, Sizes

# A block of 2048 elements: two sizes of a thousand are one block each.
WIDE = """
__global__ void shift(const float *x, float *y, int n) {
  for (int k = 0; k < 8; k++) {
    int i = blockIdx.x * 2048 + k * 256 + threadIdx.x;
    if (i < n) y[i] = x[i] + 1.0f;
  }
}
void run(const float *x, float *y, int n) { shift<<<(n + 2047) / 2048, 256>>>(x, y, n); }
"""


def known_of(root: Path) -> KnownProblem:
    _, known, _ = drafted(root)
    assert known is not None
    return known


def gaps(known: KnownProblem, code: str) -> str | None:
    (side,) = known.sides.values()
    return advice(known.problem, {"kernel": side.side(code)})


def test_a_drafted_problem_has_two_blocks_and_a_ragged_end(tmp_path: Path) -> None:
    known = known_of(workspace(tmp_path, WIDE, []))
    assert gaps(known, WIDE) is None
    assert any(setting["n"] > 2048 and setting["n"] % 2048 for setting in known.problem.sizes.test)


def test_settings_at_which_a_kernel_is_wrong_are_left_out_one_by_one() -> None:
    table = Buffer("float32", ("rows", "n"), Init("normal"))
    problem = Problem(
        Sizes(({"rows": 5, "n": 7}, {"rows": 9, "n": 3}), {"rows": 512, "n": 512}), {"x": table}
    )
    sides = {
        "kernel": Side(
            "", (Launch("f", ("ceil_div(rows, 64)", "ceil_div(n, 64)"), (64,), ("x", "rows", "n")),)
        )
    }
    asked: list[Problem] = []

    def works(tried: Problem) -> bool:
        asked.append(tried)
        return all(setting["rows"] <= 64 for setting in tried.sizes.test)

    kept = with_closed_gaps(problem, sides, works)
    assert len(asked) == 3 and len(kept.sizes.test) == 3
    assert max(setting["n"] for setting in kept.sizes.test) == 65
    assert "ceil_div(rows, 64)" in str(advice(kept, sides))


def test_a_problem_is_stricter_if_it_varies_more_and_nothing_less() -> None:
    x, y = (
        Buffer("float32", ("n",), Init("uniform", {"low": 0, "high": 1})),
        Buffer("float32", ("n",), role="out"),
    )
    zeros = replace(x, init=Init("zeros"))
    sizes = Sizes(({"n": 3}, {"n": 5}), {"n": 9})
    varied, constant = Problem(sizes, {"x": x, "y": y}), Problem(sizes, {"x": zeros, "y": y})
    assert stricter(varied, constant) and not stricter(constant, varied) and not stricter(varied, varied)
    fixed = replace(varied, sizes=Sizes(({"n": 3},), {"n": 9}))
    assert stricter(varied, fixed) and not stricter(fixed, constant) and not stricter(constant, fixed)


SUM = """
__global__ void add(const float *a, const float *b, float *c, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
int main() {
  float *a, *b, *c;
  int n = 5000;
  cudaMalloc(&a, n * sizeof(float)); cudaMalloc(&b, n * sizeof(float)); cudaMalloc(&c, n * sizeof(float));
  add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
"""


def test_an_input_that_was_recorded_as_zeros_does_not_beat_one_that_varies(tmp_path: Path) -> None:
    arrays = {"a": reals(5000), "b": np.zeros(5000, np.float32), "c": reals(5000)}
    made = launch([20], [256], (At("a"), At("b"), At("c"), i32(5000)), arrays, ["c"])
    root = workspace(tmp_path, SUM, [captured("add", made)])
    summary, known, _ = drafted(root)
    assert summary.items["admitted"] == {"recorded": 1}  # but for the zeros
    assert known is not None
    assert known.problem.buffers["b"].init == Init("uniform", {"low": -1, "high": 1})


def test_a_record_counts_where_the_text_is_no_stricter(tmp_path: Path) -> None:
    arrays = {"a": reals(5000), "b": reals(5000), "c": reals(5000)}
    made = launch([20], [256], (At("a"), At("b"), At("c"), i32(5000)), arrays, ["c"])
    unseen = replace(
        made, buffers=(replace(made.buffers[0], before=Contents("float32", 5000)), *made.buffers[1:])
    )
    root = workspace(tmp_path, SUM, [captured("add", unseen)])
    summary, known, _ = drafted(root)
    assert summary.items["admitted"] == {"recorded": 1}
    assert known is not None
