"""Random orders of threads on the emulator: code without a barrier gives several answers, other code one."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import Program

from kcurate.backends.base import KernelFault

SEEDS = range(1, 13)
PLAIN_COUNT = "__global__ void f(int *c) { volatile int *v = c; v[0] = v[0] + 1; }"
ATOMIC_COUNT = "__global__ void f(int *c) { atomicAdd(c, 1); }"
PTX_COUNT = """__global__ void f(int *c)
{
    asm volatile("red.global.add.u32 [%0], 1;" ::"l"(c) : "memory");
}"""
SHARED_SUM = """__global__ void f(int *c)
{
    __shared__ int part[64];
    const int t = threadIdx.x;
    part[t] = 1;
    for (int width = 32; width > 0; width /= 2) {
        SYNC;
        if (t < width) part[t] += part[t + width];
    }
    if (t == 0) atomicAdd(c, part[0]);
}"""
CHAIN = """__global__ void f(int *c, volatile int *flag)
{
    if (threadIdx.x == 0 && blockIdx.x > 0)
        while (flag[blockIdx.x - 1] == 0)
            ;
    __syncthreads();
    if (threadIdx.x != 0) return;
    c[0] = c[0] * 2 % 1000 + 1;
    __threadfence();
    flag[blockIdx.x] = 1;
}"""
LANES = """__global__ void f(int *c)
{
    unsigned sum = __reduce_add_sync(~0u, threadIdx.x % 32) + __ballot_sync(~0u, threadIdx.x % 2);
    for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
    if (threadIdx.x % 32 == 0) atomicAdd(c, (int)sum);
}"""

HANDED_ON = """__global__ void f(int *c, int *data, int *flag)
{
    const int b = blockIdx.x;
    if (threadIdx.x != 0) return;
    if (b > 0)
        while (atomicAdd(flag + b - 1, 0) == 0)
            ;
    FENCE
    data[b] = b > 0 ? __ldcg(data + b - 1) + 1 : 1;
    FENCE
    TELL
    if (b == gridDim.x - 1) c[0] = data[b];
}"""
IN_TWO_PLACES = """__global__ void f(int *c, int *data, int *flag)
{
    const int b = blockIdx.x;
    if (threadIdx.x != 0) return;
    if (b > 0)
        while (LOAD(flag + b - 1) == 0)
            ;
    STORE(data + b, b > 0 ? LOAD(data + b - 1) + 1 : 1);
    FENCE
    STORE(flag + b, 1);
    if (b == gridDim.x - 1) c[0] = LOAD(data + b);
}"""
VOLATILE = "#define LOAD(p) (*(volatile int *)(p))\n#define STORE(p, v) LOAD(p) = v\n"
RELAXED = """#define ORDER __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE
#define LOAD(p) __nv_atomic_load_n(p, ORDER)
#define STORE(p, v) __nv_atomic_store_n(p, v, ORDER)
"""
IN_PTX = """__device__ int LOAD(int *p) { return *(volatile int *)p; }
__device__ void STORE(int *p, int v)
{
    asm volatile("st.relaxed.gpu.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
"""
TELL = "atomicExch(flag + b, 1);"
TELL_IN_PTX = 'asm volatile("st.ORDER.gpu.global.u32 [%0], 1;" ::"l"(flag + b) : "memory");'


def answers(code: str, *more: np.ndarray[tuple[int], np.dtype[np.int32]]) -> set[int]:
    program = Program(code, turns=True)
    found = set()
    for seed in SEEDS:
        program.device.schedule(program.module, seed)
        found.add(int(program.run(np.zeros(1, np.int32), *more, grid=20, block=64)[0][0]))
    return found


@pytest.mark.parametrize("code", [PLAIN_COUNT, SHARED_SUM.replace("SYNC", "")])
def test_code_without_a_barrier_gives_several_answers(code: str) -> None:
    assert len(answers(code)) > 1


@pytest.mark.parametrize(
    "code", [ATOMIC_COUNT, PTX_COUNT, SHARED_SUM.replace("SYNC", "__syncthreads()"), LANES]
)
def test_synchronised_code_gives_one_answer(code: str) -> None:
    assert len(answers(code)) == 1


def test_blocks_that_wait_for_each_other_end() -> None:
    assert len(answers(CHAIN, np.zeros(20, np.int32))) == 1


@pytest.mark.parametrize(
    ("fence", "tell"),
    [("", TELL), ("__threadfence_block();", TELL), ("", TELL_IN_PTX.replace("ORDER", "relaxed"))],
)
def test_stores_without_a_fence_are_seen_late(fence: str, tell: str) -> None:
    code = HANDED_ON.replace("FENCE", fence).replace("TELL", tell)
    assert len(answers(code, np.zeros(20, np.int32), np.zeros(20, np.int32))) > 1


@pytest.mark.parametrize(
    ("fence", "tell"), [("__threadfence();", TELL), ("", TELL_IN_PTX.replace("ORDER", "release"))]
)
def test_stores_before_a_fence_or_a_release_are_seen(fence: str, tell: str) -> None:
    code = HANDED_ON.replace("FENCE", fence).replace("TELL", tell)
    assert answers(code, np.zeros(20, np.int32), np.zeros(20, np.int32)) == {20}


@pytest.mark.parametrize("head", [VOLATILE, RELAXED, IN_PTX])
@pytest.mark.parametrize(("fence", "several"), [("", True), ("__threadfence();", False)])
def test_nothing_but_a_fence_orders_stores_to_two_places(head: str, fence: str, several: bool) -> None:
    code = head + IN_TWO_PLACES.replace("FENCE", fence)
    answer = answers(code, np.zeros(20, np.int32), np.zeros(20, np.int32))
    assert len(answer) > 1 if several else answer == {20}


OF_BLOCK = "cuda::atomic_ref<int, cuda::thread_scope_block>"


@pytest.mark.parametrize(
    ("add", "several"),
    [
        ("atomicAdd_block(c, 1);", True),
        ("for (int seen = *c, was; (was = atomicCAS_block(c, seen, seen + 1)) != seen; seen = was) ;", True),
        ("__nv_atomic_fetch_add(c, 1, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_BLOCK);", True),
        (f"{OF_BLOCK}(*c).fetch_add(1);", True),
        ('asm volatile("red.relaxed.cta.global.add.s32 [%0], 1;" ::"l"(c) : "memory");', True),
        ('asm volatile("red.relaxed.gpu.global.add.s32 [%0], 1;" ::"l"(c) : "memory");', False),
        ("cuda::atomic_ref<int, cuda::thread_scope_device>(*c).fetch_add(1);", False),
        ("atomicAdd_block(part, 1); __syncthreads(); if (t == 0) atomicAdd(c, *part);", False),
        (f"{OF_BLOCK}(*part).fetch_add(1); __syncthreads(); if (t == 0) atomicAdd(c, *part);", False),
    ],
)
def test_atomics_of_a_blocks_scope_do_not_add_up_over_blocks(add: str, several: bool) -> None:
    code = f"""#include <cuda/atomic>
    __global__ void f(int *c, int *parts) {{ int t = threadIdx.x, *part = parts + blockIdx.x; {add} }}"""
    answer = answers(code, np.zeros(20, np.int32))
    assert len(answer) > 1 if several else answer == {20 * 64}


@pytest.mark.parametrize("waits_for", ["b - 1", "b + 1"])
def test_blocks_of_a_crowded_kernel_that_wait_for_others_are_reported(waits_for: str) -> None:
    bound = "b > 0" if waits_for == "b - 1" else "b < gridDim.x - 1"
    code = f"""__global__ void f(int *c, int *flag)
    {{
        const int b = blockIdx.x;
        if ({bound}) while (atomicAdd(flag + {waits_for}, 0) == 0) ;
        atomicExch(flag + b, 1);
    }}"""
    assert any(starves(code, seed) for seed in range(1, 5))


def test_blocks_with_tickets_and_long_loops_are_not_reported() -> None:
    code = """__global__ void f(int *c, int *flag)
    {
        volatile int *all = flag;
        int sum = 0;
        for (int i = 0; i < 3000; i++) sum += all[i % 20] * 0;
        const int b = atomicAdd(c, 1) + sum;
        if (b > 0) while (atomicAdd(flag + b - 1, 0) == 0) ;
        atomicExch(flag + b, 1);
    }"""
    assert not any(starves(code, seed) for seed in range(1, 5))


@pytest.mark.parametrize(("room", "crowded"), [(8192, False), (1024, True)])
def test_blocks_that_hold_shared_memory_crowd_a_gpu(room: int, crowded: bool) -> None:
    code = """__global__ void f(int *c, int *flag)
    {
        __shared__ volatile int tile[512];
        tile[threadIdx.x] = blockIdx.x;
        const int b = tile[threadIdx.x];
        if (b < gridDim.x - 1) while (atomicAdd(flag + b + 1, 0) == 0) ;
        atomicExch(flag + b, 1);
    }"""
    assert any(starves(code, seed, room) for seed in range(1, 5)) is crowded


READ_ONLY = """__global__ void f(int *c, int *table)
{
    const int b = blockIdx.x;
    WRITE;
    if (LOAD == 12345) c[0] = 1;
}"""
PTX_LOAD = '({ int v; asm("ld.global.nc.L1::no_allocate.s32 %0, [%1];" : "=r"(v) : "l"(table + b)); v; })'


@pytest.mark.parametrize(
    ("write", "load", "stale"),
    [
        ("table[b] = b", "__ldg(table + b)", True),
        ("atomicAdd(table + b, 1)", "__ldg(table + b)", True),
        ("table[b] = b", PTX_LOAD, True),
        ("table[b] = b", "__ldg((const int2 *)(table + (b & ~1))).x", True),
        ("atomicAdd((unsigned long long *)table + b / 2, 1ull << 32)", "__ldg(table + (b | 1))", True),
        ("c[0] = __nv_atomic_load_n(table + b, __NV_ATOMIC_RELAXED)", "__ldg(table + b)", False),
        ("table[b + 20] = b", "__ldg(table + b)", False),
        ("c[0] = b", PTX_LOAD, False),
        ("table[b] = b", "__ldcg(table + b)", False),
        ("table[b] = __ldg(table + b) + 1", "c[0]", False),
    ],
)
def test_read_only_loads_of_what_the_launch_has_stored_are_reported(
    write: str, load: str, stale: bool
) -> None:
    code = READ_ONLY.replace("WRITE", write).replace("LOAD", load)
    for seed in range(1, 4):
        program = Program(code, turns=True)
        program.device.schedule(program.module, seed)
        try:
            program.run(np.zeros(1, np.int32), np.zeros(40, np.int32), grid=20, block=1)
        except KernelFault as fault:
            assert stale and "read-only load" in str(fault)
        else:
            assert not stale


@pytest.mark.parametrize(
    ("branch", "lanes", "comes_apart"),
    [("t < 13", 13, False), ("true", 32, False), ("t % 3 == 0", 11, True), ("t > 20", 11, True)],
)
def test_lanes_that_a_branch_by_data_brings_together_may_come_apart(
    branch: str, lanes: int, comes_apart: bool
) -> None:
    code = f"""__global__ void f(int *c)
    {{
        const int t = threadIdx.x % 32;
        if ({branch}) atomicOr(c, __popc(__activemask()) != {lanes});
    }}"""
    assert answers(code) == {int(comes_apart)}


def starves(code: str, seed: int, room: int = -1) -> bool:
    """Whether a crowded kernel's blocks wait, in the order of a seed, for blocks that have not begun."""
    program = Program(code, turns=True)
    program.device.schedule(program.module, seed, {"f": room})
    try:
        program.run(np.zeros(1, np.int32), np.zeros(20, np.int32), grid=20, block=1)
    except KernelFault as fault:
        assert "blocks that have not begun" in str(fault)
        return True
    return False


@pytest.mark.parametrize(
    ("code", "past"),
    [
        ("__global__ void f(int *a) { const int4 v = *(int4 *)(a + 4); a[0] = v.x + v.w; }", 4),
        ("__global__ void f(int *a) { a[0] = a[threadIdx.x + 6]; }", 4),
        ("__global__ void f(int *a) { a[7] = 1; }", 4),
        ("__global__ void f(int *a) { memcpy(a, a + 6, 8); }", 4),
        ("__global__ void f(int *a) { memcpy(a, a + 2, 16 * blockDim.x); }", 1),
        ("__global__ void f(int *a) { memset(a, 0, 16 * blockDim.x); }", 1),
    ],
)
def test_an_access_ends_where_its_allocation_does(code: str, past: int) -> None:
    program = Program(code, turns=True)
    with pytest.raises(KernelFault, match=f"{past} past the end of an allocation"):
        program.run(np.zeros(7, np.int32), grid=1, block=2)


def test_locals_that_nothing_sets_hold_other_values() -> None:
    code = "struct S { int x; }; __global__ void f(int *a) { S kept; a[0] = kept.x += a[1]; }"
    answer = Program(code, turns=True).run(np.zeros(3, np.int32), grid=1, block=1)[0][0]
    assert answer == np.array(0xFEFEFEFE, np.uint32).view(np.int32)


def test_an_order_is_repeatable() -> None:
    for seed in (1, 2):
        found = set()
        for _ in range(3):
            program = Program(PLAIN_COUNT, turns=True)
            program.device.schedule(program.module, seed)
            found.add(int(program.run(np.zeros(1, np.int32), grid=20, block=64)[0][0]))
        assert len(found) == 1
