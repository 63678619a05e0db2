"""What rules prove of indices and of threads, and where the proof ends: small kernels of our own."""

from __future__ import annotations

import pytest

from kcurate.deopt.rules import RULES, NotApplicable
from kcurate.records import Launch, Side

BY_NAME = {rule.name: rule for rule in RULES}


def tile(read: str, loop: str = "int m = 0; m < 16; m++", guard: str = "tx <= m") -> Side | NotApplicable:
    """A tile of 16 by 16 that is read behind a guard inside a loop, without it."""
    code = f"""\
__global__ void work(const float *x, float *y, int n)
{{
    __shared__ float tile[16][16];
    const int tx = threadIdx.x;
    for (int row = 0; row < 16; row++)
        tile[row][tx] = x[row * 16 + tx];
    __syncthreads();
    for ({loop})
        if ({guard})
            y[m * 16 + tx] = {read};
}}
"""
    return BY_NAME["tile-to-global"].apply(Side(code, (Launch("work", (1,), (16,), ("x", "y", "n")),)))


@pytest.mark.parametrize(
    ("read", "loop"),
    [
        ("tile[tx][m - tx]", "int m = 0; m < 16; m++"),
        ("tile[15 - tx][tx + 15 - m]", "int m = 15; m >= 0; m--"),
    ],
)
def test_indices_behind_a_guard_are_tried_one_by_one(read: str, loop: str) -> None:
    made = tile(read, loop)
    assert isinstance(made, Side)
    assert "tile" not in made.code


@pytest.mark.parametrize(
    ("read", "loop", "guard"),
    [
        ("tile[tx][m - tx]", "int m = 0; m < 16; m++", "tx <= m + 1"),
        ("tile[tx][m - tx]", "int m = 0; m < 18; m++", "tx <= m"),
        ("tile[tx][m - tx]", "int m = 0; m < n; m++", "tx <= m"),
        ("tile[tx][m - tx]", "int m = 0; m < 16; m++", "tx <= n"),
        ("tile[tx][m - tx]", "int m = 0; m < 16; m += 2", "tx <= m || n > 3"),
    ],
)
def test_indices_that_may_leave_the_tile_keep_it(read: str, loop: str, guard: str) -> None:
    refused = tile(read, loop, guard)
    assert isinstance(refused, NotApplicable)
    assert "outside the range that the block's threads store" in refused.reason


def first_thread(condition: str, value: str) -> Side | NotApplicable:
    """A value that some thread puts into shared memory for the block."""
    code = f"""\
__global__ void work(const float *x, float *y, int n)
{{
    __shared__ float own;
    if ({condition})
        own = {value};
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = own;
}}
"""
    return BY_NAME["tile-to-global"].apply(Side(code, (Launch("work", ("n",), (64,), ("x", "y", "n")),)))


def test_a_value_loaded_by_the_first_thread_is_loaded_by_every_thread() -> None:
    made = first_thread("threadIdx.x == 0", "x[blockIdx.x + threadIdx.x]")
    assert isinstance(made, Side)
    assert "threadIdx.x] = (x[blockIdx.x + 0u]);" in made.code
    for condition, value in (("threadIdx.x == 1", "x[0]"), ("n > 3", "x[0]"), ("threadIdx.x == 0", "y[0]")):
        assert isinstance(first_thread(condition, value), NotApplicable)


def test_thread_indices_may_have_names_of_their_own() -> None:
    code = """\
#define WIDTH 256
__global__ void work(float *y, int n)
{
    int bx = blockIdx.x;
    int tx = threadIdx.x;
    int i = bx * WIDTH + tx;
    if (i < n)
        y[i] = y[i] * 0.5f;
    __syncthreads();
}
"""
    side = Side(code, (Launch("work", ("n",), (256,), ("y", "n")),))
    chunks, small = (BY_NAME[name].apply(side) for name in ("contiguous-chunks", "small-blocks"))
    assert isinstance(chunks, Side)
    assert "int tx = threadIdx.x * 8 + item;" in chunks.code
    assert "__syncthreads" not in chunks.code
    assert isinstance(small, Side)
    assert "int i = bx * blockDim.x + tx;" in small.code
    assert small.plan == (Launch("work", ("(n) * 8",), (32,), ("y", "n")),)


def test_blocks_in_rows_get_smaller_too() -> None:
    code = """\
__global__ void work(float *y, int n)
{
    const int number = blockIdx.x + gridDim.x * blockIdx.y;
    const int i = blockDim.x * number + threadIdx.x;
    if (i < n)
        y[i] = y[i] * 0.5f;
}
"""
    side = Side(code, (Launch("work", ("n", 3), (64,), ("y", "n")),))
    made = BY_NAME["small-blocks"].apply(side)
    assert isinstance(made, Side)
    assert made.code == code
    assert made.plan == (Launch("work", ("(n) * 2", 3), (32,), ("y", "n")),)
    other = code.replace("gridDim.x * blockIdx.y", "gridDim.y * blockIdx.y")
    assert isinstance(BY_NAME["small-blocks"].apply(Side(other, side.plan)), NotApplicable)


