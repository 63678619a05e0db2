"""Threads that wait for each other, and those that should have: barriers, atomics, grids, faults."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulation import Program, run

from kcurate.backends.base import EntryPoint, Grid, KernelFault, Pointer


def fault_of(program: Program, *args: np.ndarray | np.generic, **launch: object) -> KernelFault:
    with pytest.raises(KernelFault) as caught:
        program.run(*args, **launch)  # type: ignore[arg-type]
    return caught.value


def test_tree_reduction_by_barriers() -> None:
    code = """extern "C" __global__ void f(const float *in, float *out) {
        __shared__ float part[256];
        int t = threadIdx.x;
        part[t] = in[blockIdx.x * 256 + t];
        __syncthreads();
        for (int stride = 128; stride > 0; stride /= 2) {
            if (t < stride) part[t] += part[t + stride];
            __syncthreads();
        }
        if (t == 0) out[blockIdx.x] = part[0];
    }"""
    values = np.arange(1024, dtype=np.float32)
    out = run(code, values, np.zeros(4, np.float32), grid=4, block=256)[1]
    assert (out == values.reshape(4, 256).sum(1)).all()


def test_barriers_that_count() -> None:
    code = """extern "C" __global__ void f(int *a) {
        int t = threadIdx.x;
        a[t] = __syncthreads_count(t % 3 == 0) + 1000 * __syncthreads_and(t < 100) +
               10000 * __syncthreads_or(t == 99) + 100000 * __syncthreads_and(t < 99) +
               1000000 * __syncthreads_or(t > 99);
    }"""
    (out,) = run(code, np.zeros(100, np.int32), block=100)
    assert (out == 34 + 1000 + 10000).all()


def test_a_barrier_waits_only_for_threads_that_still_run() -> None:
    code = """extern "C" __global__ void f(int *a) {
        if (threadIdx.x >= 40) return;
        __shared__ int word;
        if (threadIdx.x == 39) word = 6;
        __syncthreads();
        a[threadIdx.x] = word;
    }"""
    (out,) = run(code, np.zeros(64, np.int32), block=64)
    assert (out[:40] == 6).all()
    assert (out[40:] == 0).all()


RACES = {
    "before_reading": "part[t] = a[t]; {} a[t] = part[(t + 1) % 64];",
    "before_reading_back": "part[t] = a[t]; {} a[t] = part[(t + 63) % 64];",
    "before_writing_again": "part[t] = a[t]; __syncthreads(); int v = part[63 - t]; {} part[t] = v + 1; "
    "__syncthreads(); a[t] = part[t ^ 1];",
}


@pytest.mark.parametrize("name", RACES)
def test_a_missing_barrier_is_detected(name: str) -> None:
    def results(barrier: str) -> list[list[float]]:
        body = RACES[name].format(barrier)
        start = "__shared__ float part[64]; int t = threadIdx.x;"
        code = f'extern "C" __global__ void f(float *a) {{ {start} {body} }}'
        program = Program(code)
        return [program.run(np.arange(64, dtype=np.float32), block=64)[0].tolist() for _ in range(2)]

    right = results("__syncthreads();")
    assert right[0] == right[1]
    assert any(result != right[0] for result in results(""))


def test_different_barriers_are_reported() -> None:
    code = """extern "C" __global__ void f(int *a) {
        if (threadIdx.x < 32)
            __syncthreads();
        else
            __syncthreads();
    }"""
    fault = fault_of(Program(code), np.zeros(1, np.int32), block=64)
    assert fault.reason == "launch_error"
    assert "line 5" in fault.what and "line 3" in fault.what


def test_a_deadlock_is_reported() -> None:
    code = """extern "C" __global__ void f(int *a) {
        if (threadIdx.x < 16) __syncthreads();
        a[threadIdx.x] = __shfl_sync(0xffffffff, threadIdx.x, 0);
        __syncthreads();
    }"""
    fault = fault_of(Program(code), np.zeros(32, np.int32))
    assert fault.reason == "launch_error"
    assert "deadlock" in fault.what and "16" in fault.what


def test_an_endless_kernel_ends() -> None:
    code = 'extern "C" __global__ void f(volatile int *a) { while (a[0] == 0) {} }'
    fault = fault_of(Program(code, limit_s=0.2), np.zeros(1, np.int32), block=1)
    assert fault.reason == "timeout"


@pytest.mark.parametrize(
    "wait",
    ["while (a[0] == 0) {}", "int v; do v = a[0]; while (!v);", "for (;;) if (a[0]) break;",
     "#define DONE (a[0] != 0)\nwhile (true) if (DONE) break;"],
)  # fmt: skip
def test_a_thread_may_wait_for_a_volatile_value_that_another_stores(wait: str) -> None:
    code = f"""extern "C" __global__ void f(volatile int *a) {{
        if (threadIdx.x % 32 == 7) a[0] = 5;
        if (threadIdx.x % 32 != 7) {{
            {wait}
            a[1 + threadIdx.x] = a[0];
        }}
    }}"""
    (made,) = run(code, np.zeros(65, np.int32), block=64)
    assert (made[1:].reshape(2, 32)[:, [0, 6, 8, 31]] == 5).all()


def test_threads_that_spin_let_others_run() -> None:
    lock = """extern "C" __global__ void f(int *lock, int *sum) {
        bool done = false;
        while (!done) {
            if (atomicCAS(lock, 0, 1) == 0) {
                int seen = *sum;
                __syncwarp(1u << threadIdx.x % 32);
                *sum = seen + 1;
                __threadfence();
                atomicExch(lock, 0);
                done = true;
            }
        }
    }"""
    (_, total) = run(lock, np.zeros(1, np.int32), np.zeros(1, np.int32), grid=3, block=64)
    assert total[0] == 192
    handshake = """extern "C" __global__ void f(int *flag, int *out) {
        if (threadIdx.x == 0) { while (atomicAdd(flag, 0) == 0) {} out[0] = 9; }
        if (threadIdx.x == 40) atomicExch(flag, 1);
    }"""
    assert run(handshake, np.zeros(1, np.int32), np.zeros(1, np.int32), block=64)[1][0] == 9


def test_blocks_that_wait_for_later_blocks_meet() -> None:
    code = """extern "C" __global__ void f(int *arrived, int *out) {
        __shared__ int mine;
        mine = blockIdx.x;
        __syncthreads();
        if (threadIdx.x == 0) {
            atomicAdd(arrived, 1);
            while (atomicAdd(arrived, 0) < gridDim.x) {}
        }
        __syncthreads();
        out[blockIdx.x * blockDim.x + threadIdx.x] = mine;
    }"""
    out = run(code, np.zeros(1, np.int32), np.zeros(6 * 64, np.int32), grid=6, block=64)[1]
    assert (out.reshape(6, 64) == np.arange(6)[:, None]).all()


def test_cooperative_grids_synchronise() -> None:
    code = """
    #include <cooperative_groups.h>
    extern "C" __global__ void f(int *a, int *b) {
        extern __shared__ int own[];
        __shared__ int block;
        auto grid = cooperative_groups::this_grid();
        int at = grid.thread_rank(), n = grid.size();
        own[threadIdx.x] = at;
        block = blockIdx.x;
        for (int round = 0; round < 3; round++) {
            a[at] = at + round;
            grid.sync();
            b[at] = a[(at + 1) % n];
            grid.sync();
        }
        b[at] += 1000 * (own[threadIdx.x] == at) + 10000 * (block == blockIdx.x);
    }"""
    zeros = np.zeros(5 * 48, np.int32)
    launch = {"grid": 5, "block": 48, "shared_bytes": 48 * 4}
    out = run(code, zeros, zeros.copy(), cooperative=True, **launch)[1]
    assert (out == np.roll(np.arange(240), -1) + 2 + 11000).all()
    fault = fault_of(Program(code), zeros, zeros.copy(), **launch)
    assert "not cooperative" in fault.what


ATOMICS = """extern "C" __global__ void f(int *i, unsigned *u, float *x, double *d, unsigned long long *l) {
    int t = threadIdx.x;
    atomicAdd(i, t); atomicSub(i + 1, t); atomicMin(i + 2, -t); atomicMax(i + 3, t);
    atomicOr(i + 4, 1 << t % 31); atomicXor(i + 5, t); atomicAnd(i + 6, ~t);
    atomicInc(u, 6); atomicDec(u + 1, 5); atomicMax(u + 2, (unsigned)t);
    atomicCAS(u + 3, (unsigned)t, t + 1u);
    if (t == 5) { u[4] = atomicExch(u + 5, 77u); x[1] = atomicExch(x + 2, 0.5f); }
    atomicAdd(x, 0.5f); atomicAdd(d, 0.25); atomicAdd(l, 1ull << 40); atomicMax(l + 1, (unsigned long long)t);
    atomicCAS(l + 2, 0ull, 1ull << 50);
}"""


def test_atomics() -> None:
    t = np.arange(64)
    ints, unsigned = np.array([0, 0, 5, 5, 0, 0, -1], np.int32), np.array([0, 0, 0, 0, 0, 9], np.uint32)
    given = (ints, unsigned, np.array([0, 0, 3], np.float32), np.zeros(1), np.zeros(3, np.uint64))
    i, u, x, d, wide = run(ATOMICS, *given, block=64)
    assert i[:4].tolist() == [t.sum(), -t.sum(), -63, 63]
    assert i[4:].tolist() == [0x7FFFFFFF, np.bitwise_xor.reduce(t), np.bitwise_and.reduce(~t)]
    assert u.tolist()[:2] == [64 % 7, (6 - 64 % 6) % 6] and u[2] == 63 and u[4:].tolist() == [9, 77]
    assert 1 <= u[3] <= 64
    assert x.tolist() == [32, 3, 0.5] and d[0] == 16
    assert wide.tolist() == [64 << 40, 63, 1 << 50]


def test_atomics_with_an_order_and_a_scope() -> None:
    code = """
    extern "C" __global__ void f(unsigned *a, unsigned long long *wide) {
        __nv_atomic_fetch_add(a, 2, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
        __nv_atomic_fetch_sub(a + 1, 1u, __NV_ATOMIC_ACQ_REL);
        __nv_atomic_fetch_max(a + 2, threadIdx.x, __NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_SYSTEM);
        __nv_atomic_fetch_min(wide, (unsigned long long)threadIdx.x + 7, __NV_ATOMIC_RELAXED);
        __nv_atomic_fetch_or(wide + 1, 1ull << threadIdx.x, __NV_ATOMIC_RELAXED);
        __syncthreads();
        if (threadIdx.x == 0) {
            a[3] = __nv_atomic_load_n(a, __NV_ATOMIC_ACQUIRE);
            a[3] += __nv_atomic_exchange_n(a + 4, 5u, __NV_ATOMIC_RELAXED);
            __nv_atomic_store_n(a + 5, 6u, __NV_ATOMIC_RELEASE);
        }
    }"""
    a, wide = run(code, np.array([1, 64, 0, 0, 3, 0], np.uint32), np.array([99, 0], np.uint64), block=64)
    assert a.tolist() == [129, 0, 63, 132, 5, 6]
    assert wide.tolist() == [7, 2**64 - 1]


def test_atomic_references() -> None:
    code = """
    #include <cuda/atomic>
    extern "C" __global__ void f(int *flag, int *sum, float *high) {
        __shared__ cuda::atomic<int, cuda::thread_scope_block> ready;
        if (threadIdx.x == 0) ready.store(0);
        __syncthreads();
        cuda::atomic_ref<int, cuda::thread_scope_device> total(*sum);
        total.fetch_add(threadIdx.x, cuda::memory_order_relaxed);
        cuda::atomic_ref<float>(*high).fetch_max(threadIdx.x * 0.5f);
        if (threadIdx.x == 70) ready.store(5, cuda::memory_order_release);
        if (threadIdx.x == 0) while (ready.load(cuda::memory_order_acquire) == 0) {}
        int none = 0;
        if (cuda::atomic_ref<int>(*flag).compare_exchange_strong(none, 7)) atomicAdd(flag, 1);
    }"""
    zero = np.zeros(1, np.int32)
    flag, total, high = run(code, zero, zero.copy(), np.zeros(1, np.float32), block=96)
    assert (flag[0], total[0], high[0]) == (8, 95 * 96 // 2, 47.5)


@pytest.mark.parametrize(
    ("body", "reason", "text"),
    [
        ("a[n] = 1;", "out_of_bounds", "0 bytes past the end of an allocation of 256 bytes"),
        ("a[0] = a[n + 1000];", "out_of_bounds", "4000 bytes past the end"),
        ("a[-1000 - n] = 1;", "out_of_bounds", "before an allocation"),
        ("*(int *)(size_t)16 = 1;", "launch_error", "far from any allocation"),
        ("a[0] = n / a[1];", "launch_error", "division by zero"),
        ("extern __shared__ int part[]; part[64 + n] = 1;", "out_of_bounds", "dynamic shared memory"),
        ("__trap();", "launch_error", "a trap"),
        ("a[0] = __shfl_sync(2, n, 0);", "launch_error", "lacks the lane"),
        ("volatile char big[200000]; for (int i = 0; i < 200000; i++) big[i] = n;", "launch_error", "stack"),
    ],
)
def test_faults_are_described(body: str, reason: str, text: str) -> None:
    program = Program(f'extern "C" __global__ void f(int *a, int n) {{ {body} }}')
    fault = fault_of(program, np.zeros(64, np.int32), np.int32(64), block=1, shared_bytes=64)
    assert (fault.reason, text in fault.what) == (reason, True), fault.what
    assert "thread (0,0,0) of block (0,0,0)" in fault.what


@pytest.mark.parametrize(
    "body",
    [
        "atomicAdd(a + n, 0);",
        "atomicOr((unsigned *)a + n, 0u);",
        "atomicCAS(a + n, 5, 5);",
        "cuda::atomic_ref<int>(a[n]).fetch_add(0);",
        "__nv_atomic_fetch_xor((unsigned *)a + n, 0u, __NV_ATOMIC_RELAXED);",
        'asm volatile("red.global.add.s32 [%0], 0;" :: "l"(a + n) : "memory");',
        'int old; asm volatile("atom.global.or.b32 %0, [%1], 0;" : "=r"(old) : "l"(a + n) : "memory");',
    ],
)
def test_an_atomic_that_changes_nothing_past_the_end_is_out_of_bounds(body: str) -> None:
    program = Program(f'#include <cuda/atomic>\nextern "C" __global__ void f(int *a, int n) {{ {body} }}')
    for words in (64, 61):  # up to a protected page, and short of one
        fault = fault_of(program, np.zeros(words, np.int32), np.int32(words), block=1)
        assert fault.reason == "out_of_bounds", fault.what


def test_reads_too_near_for_the_protected_pages_give_no_numbers() -> None:
    code = 'extern "C" __global__ void f(const float *a, float *out) { out[0] = a[3]; out[1] = a[-1]; }'
    _, out = run(code, np.ones(3, np.float32), np.zeros(2, np.float32), block=1)
    assert np.isnan(out).all()


def test_a_sanitized_side_checks_arrays_and_fills_locals() -> None:
    code = """extern "C" __global__ void f(int *a, int n) {
        __shared__ int part[32];
        part[n] = 1;
        int fresh[4];
        a[0] = fresh[n % 4] == 0;
    }"""
    program = Program(code, sanitize=True)
    (out,) = program.run(np.array([7], np.int32), np.int32(3), block=1)
    assert out[0] == 0
    fault = fault_of(program, np.zeros(1, np.int32), np.int32(32), block=1)
    assert fault.reason == "out_of_bounds"


def test_access_after_free_is_a_fault() -> None:
    program = Program('extern "C" __global__ void f(int *a) { a[0] = 1; }')
    memory = program.device.allocate(4)
    program.device.free(memory)
    with pytest.raises(KernelFault):
        program.device.launch(program.module, EntryPoint("f"), Grid((1, 1, 1), (1, 1, 1)), [Pointer(memory)])


def test_large_blocks_of_many_blocks() -> None:
    code = """extern "C" __global__ void f(int *a) {
        __shared__ int sum;
        if (threadIdx.x == 0) sum = 0;
        __syncthreads();
        atomicAdd(&sum, 1);
        __syncthreads();
        if (threadIdx.x == 0) a[blockIdx.x] = sum;
    }"""
    (out,) = run(code, np.zeros(50, np.int32), grid=50, block=1024)
    assert (out == 1024).all()


def test_a_loaded_side_keeps_no_file_open_and_is_no_earlier_one() -> None:
    """The loader takes a library with a known name for the known library."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(12):
        code = f'extern "C" __global__ void f(int *a) {{ a[0] = {number}; }}'
        assert run(code, np.zeros(1, np.int32), grid=1, block=1)[0][0] == number
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
