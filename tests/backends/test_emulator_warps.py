"""Lanes of a warp that tell each other values: shuffles, votes, matches, groups, tensor cores, copies."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from emulation import Program, run

LANE = np.arange(32)


def lanes(body: str, dtype: type = np.int32, block: int = 32, head: str = "") -> np.ndarray:
    """What each lane leaves in `r`, which starts as its lane number."""
    kind = {np.int32: "int", np.float32: "float", np.float64: "double", np.int64: "long long"}[dtype]
    code = f"""{head}
    extern "C" __global__ void f({kind} *out) {{
        int lane = threadIdx.x % 32;
        {kind} r = lane;
        {body}
        out[threadIdx.x] = r;
    }}"""
    return run(code, np.zeros(block, dtype), block=block)[0]


@cache
def switch(bodies: tuple[str, ...], head: str) -> Program:
    cases = "\n".join(f"if (which == {i}) {{ {body} }}" for i, body in enumerate(bodies))
    block = "cg::thread_block block = cg::this_thread_block();" if head else ""
    return Program(f"""{head}
    extern "C" __global__ void f(int *out, int which) {{
        int lane = threadIdx.x % 32, r = lane;
        {block}
        {cases}
        out[threadIdx.x] = r;
    }}""")


def chosen(bodies: tuple[str, ...], body: str, head: str = "") -> np.ndarray:
    """What each lane leaves in `r` after one of several bodies, which are compiled together."""
    return switch(bodies, head).run(np.zeros(32, np.int32), np.int32(bodies.index(body)))[0]


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64, np.int64])
def test_shuffles_move_values_of_four_and_eight_bytes(dtype: type) -> None:
    assert (lanes("r = __shfl_sync(~0u, r, 5) * 2;", dtype) == 10).all()
    down = lanes("r = __shfl_down_sync(0xffffffff, r, 3);", dtype)
    assert (down == np.where(LANE + 3 < 32, LANE + 3, LANE)).all()


INTRINSICS = (
    ("__shfl_sync(~0u, lane, lane + 9, 8)", LANE // 8 * 8 + (LANE + 9) % 8),
    ("__shfl_sync(~0u, lane, -1)", np.full(32, 31)),
    ("__shfl_up_sync(~0u, lane, 2)", np.where(LANE < 2, LANE, LANE - 2)),
    ("__shfl_up_sync(~0u, lane, 3, 16)", np.where(LANE % 16 < 3, LANE, LANE - 3)),
    ("__shfl_down_sync(~0u, lane, 5, 8)", np.where(LANE % 8 + 5 < 8, LANE + 5, LANE)),
    ("__shfl_xor_sync(~0u, lane, 12)", LANE ^ 12),
    ("__shfl_xor_sync(~0u, lane, 8, 8)", np.where(LANE ^ 8 > LANE | 7, LANE, LANE ^ 8)),
    ("__shfl(lane, 7)", np.full(32, 7)),
    ("__shfl_xor(lane, 1)", LANE ^ 1),
    ("(int)__ballot_sync(~0u, lane % 5 == 0)", np.full(32, sum(1 << i for i in range(0, 32, 5)))),
    ("__any_sync(~0u, lane == 31) + 10 * __all_sync(~0u, lane < 32)", np.full(32, 11)),
    ("__any_sync(~0u, lane > 31) + 10 * __all_sync(~0u, lane < 31)", np.zeros(32)),
    ("__popc(__match_any_sync(~0u, lane / 3))", np.where(LANE < 30, 3, 2)),
    ("__popc(__ballot(lane & 1)) + 100 * __popc(__activemask())", np.full(32, 3216)),
    ("__reduce_add_sync(~0u, lane)", np.full(32, 496)),
    ("__reduce_min_sync(~0u, 9 - lane)", np.full(32, -22)),
    ("(int)__reduce_max_sync(~0u, (unsigned)lane)", np.full(32, 31)),
    ("(int)__reduce_xor_sync(~0u, (unsigned)lane << 3)", np.zeros(32)),
)


@pytest.mark.parametrize(("call", "expected"), INTRINSICS)
def test_warp_intrinsics(call: str, expected: np.ndarray) -> None:
    calls = {case[0]: f"r = {case[0]};" for case in INTRINSICS}
    assert chosen(tuple(calls.values()), f"r = {call};").tolist() == expected.tolist()


def test_parts_of_a_warp_synchronise_separately() -> None:
    body = """
    if (lane < 10) r = __reduce_add_sync(0x3ff, lane);
    else r = __shfl_down_sync(0xfffffc00, lane, 1);
    __syncwarp();
    int all;
    unsigned same = __match_all_sync(~0u, int(r > 1000), &all);
    r += 1000 * all * (same == 0xffffffff);
    """
    assert (lanes(body)[:10] == 1045).all()
    assert lanes(body)[10:31].tolist() == list(range(1011, 1032))


def test_lanes_that_ended_or_never_were_are_not_waited_for() -> None:
    assert lanes("if (lane >= 20) return; r = __reduce_add_sync(~0u, 1);")[:20].tolist() == [20] * 20
    assert lanes("r = __popc(__ballot_sync(~0u, 1));", block=44).tolist() == [32] * 32 + [12] * 12


def test_branches_split_the_active_mask() -> None:
    body = "if (lane % 4 == 1) r = (int)__activemask(); else r = -(int)__popc(__activemask());"
    assert lanes(body).tolist() == [0x22222222 if i % 4 == 1 else -24 for i in range(32)]


def test_warp_aggregated_counter() -> None:
    body = """
    __shared__ int counter;
    if (threadIdx.x == 0) counter = 0;
    __syncthreads();
    if (lane % 3) {
        unsigned active = __activemask();
        int leader = __ffs(active) - 1, base = 0;
        if (lane == leader) base = atomicAdd(&counter, __popc(active));
        r = __shfl_sync(active, base, leader) + __popc(active & ((1u << lane) - 1));
    } else r = -1;
    """
    places = lanes(body, block=64)
    assert sorted(places[places >= 0].tolist()) == list(range(42))


GROUPS = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
"""


