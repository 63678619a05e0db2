"""Tables of pointers on a device: `float**`, structs of pointers in constant memory, and clones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from kcurate import backends
from kcurate.backends.base import Compiled, Device, EntryPoint, Memory
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.judge.workers.inside.execute import DeviceProgram
from kcurate.problem.inputs.contents import generate
from kcurate.problem.program import bind
from kcurate.records import (
    Buffer,
    Candidate,
    Init,
    Launch,
    Origin,
    Outcome,
    Problem,
    Side,
    Sizes,
    Step,
    Tolerance,
    Upload,
)

# Pictures of different widths, reached through a table of pointers.
PICTURES = """
__global__ void brighten(float** pictures, const int* widths, float* sums, int rows) {
    float* picture = pictures[blockIdx.x];
    int width = widths[blockIdx.x];
    for (int i = threadIdx.x; i < rows * width; i += blockDim.x) picture[i] = 2.0f * picture[i] + 1.0f;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        for (int i = 0; i < rows * width; ++i) sum += picture[i];
        sums[blockIdx.x] = sum;
    }
}
"""
# A kernel without pointer parameters; its pointers are in constant memory.
POINTS = """
struct Point { const float* from; float* to; int number; int factor; };
__constant__ Point points[4];
__global__ void scale(int n) {
    const Point& point = points[blockIdx.x];
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        point.to[i] = point.from[i] * point.factor + point.number;
    }
}
"""
PICTURE_PROBLEM = Problem(
    Sizes(({"rows": 3, "count": 4}, {"rows": 5, "count": 2}), {"rows": 64, "count": 64}),
    {
        "pixels": Buffer("float32", ("count", "rows", 9), Init("uniform"), "inout", Tolerance(2)),
        "pictures": Buffer("uint64", ("count",), Init("addresses", {"fields": "pixels 9 * rows * i"})),
        "widths": Buffer("int32", ("count",), Init("integers", {"low": 1, "high": 10})),
        "sums": Buffer("float32", ("count",), role="out", tolerance=Tolerance("9 * rows")),
    },
)
PICTURE_PLAN = (Launch("brighten", ("count",), (32,), ("pictures", "widths", "sums", "rows")),)
POINT_FIELDS = "before i * n; after (3 - i) * n; = i + 4294967296 * (i + 2)"
POINT_PROBLEM = Problem(
    Sizes(({"n": 70}, {"n": 5}), {"n": 4096}),
    {
        "before": Buffer("float32", (4, "n"), Init("normal")),
        "after": Buffer("float32", (4, "n"), role="out", tolerance=Tolerance(2)),
        "table": Buffer("uint64", (4, 3), Init("addresses", {"fields": POINT_FIELDS})),
    },
)
POINT_PLAN = (Upload("points", "table"), Launch("scale", (4,), (64,), ("n",)))


def itself(problem: Problem, code: str, plan: tuple[Step, ...]) -> Candidate:
    side = Side(code, plan)
    return Candidate("trap", "trap", "trap", None, Origin("curated"), (), "", problem, side, side)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    one = Judge(JudgeConfig(backend="emulator"))
    yield one
    one.close()


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    one = backends.open_device("emulator")
    yield one
    one.close()


def prepared(
    device: Device, problem: Problem, code: str, plan: tuple[Step, ...], symbols: Sequence[str] = ()
) -> DeviceProgram:
    side, sizes = Side(code, plan), problem.sizes.test[0]
    program = bind(problem, side, sizes)
    entries = [EntryPoint(*entry) for entry in program.entry_points]
    made = backends.open_compiler("emulator").compile(code, entries, symbols)
    assert isinstance(made, Compiled), made.log
    one = DeviceProgram(device, device.load(made), program, generate(problem, side, sizes, 3))
    one.reset(1)
    return one


def test_a_kernel_that_takes_a_table_of_pointers_is_judged(judge: Judge) -> None:
    candidate = itself(PICTURE_PROBLEM, PICTURES, PICTURE_PLAN)
    assert judge.judge(candidate).outcome is Outcome.CORRECT
    wrong = replace(candidate, fast=Side(PICTURES.replace("+ 1.0f", "+ 1.5f"), PICTURE_PLAN))
    assert judge.judge(wrong).outcome is Outcome.MISMATCH


def test_a_kernel_without_parameters_is_judged(judge: Judge) -> None:
    candidate = itself(POINT_PROBLEM, POINTS, POINT_PLAN)
    verdict = judge.judge(candidate)
    assert verdict.outcome is Outcome.CORRECT, verdict.detail
    wrong = replace(candidate, fast=Side(POINTS.replace("+ point.number", ""), POINT_PLAN))
    assert judge.judge(wrong).outcome is Outcome.MISMATCH


def test_pointers_in_a_struct_lead_to_their_buffers(device: Device) -> None:
    one = prepared(device, POINT_PROBLEM, POINTS, POINT_PLAN, ["points"])
    one.run()
    before = generate(POINT_PROBLEM, None, {"n": 70}, 3)["before"]
    for number in range(4):
        expected = before[number] * (number + 2) + number
        assert np.allclose(one.outputs()["after"][3 - number], expected, rtol=1e-6)
    assert one.integrity() == ()
    one.close()


def test_pointers_lead_to_the_buffers_wherever_they_lie(device: Device) -> None:
    one = prepared(device, PICTURE_PROBLEM, PICTURES, PICTURE_PLAN)
    slab = device.allocate(1 << 16)

    def allocate(sizes: Sequence[int]) -> list[Memory]:
        starts = [256 * sum(-(-size // 256) for size in sizes[:at]) for at in range(len(sizes))]
        return [Memory(slab.address + start, size) for start, size in zip(starts, sizes, strict=True)]

    values = generate(PICTURE_PROBLEM, None, PICTURE_PROBLEM.sizes.test[0], 3)
    other = DeviceProgram(device, one.module, one.program, values, allocate=allocate)
    for each in (one, other):
        each.reset(2)
        each.run()
    assert np.array_equal(one.outputs()["pixels"], other.outputs()["pixels"])
    assert other.integrity() == ()
    one.close()
    other.close()  # frees nothing: the memory is not its own
    device.free(slab)
