"""What a side that was compiled to be examined counts while it runs."""

from __future__ import annotations

import numpy as np
from emulation import compile_side

from kcurate.backends.base import Counts, EntryPoint, Grid, Pointer, ScalarValue
from kcurate.backends.emulator.device import EmulatorDevice

COPY = 'extern "C" __global__ void f(const float* x, float* y, int n) {'
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;"
PLAIN = f"{COPY} {INDEX} y[i] = 2.0f * x[i]; }}"
AGAIN = f"{COPY} {INDEX} float v = 0; for (int k = 0; k < n; k++) v += x[(i + k) % n]; y[i] = v; }}"
SIZE = 256


def count(
    code: str, n: int = SIZE, blocks: int = 2, shared_bytes: int = 0, sample: int = 0, runs: int = 1
) -> Counts:
    device = EmulatorDevice()
    try:
        module = device.load(compile_side(code, examine=True))
        device.counts(module, sample, 7)
        x, y = device.allocate(4 * SIZE), device.allocate(4 * SIZE)
        args = [Pointer(x), Pointer(y), ScalarValue(np.int32(n).tobytes())]
        for _ in range(runs):
            grid = Grid((blocks, 1, 1), (128, 1, 1), shared_bytes)
            device.launch(module, EntryPoint("f"), grid, args)
        return device.counts(module)
    finally:
        device.close()


def agreeing(probes: str, blocks: int = 2) -> tuple[int, ...]:
    device = EmulatorDevice()
    try:
        module = device.load(compile_side(f"{COPY} {INDEX} {probes} }}", examine=True))
        device.counts(module)
        x, y = device.allocate(4 * SIZE), device.allocate(4 * SIZE)
        device.write(x, 0, np.arange(SIZE, dtype=np.float32) + 1)
        args = [Pointer(x), Pointer(y), ScalarValue(np.int32(SIZE).tobytes())]
        device.launch(module, EntryPoint("f"), Grid((blocks, 1, 1), (128, 1, 1)), args)
        device.counts(module)
        return device.agreeing(module)
    finally:
        device.close()


def test_probes_tell_which_formulas_always_agree() -> None:
    assert agreeing("kcu_probe_whole(1, i + i, 2 * i); kcu_probe_whole(700, i + i, i * i);") == (1,)
    assert agreeing("kcu_probe_real(1, x[i], 1.00001f * x[i]); kcu_probe_real(2, x[i], 1.01f * x[i]);") == (
        1,
    )
    assert agreeing("kcu_probe_real(3, 0.0f / (x[i] - x[i]), x[i] - x[i]);") == ()


def test_a_formula_of_a_value_that_never_varies_or_is_never_reached_tells_nothing() -> None:
    assert agreeing("kcu_probe_whole(1, n, n); if (i > n) kcu_probe_whole(2, i, i);") == ()


def test_probes_tell_which_places_are_one_threads() -> None:
    assert agreeing(
        "for (int k = 0; k < 2; k++) kcu_probe_alone(1, y + i); kcu_probe_alone(2, y + i / 2);"
    ) == (1,)
    assert agreeing("kcu_probe_alone(1, y + threadIdx.x);") == ()
    assert agreeing("kcu_probe_alone(1, y + threadIdx.x);", blocks=1) == (1,)


def test_threads_and_accesses_are_counted() -> None:
    found = count(PLAIN)
    assert (found.threads, found.idle, found.accesses) == (256, 0, 512)
    assert (found.shared_bytes, found.shared_read_bytes) == (0, 0)


def test_threads_that_leave_at_once_are_idle() -> None:
    found = count(PLAIN, n=100, blocks=8)
    assert (found.threads, found.idle, found.accesses) == (1024, 924, 200)


def test_a_thread_that_only_meets_at_barriers_is_idle() -> None:
    found = count(f"{COPY} __syncthreads(); if (threadIdx.x == 0 && blockIdx.x == 0) y[0] = n; }}")
    assert (found.threads, found.idle) == (256, 255)


def test_a_thread_that_answers_a_shuffle_is_not_idle() -> None:
    found = count(f"{COPY} int v = __shfl_xor_sync(0xffffffffu, n, 1); if (threadIdx.x == 0) y[0] = v; }}")
    assert found.idle == 0


def test_code_is_counted_as_often_as_it_runs() -> None:
    once, often = count(PLAIN), count(AGAIN)
    assert count(PLAIN, runs=3).code_bytes == 3 * once.code_bytes
    assert often.code_bytes > 50 * once.code_bytes
    assert often.accesses == 256 * 256 + 256


def test_straight_code_counts_by_its_length() -> None:
    steps = " ".join(f"v = v * x[{k}] + y[{k}];" for k in range(100))
    long = f"{COPY} {INDEX} float v = x[i]; {steps} y[i] = v; }}"
    assert count(long).code_bytes > 10 * count(PLAIN).code_bytes


def test_the_first_read_of_counts_is_of_nothing_and_each_read_begins_anew() -> None:
    assert count(PLAIN, runs=0) == Counts(0, 0, 0, 0, 0, 0, 0, 0)