GROUP_CASES = (
    ("r = cg::reduce(cg::tiled_partition<8>(block), lane, cg::plus<int>());", LANE // 8 * 64 + 28),
    ("r = cg::reduce(cg::tiled_partition<32>(block), lane, cg::greater<int>());", np.full(32, 31)),
    ("r = cg::exclusive_scan(cg::tiled_partition<16>(block), 2);", LANE % 16 * 2),
    ("r = cg::inclusive_scan(cg::tiled_partition<32>(block), lane);", np.cumsum(LANE)),
    (
        "auto t = cg::tiled_partition<4>(cg::tiled_partition<16>(block)); "
        "r = t.meta_group_rank() * 1000 + t.thread_rank() * 100 + t.shfl_xor(lane, 1) + t.size();",
        LANE % 16 // 4 * 1000 + LANE % 4 * 100 + (LANE ^ 1) + 4,
    ),
    (
        "if (lane % 3 == 0) { auto g = cg::coalesced_threads(); r = g.size() * 100 + g.thread_rank() + "
        "g.shfl(lane, 2) * 10000; }",
        np.where(LANE % 3 == 0, 1100 + LANE // 3 + 60000, LANE),
    ),
    (
        "r = (int)cg::tiled_partition<8>(block).ballot(lane & 1) + block.group_index().x;",
        np.full(32, 0xAA),
    ),
    (
        "auto g = cg::labeled_partition(cg::tiled_partition<32>(block), lane / 5); "
        "r = g.size() * 10 + g.thread_rank();",
        np.where(LANE < 30, 50, 20) + LANE % 5,
    ),
    ("cg::thread_group g = cg::tiled_partition(block, 4); g.sync(); r = g.thread_rank();", LANE % 4),
    (
        "struct wide { double a; int b, c; }; wide w = {lane * 0.5, lane, -lane}; "
        "auto t = cg::tiled_partition<32>(block); w = t.shfl(w, 3); r = int(w.a * 2) + w.b + w.c;",
        np.full(32, 3),
    ),
    (
        "__shared__ int part[64]; __shared__ int from[64]; from[lane] = lane * 3; from[lane + 32] = 0; "
        "block.sync(); cg::memcpy_async(block, part, from, sizeof part); cg::wait(block); "
        "r = part[lane ^ 1];",
        (LANE ^ 1) * 3,
    ),
)


@pytest.mark.parametrize(("body", "expected"), GROUP_CASES)
def test_cooperative_groups(body: str, expected: np.ndarray) -> None:
    assert chosen(tuple(case[0] for case in GROUP_CASES), body, GROUPS).tolist() == expected.tolist()


PIPELINE = """
#include <cuda_pipeline.h>
extern "C" __global__ void f(const float4 *in, float *out, int tiles) {
    __shared__ float4 stage[2][32];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&stage[0][t], &in[t], 16);
    __pipeline_commit();
    float sum = 0;
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles)
            __pipeline_memcpy_async(&stage[(tile + 1) % 2][t], &in[(tile + 1) * 32 + t], 16,
                                    tile == 1 ? 8 : 0);
        __pipeline_commit();
        WAIT
        __syncthreads();
        float4 v = stage[tile % 2][31 - t];
        sum += v.x + v.y + v.z + v.w;
        __syncthreads();
    }
    out[t] = sum;
}"""


def test_asynchronous_copies_arrive_when_they_are_waited_for() -> None:
    values = np.arange(4 * 32 * 4, dtype=np.float32).reshape(4, 32, 4)
    kept = values.copy()
    kept[2, :, 2:] = 0
    expected = kept.sum((0, 2))[::-1]
    args = (values, np.zeros(32, np.float32), np.int32(4))
    assert np.allclose(run(PIPELINE.replace("WAIT", "__pipeline_wait_prior(1);"), *args)[1], expected)
    assert not np.allclose(run(PIPELINE.replace("WAIT", ""), *args)[1], expected)


MMA = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void f(const TYPE *a, const TYPE *b, SUM *c) {
    wmma::fragment<wmma::matrix_a, M, N, K, FRAGMENT, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, FRAGMENT, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, M, N, K, SUM> sum;
    wmma::load_matrix_sync(sum, c, N, wmma::mem_row_major);
    wmma::load_matrix_sync(fa, a, K);
    wmma::load_matrix_sync(fb, b, K);
    wmma::mma_sync(sum, fa, fb, sum);
    for (int i = 0; i < sum.num_elements; i++) sum.x[i] *= 2;
    wmma::store_matrix_sync(c, sum, N, wmma::mem_row_major);
}"""


@pytest.mark.parametrize(
    ("kind", "fragment", "shape"),
    [
        ("half", "half", (16, 16, 16)),
        ("half", "half", (8, 32, 16)),
        ("__nv_bfloat16", "__nv_bfloat16", (32, 8, 16)),
        ("float", "wmma::precision::tf32", (16, 16, 8)),
        ("double", "double", (8, 8, 4)),
        ("signed char", "signed char", (16, 16, 16)),
    ],
)
def test_tensor_cores(kind: str, fragment: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(3)
    a, b = rng.integers(-8, 9, (m, k)).astype(np.float32), rng.integers(-8, 9, (n, k)).astype(np.float32)
    c = rng.integers(-9, 9, (m, n)).astype(np.float32)
    sums = {"double": np.float64, "signed char": np.int32}.get(kind, np.float32)
    code = MMA.replace("TYPE", kind).replace("FRAGMENT", fragment)
    code = code.replace("SUM", {np.float64: "double", np.int32: "int"}.get(sums, "float"))
    for name, size in zip("MNK", shape, strict=True):
        code = code.replace(f" {name},", f" {size},").replace(f" {name})", f" {size})")
    packed = {"half": np.float16, "float": np.float32, "double": np.float64, "signed char": np.int8}.get(kind)
    if packed is None:
        given = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
    else:
        given = [x.astype(packed) for x in (a, b)]
    out = Program(code).run(*given, c.astype(sums))[2]
    assert (out == 2 * (a @ b.T + c)).all()
