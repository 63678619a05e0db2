"""What a rule cannot prove it leaves alone: golden kernels with one thing changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kcurate.core import store
from kcurate.deopt.rules import RULES, NotApplicable
from kcurate.records import Launch, Side

GOLDEN = Path(__file__).parent / "golden"
BY_NAME = {rule.name: rule for rule in RULES}


def refusal(name: str, side: Side) -> str:
    """Why a rule refuses a side of its golden problem."""
    made = BY_NAME[name].apply(side, store.read_candidate(GOLDEN / name).problem)
    assert isinstance(made, NotApplicable), made
    return made.reason


def given(name: str) -> Side:
    return store.read_candidate(GOLDEN / name).fast


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("tile-to-global", "= sum;", "= ((float *)a)[0] = ((float *)b)[0] = sum;", "may be written to"),
        ("tile-to-global", "base += TILE)", "base += tx)", "storing thread in another way"),
        ("padding", "x < TILE", "x <= TILE", "stay off the padding"),
        ("padding", "out[(col + x)", "out[(int)(long)tile + (col + x)", "stay off the padding"),
        ("tree-to-atomics", "= part[0]", "= part[1]", "used in other ways"),
        ("tree-to-atomics", "blockDim.x / 2", "blockDim.x / 4", "no tree"),
        ("tree-to-atomics", "float part", "half part", "no atomic operation for half"),
        ("tree-to-atomics", "tid < stride", "tid <= stride", "no tree"),
        ("private-to-global", "atomicAdd(&counts[b]", "atomicAdd(&counts[b + 1]", "another index"),
        ("private-to-global", "for (int i", "if (n < 3) return;\n    for (int i", "not every counter"),
        ("private-to-global", "x)\n        atomicAdd(&c", "9)\n        atomicAdd(&c", "not every counter"),
        ("private-to-global", "1);\n", "1), own[0] = 0;\n", "zeroed after counting"),
        ("tree-to-atomics", "for (int stride", "if (tid > 63) return;\n    for (int stride", "may exit"),
        ("private-to-global", "int own[BINS]", "float own[BINS]", "no private counters"),
        ("swap-axes", "if (row", "__syncwarp(); if (row", "form a warp"),
        ("swap-axes", "extern", "#define LANE threadIdx.x\nextern", "form a warp"),
        ("swap-axes", "threadIdx.y", "1", "both axes"),
        ("small-blocks", "sqrtf(", "threadIdx.x + sqrtf(", "other than in the global index"),
        ("small-blocks", "const int stride", "__syncthreads(); const int stride", "form a block"),
        ("part-warps", "sqrtf(", "threadIdx.x + sqrtf(", "other than in the global index"),
        ("strided-threads", "if (column", "if (threadIdx.x < 9 && column", "other than in the global"),
        ("strided-threads", "const int row", "__syncthreads(); const int row", "form a block"),
        ("vector-to-scalar", "float4 sum =", "__threadfence(); float4 sum =", "width of an access"),
        ("async-to-plain", " 16, inside", " sizeof(float4), inside", "size is not 4, 8 or 16"),
        ("shuffle-to-shared", "lane, 1)", "lane, 1, 16)", "parts of a warp"),
        ("shuffle-to-shared", "if (i < n)", 'asm volatile(""); if (i < n)', "assembly"),
        ("double-literals", "0.25f", "0.1f", ""),
        ("small-blocks", "const int stride", "const int tx = threadIdx.x; const int stride", "global index"),
        ("one-thread-blocks", "if (i < n)", "if (tx < 16 && i < n)", "other than in the global index"),
        ("one-thread-blocks", "tx = threadIdx.x;", "tx = threadIdx.x; tx += 0;", "global index"),
        ("one-thread-blocks", "i = bx", "int k = tx; i = bx", "global index"),
        ("one-thread-blocks", "#define T", "#define NEXT (tx + 1)\n#define T", "global index"),
        ("one-thread-blocks", "if (i < n)", "__syncthreads(); if (i < n)", "form a block"),
        ("contiguous-chunks", "float sum = 0.0f;", "__syncthreads(); float sum = 0.0f;", "form a block"),
        ("contiguous-chunks", "continue;", "return;", "an inner loop contains a return"),
        ("contiguous-chunks", "float sum = 0.0f;", "n -= 1; float sum = 0.0f;", "next one's would see"),
        ("contiguous-chunks", "float sum = 0.0f;", "static int s; float sum = 0.0f;", "next one's would see"),
        ("contiguous-chunks", "sum = 0.0f;", "sum = atomicExch(&y[0], 1.0f);", "wait for another"),
        ("contiguous-chunks", "return a * b", "return a * b * threadIdx.x", "it calls uses built-ins"),
        ("contiguous-chunks", "float sum = 0.0f;", "float sum = __shfl_sync(~0u, 0.0f, 1);", "form a block"),
        ("chunks-between-barriers", "i = first + tx", "i = first + (int)x[tx]", "crosses"),
        ("chunks-between-barriers", "sum = row[tx];", "if (tx > 3) sum = row[tx];", "crosses a barrier"),
        ("chunks-between-barriers", "if (tx == 0)\n", "if (sum > 0.0f)\n", "crosses a barrier"),
        ("chunks-between-barriers", "k < rounds", "k < rounds + tx", "per-thread values or memory"),
        ("chunks-between-barriers", "k < rounds", "k < rounds + (int)row[0]", "per-thread values or memory"),
        ("chunks-between-barriers", "if (tx == 0)\n", "if (k > 5) break; if (tx == 0)\n", "may end early"),
        ("chunks-between-barriers", "row[0] += 1.0f;", "k += 1;", "computed in between"),
        ("chunks-between-barriers", "sum = row", "__threadfence(); sum = row", "by more than barriers"),
        ("chunks-between-barriers", "if (tx == 0)\n", "if (tx > 300) return; if (tx == 0)\n", "or goto"),
    ],
)  # fmt: skip
def test_refuses_what_it_cannot_prove(name: str, old: str, new: str, reason: str) -> None:
    side = given(name)
    assert old in side.code
    if name == "double-literals":
        made = BY_NAME[name].apply(replace(side, code=side.code.replace(old, new)))
        assert isinstance(made, Side)
        assert "0.1 " not in made.code
        return
    assert reason in refusal(name, replace(side, code=side.code.replace(old, new)))


def test_launch_bounds_stay_where_a_block_may_not_fit_without() -> None:
    side = given("launch-bounds")
    (launch,) = side.plan
    assert isinstance(launch, Launch)
    assert "256 threads may not fit" in refusal(
        "launch-bounds", replace(side, plan=(replace(launch, block=(512,)),))
    )
    assert "256 threads may not fit" in refusal(
        "launch-bounds", replace(side, plan=(replace(launch, block=("n",)),))
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("left[ty][k]", "left[ty][k + 1]"),
        ("? a[row", "? sum + a[row"),
        ("sum += left", "left[ty][tx] += 1.0f; sum += left"),
        ("sum += left", "sum += left[ty][0] + left"),
        ("float sum = 0.0f;", "float sum = ((float *)a)[0]++;"),
    ],
)
def test_a_tile_stays_while_another_goes(old: str, new: str) -> None:
    side = given("tile-to-global")
    made = BY_NAME["tile-to-global"].apply(replace(side, code=side.code.replace(old, new)))
    assert isinstance(made, Side)
    assert "__shared__ float right" not in made.code
    stays = new != "sum += left[ty][0] + left"  # an element that is known to be stored
    assert ("__shared__ float left" in made.code) == stays
    assert ("__syncthreads();" in made.code) == stays


def test_a_tile_stays_when_its_source_is_also_written_to() -> None:
    """`const` on a pointer does not keep another argument from naming the same buffer; the plan shows it."""
    side = given("tile-to-global")
    (launch,) = side.plan
    assert isinstance(launch, Launch)
    same = replace(launch, args=("a", "b", "a", *launch.args[3:]))
    made = BY_NAME["tile-to-global"].apply(replace(side, plan=(same,)))
    assert isinstance(made, Side)
    assert "__shared__ float left" in made.code


def test_a_constant_that_nothing_sets_stays() -> None:
    side = given("constant-to-global")
    code = side.code.replace("int signs", "int also = 1, spare;\n__constant__ int signs")
    made = BY_NAME["constant-to-global"].apply(replace(side, code=code))
    assert isinstance(made, Side)
    assert "__constant__ int also = 1, spare;" in made.code
    assert "__device__ float taps" in made.code
    assert "__device__ const int signs" in made.code
    unset = side.code.replace("int signs[2] = {1, -1}", "int signs[2]")
    assert "plan or the code sets" in refusal("constant-to-global", replace(side, code=unset, plan=()))


def test_a_guard_takes_the_place_of_what_was_never_stored() -> None:
    code = """\
__global__ void work(const float *x, float *y, int n)
{
    __shared__ float tile[128];
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n)
        tile[threadIdx.x] = x[i];
    __syncthreads();
    y[i] = tile[127 - threadIdx.x];
}
"""
    side = Side(code, (Launch("work", ("ceil_div(n, 128)",), (128,), ("x", "y", "n")),))
    made = BY_NAME["tile-to-global"].apply(side)
    assert isinstance(made, Side)
    place = "(int)(blockIdx.x * 128 + (unsigned)(127 - threadIdx.x))"
    assert f"y[i] = ({place} < n ? x[{place}] : 0.0f);" in made.code
    assert "__sync" not in made.code


def test_floating_point_sums_by_atomics_need_to_know_the_outputs() -> None:
    made = BY_NAME["tree-to-atomics"].apply(given("tree-to-atomics"))
    assert isinstance(made, NotApplicable)
    assert "outputs are unknown" in made.reason