def test_dynamic_shared_memory_counts_as_read_where_it_is_read() -> None:
    start = f"{COPY} extern __shared__ float s[]; s[threadIdx.x] = 1.0f; __syncthreads();"
    unread = count(f"{start} y[threadIdx.x] = n; }}", shared_bytes=512)
    read = count(f"{start} y[threadIdx.x] = s[threadIdx.x ^ 1]; }}", shared_bytes=512)
    assert (unread.shared_bytes, unread.shared_read_bytes) == (512, 0)
    assert (read.shared_bytes, read.shared_read_bytes) == (512, 512)


def test_a_bulk_copy_reads_shared_memory_too() -> None:
    body = """extern __shared__ __align__(16) float s[]; s[threadIdx.x] = 1.0f; __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;"
            :: "l"(y), "r"((unsigned)__cvta_generic_to_shared(s)) : "memory");"""
    found = count(f"{COPY} {body} }}", shared_bytes=512)
    assert (found.shared_bytes, found.shared_read_bytes) == (512, 256)


def test_a_few_blocks_stand_for_all() -> None:
    whole, few = count(PLAIN, n=1 << 30, blocks=2), count(PLAIN, n=64, blocks=4096, sample=4)
    assert whole.threads == 256
    assert few.threads == 4096 * 128
    assert few.idle == few.threads  # only the first block holds any work


def test_sides_that_are_not_examined_count_nothing() -> None:
    device = EmulatorDevice()
    try:
        module = device.load(compile_side(PLAIN))
        device.counts(module)
        x = device.allocate(4 * SIZE)
        args = [Pointer(x), Pointer(x), ScalarValue(np.int32(SIZE).tobytes())]
        device.launch(module, EntryPoint("f"), Grid((2, 1, 1), (128, 1, 1)), args)
        assert device.counts(module).code_bytes == 0
    finally:
        device.close()


def test_a_matrix_product_of_a_warp_group_counts_as_its_products_and_reads() -> None:
    product = """asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
        " {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(1ull << 62 | 64ull << 32 | (base & 0x3ffff) >> 4));"""
    code = f"""extern __shared__ __align__(1024) unsigned char room[];
    {COPY} float d[4]; const unsigned base = (unsigned)__cvta_generic_to_shared(room);
    asm volatile("wgmma.fence.sync.aligned;"); for (int i = 0; i < n; i++) {product} }}"""
    once, often = (count(code, n, blocks=1, shared_bytes=8192) for n in (1, 11))
    assert often.code_bytes - once.code_bytes > 10 * 50 * 64 * 8 * 16
    assert (often.accesses - once.accesses) // 10 >= 2 * (64 + 8)  # of 16 bytes
    assert often.shared_read_bytes == 64 * 32
    assert often.idle == 0


def test_the_longest_chain_is_that_of_the_thread_that_runs_longest() -> None:
    lag = "float v = n; if (i == 5) for (int k = 0; k < 1000; k++) v = v * 0.5f + x[k % n];"
    lone = count(f"{COPY} int i = blockIdx.x * blockDim.x + threadIdx.x; {lag} if (i < n) y[i] = v; }}")
    plain = count(PLAIN)
    assert plain.chain_bytes < 200
    assert lone.chain_accesses >= 1000
    assert lone.chain_bytes > 50 * plain.chain_bytes
    assert lone.warp_bytes < 2 * lone.chain_bytes + 32 * plain.chain_bytes  # the other warps do little


def test_threads_that_meet_wait_for_the_last_of_them() -> None:
    turns = "for (int t = 0; t < 16; t++) { if (threadIdx.x == t) for (int k = 0; k < 100; k++) v += x[k];"
    code = f"{COPY} float v = 0; {turns} %s }} y[threadIdx.x] = v; }}"
    apart, together = (count(code % text, blocks=1) for text in ("", "__syncthreads();"))
    assert together.chain_accesses > 10 * apart.chain_accesses


def test_lanes_that_read_side_by_side_share_sectors() -> None:
    strided = f"{COPY} {INDEX} y[i] = 2.0f * x[i * 8 % n]; }}"
    assert count(PLAIN).sectors == 512 // 8
    assert count(strided).sectors > 256


def test_scattered_places_are_no_stride_apart() -> None:
    strided, scattered = (
        count(f"{COPY} {INDEX} y[i] = 2.0f * x[{at}]; }}") for at in ("i * 8 % n", "(i * 77 ^ 45) % n")
    )
    assert strided.sectors > 200
    assert strided.scattered < 64
    assert scattered.scattered > 100
    assert count(PLAIN).scattered < 32


def test_atomics_at_one_place_are_contended() -> None:
    code = f"{COPY} {INDEX} atomicAdd(&y[%s], 1.0f); }}"
    one, many = count(code % "0"), count(code % "i")
    assert (one.atomics, one.contended) == (256, 256)
    assert many.atomics == 256
    assert many.contended < 8


def test_launches_are_counted() -> None:
    assert count(PLAIN, runs=3).launches == 3
