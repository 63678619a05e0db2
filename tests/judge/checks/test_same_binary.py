"""Two sides are the same if they launch the same machine code in the same way, whatever their texts say."""

from __future__ import annotations

from dataclasses import replace

import pytest
import small

from kcurate.backends.base import Compiled, EntryPoint
from kcurate.judge.checks import binary
from kcurate.records import Buffer, Launch, Side, WhileNonzero, steps
from kcurate.records.pair import SideName

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")

from kcurate.backends.cuda.compiler import CudaCompiler

SCALE = Side(small.SCALE, (small.EACH,))
TEMPLATE = """
template <int EACH> __global__ void times(const float* from, float* to, float by, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) to[at] = by * from[at];
}
"""
TIMES = replace(small.EACH, launch="times", template=("3",))


def compiled(side: Side, backend: str) -> Compiled:
    entries = [
        EntryPoint(step.launch, step.template) for step in steps(side.plan) if isinstance(step, Launch)
    ]
    made = CudaCompiler().compile(side.code, entries)
    assert isinstance(made, Compiled), made
    return replace(made, backend=backend)


def same(slow: Side, fast: Side = SCALE, backend: str = "cuda") -> bool:
    both: dict[SideName, Compiled] = {"slow": compiled(slow, backend), "fast": compiled(fast, backend)}
    what = small.problem(more=Buffer("int32", (1,), role="scratch"))
    return binary.same(small.candidate("same", what, slow, fast), both)


def test_names_comments_and_unused_kernels_make_no_difference() -> None:
    unused = 'extern "C" __global__ void unused(float *x) { x[0] = 1; }\n'
    assert same(Side("// another text" + TEMPLATE + unused, (TIMES,)))


@pytest.mark.parametrize(
    "slow",
    [
        Side(TEMPLATE.replace("by * from", "by + from"), (TIMES,)),
        Side(TEMPLATE, (replace(TIMES, block=(64,)),)),
        Side(TEMPLATE, (TIMES, TIMES)),
        Side(TEMPLATE + "__device__ float kept[4] = {1};\n", (TIMES,)),
    ],
    ids=["other code", "other blocks", "launched twice", "a variable"],
)
def test_other_code_launches_or_variables_make_a_difference(slow: Side) -> None:
    assert not same(slow)


def test_kernels_launched_in_a_loop_are_compared_by_code_too() -> None:
    def looped(code: str, launch: Launch) -> Side:
        return Side(code, (WhileNonzero("more", 4, (launch,)),))

    assert same(looped(TEMPLATE, TIMES), looped(small.SCALE, small.EACH))
    assert not same(looped(TEMPLATE.replace("by *", "by +"), TIMES), looped(small.SCALE, small.EACH))


def test_only_machine_code_of_a_gpu_can_be_the_same() -> None:
    assert not same(SCALE, SCALE, backend="emulator")