def test_strided_threads_keep_the_type_of_the_index_and_other_axes() -> None:
    code = """\
__global__ void work(float *y, int n)
{
    int first = blockIdx.x * 64;
    int i = (int)(first + threadIdx.x);
    size_t j = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && blockIdx.x * blockDim.x + threadIdx.x < n)
        y[j * gridDim.y + blockIdx.y * blockDim.y + threadIdx.y] *= 0.5f;
}
"""
    rule = BY_NAME["strided-threads"]
    launch = Launch("work", ("n", 3), (64, 4), ("y", "n"))
    assert isinstance(refused := rule.apply(Side(code, (launch,))), NotApplicable)
    assert "type" in refused.reason
    made = rule.apply(Side(code.replace("(int)(first + threadIdx.x)", "first + threadIdx.x"), (launch,)))
    assert isinstance(made, Side)
    assert "int i = threadIdx.x * gridDim.x + blockIdx.x;" in made.code
    assert "size_t j = (size_t)threadIdx.x * gridDim.x + blockIdx.x;" in made.code
    assert "&& (threadIdx.x * gridDim.x + blockIdx.x) < n" in made.code
    assert "y[j * gridDim.y + blockIdx.y * blockDim.y + threadIdx.y]" in made.code
    assert made.plan == (launch,)


def test_a_private_histogram_flushed_by_thread_index_is_removed() -> None:
    code = """\
__global__ void work(unsigned char *x, unsigned int *counts, int n)
{
    __shared__ unsigned int own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&own[x[i]], 1);
    __syncthreads();
    atomicAdd(&(counts[threadIdx.x]), own[threadIdx.x]);
}
"""
    side = Side(code, (Launch("work", ("n",), (256,), ("x", "counts", "n")),))
    made = BY_NAME["private-to-global"].apply(side)
    assert isinstance(made, Side)
    assert "atomicAdd(&counts[x[i]], 1);" in made.code
    assert "own" not in made.code
    assert "__syncthreads" not in made.code
    written = code.replace("__syncthreads();\n    for", "x[0] = 1;\n    for")
    kept = BY_NAME["private-to-global"].apply(Side(written, side.plan))
    assert isinstance(kept, Side)
    assert "__syncthreads" in kept.code


SCAN = """\
__global__ void work(const float *x, float *y, int n)
{
    __shared__ float own[16];
    int i, place;
    int first = blockIdx.x * 16 + threadIdx.x;
    for (i = 0; i < 2; i++) {
        own[threadIdx.x] = x[first];
        first += n;
    }
    __syncthreads();
    for (i = 1; i < 16; i *= 2) {
        if (threadIdx.x % 2 == 0)
            place = threadIdx.x;
        else
            place = 15 - threadIdx.x;
        y[i * 16 + place] = own[threadIdx.x];
        __syncthreads();
    }
    first = blockIdx.x * 16;
    y[first + threadIdx.x] = own[threadIdx.x];
}
"""
SCAN_PLAN = (Launch("work", ("n",), (16,), ("x", "y", "n")),)


def test_locals_set_again_on_every_path_may_cross_a_barrier() -> None:
    made = BY_NAME["chunks-between-barriers"].apply(Side(SCAN, SCAN_PLAN))
    assert isinstance(made, Side)
    assert (
        "    int first;\n    for (int item = 0; item < 4; item++) {\n        first = blockIdx.x" in made.code
    )
    assert made.plan == (Launch("work", ("n",), (4,), ("x", "y", "n")),)
    assert made.code.count("for (int item") == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    first = blockIdx.x * 16;\n", ""),
        ("    first = blockIdx.x * 16;\n", "    if (n > 3)\n        first = blockIdx.x * 16;\n"),
        ("    first = blockIdx.x * 16;\n", "    first += blockIdx.x * 16;\n"),
        ("    first = blockIdx.x * 16;\n", "    for (i = 0; i < n; i++)\n        first = i;\n"),
        ("        else\n            place = 15 - threadIdx.x;\n", ""),
        (
            "    int first = blockIdx.x",
            "    const float *p = x + threadIdx.x; int first = (int)p[0] + blockIdx.x",
        ),
        ("        y[i * 16 + place]", "        i += threadIdx.x;\n        y[i * 16 + place]"),
        ("y[first + threadIdx.x]", "y[i + first + threadIdx.x]"),
    ],
)
def test_locals_not_set_again_on_every_path_are_refused(old: str, new: str) -> None:
    assert old in SCAN
    made = BY_NAME["chunks-between-barriers"].apply(Side(SCAN.replace(old, new), SCAN_PLAN))
    if "p[0]" in new:  # stays within its part
        assert isinstance(made, Side)
    else:
        assert isinstance(made, NotApplicable)
