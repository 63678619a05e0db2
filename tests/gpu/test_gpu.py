"""The CUDA backend and the judge on a real GPU."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import small

from kcurate.backends.base import (
    Compiled,
    CompileFailure,
    EntryPoint,
    Grid,
    KernelFault,
    Pointer,
    ScalarValue,
)
from kcurate.backends.noise import noise_bytes
from kcurate.core import store, time_limits
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.records import Candidate, Origin, Outcome, Tolerance
from kcurate.records.pair import SideName
from kcurate.verdicts.keys import verdict_key

if TYPE_CHECKING:
    from kcurate.backends.cuda.device import CudaDevice
    from kcurate.backends.cuda.timer import GpuTimer

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def device() -> Iterator[CudaDevice]:
    from kcurate.backends.cuda.device import CudaDevice

    one = CudaDevice(0)
    yield one
    one.close()


@pytest.fixture(scope="module")
def bench(device: CudaDevice) -> GpuTimer:
    from kcurate.backends.cuda import helpers
    from kcurate.backends.cuda.timer import GpuTimer

    return GpuTimer(device, build(device, helpers.SOURCE, *helpers.ENTRIES))


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with contextlib.closing(Judge(JudgeConfig("cuda", calibrate=False))) as one:
        yield one


def build(device: CudaDevice, code: str, *entries: EntryPoint, symbols: tuple[str, ...] = ()) -> Compiled:
    from kcurate.backends.cuda.compiler import CudaCompiler

    made = CudaCompiler(device.arch).compile(code, entries, symbols)
    assert not isinstance(made, CompileFailure), made.log
    return made


def by_a_model(candidate: Candidate) -> Candidate:
    return replace(candidate, origin=Origin("model", made="fast", model="m"))


def scalar(form: str, *values: float) -> ScalarValue:
    return ScalarValue(struct.pack(form, *values))


def floats(device: CudaDevice, memory: object, count: int) -> np.ndarray:
    return device.read(memory, 0, 4 * count).view(np.float32)  # type: ignore[arg-type]


def test_fill_write_copy_and_read_move_what_they_say(device: CudaDevice) -> None:
    a, b = device.allocate(4096), device.allocate(4096)
    for pattern in (b"\x01", b"\x01\x02", b"\x01\x02\x03\x04", b"\x01\x02\x03\x04\x05\x06\x07\x08"):
        for start in (64, 65):
            device.fill(a, 0, 4096, b"\xee")
            device.fill(a, start, 1024, pattern)
            wanted = b"\xee" * start + pattern * (1024 // len(pattern)) + b"\xee" * (4096 - 1024 - start)
            assert device.read(a, 0, 4096).tobytes() == wanted
    data = np.arange(1000, dtype=np.uint8)
    device.write(b, 24, data)
    device.copy(a, 8, b, 24, 1000)
    assert np.array_equal(device.read(a, 8, 1000), data)
    device.free(a)
    device.free(b)


def test_launch_takes_pointers_scalars_and_template_arguments(device: CudaDevice) -> None:
    code = """template <typename T, int K> __global__ void add(T* p, T a, double b, char c, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] += a * K + (T)b + c; }"""
    entry = EntryPoint("add", ("float", "3"))
    module = device.load(build(device, code, entry))
    memory = device.allocate(400)
    device.fill(memory, 0, 400, b"\0")
    args = [
        Pointer(memory, 40), scalar("<f", 2.0), scalar("<d", 0.5), scalar("<b", -1), scalar("<i", 50),
    ]  # fmt: skip
    device.launch(module, entry, Grid((2, 1, 1), (32, 1, 1)), args)
    got = floats(device, memory, 100)
    assert np.array_equal(got, np.where((np.arange(100) >= 10) & (np.arange(100) < 60), 5.5, 0.0))


def test_globals_start_again_and_uploads_reach_them(device: CudaDevice) -> None:
    code = """__constant__ float table[4] = {1, 2, 3, 4}; __device__ int counter = 7;
    extern "C" __global__ void look(float* p) { p[threadIdx.x] = table[threadIdx.x] + counter;
        __syncthreads(); if (threadIdx.x == 0) counter += 1; }"""
    entry = EntryPoint("look")
    module = device.load(build(device, code, entry, symbols=("table", "counter")))
    memory = device.allocate(16)
    device.write(memory, 0, np.array([10, 20, 30, 40], np.float32).view(np.uint8))
    device.upload(module, "table", 4, memory, 0, 8)
    launch = (module, entry, Grid((1, 1, 1), (4, 1, 1)), [Pointer(memory)])
    device.launch(*launch)
    assert floats(device, memory, 4).tolist() == [8, 17, 27, 11]
    device.launch(*launch)
    assert floats(device, memory, 4).tolist() == [9, 18, 28, 12]
    device.reset_globals(module)
    device.launch(*launch)
    assert floats(device, memory, 4).tolist() == [8, 9, 10, 11]
    with pytest.raises(KernelFault, match="no variable"):
        device.upload(module, "nothing", 0, memory, 0, 4)
    with pytest.raises(KernelFault, match="holds 16 bytes"):
        device.upload(module, "table", 12, memory, 0, 8)


def test_cooperative_launch_synchronises_the_grid(device: CudaDevice) -> None:
    code = """#include <cooperative_groups.h>
    extern "C" __global__ void sum(int* p) {
        p[blockIdx.x] = blockIdx.x;
        cooperative_groups::this_grid().sync();
        if (blockIdx.x == 0) { int s = 0; for (int i = 0; i < gridDim.x; ++i) s += p[i]; p[100] = s; } }"""
    entry = EntryPoint("sum")
    module = device.load(build(device, code, entry))
    memory = device.allocate(404)
    device.launch(module, entry, Grid((64, 1, 1), (1, 1, 1), cooperative=True), [Pointer(memory)])
    assert device.read(memory, 400, 4).view(np.int32)[0] == 64 * 63 // 2
    with pytest.raises(KernelFault):
        device.launch(module, entry, Grid((1 << 20, 1, 1), (1, 1, 1), cooperative=True), [Pointer(memory)])


def test_dynamic_shared_memory_past_the_default_and_past_the_device(device: CudaDevice) -> None:
    code = """extern "C" __global__ void last(int* p, int n) { extern __shared__ int s[];
        s[n - 1] = n; __syncthreads(); p[0] = s[n - 1]; }"""
    entry = EntryPoint("last")
    module = device.load(build(device, code, entry))
    memory = device.allocate(4)
    args = [Pointer(memory), scalar("<i", 40_000)]
    device.launch(module, entry, Grid((1, 1, 1), (1, 1, 1), 160_000), args)
    assert device.read(memory, 0, 4).view(np.int32)[0] == 40_000
    with pytest.raises(KernelFault):
        device.launch(module, entry, Grid((1, 1, 1), (1, 1, 1), 4 << 20), args)


def test_static_and_dynamic_shared_memory_are_past_the_default_together(device: CudaDevice) -> None:
    code = """extern "C" __global__ void last(int* p, int n) {
        extern __shared__ int s[]; __shared__ int own[8];
        own[n % 8] = n; s[n - 1] = n; __syncthreads(); p[0] = s[n - 1] + own[n % 8]; }"""
    entry = EntryPoint("last")
    module = device.load(build(device, code, entry))
    memory = device.allocate(4)
    grid = Grid((1, 1, 1), (1, 1, 1), 48 * 1024)
    device.launch(module, entry, grid, [Pointer(memory), scalar("<i", 12_288)])
    assert device.read(memory, 0, 4).view(np.int32)[0] == 24_576


def test_arguments_that_do_not_fit_are_refused(device: CudaDevice) -> None:
    entry = EntryPoint("k")
    module = device.load(build(device, 'extern "C" __global__ void k(int* p, int n) {}', entry))
    memory, grid = device.allocate(4), Grid((1, 1, 1), (1, 1, 1))
    with pytest.raises(KernelFault, match="1 arguments for 2"):
        device.launch(module, entry, grid, [Pointer(memory)])
    with pytest.raises(KernelFault, match="8 bytes"):
        device.launch(module, entry, grid, [Pointer(memory), scalar("<d", 1.0)])


def test_environment_names_the_gpu_and_its_state(device: CudaDevice) -> None:
    found = device.environment()
    assert found.device_uuid and found.device_uuid.startswith("GPU-")
    assert found.driver
    assert found.details["multiprocessors"]
    assert {"sm_clock_mhz", "temperature_c"} <= set(found.details)


def word(device: CudaDevice, bench: GpuTimer, queue: Callable[[int], None]) -> int:
    device.fill(bench.word, 0, 8, b"\0")
    queue(bench.word.address)
    return int(device.read(bench.word, 0, 8).view(np.uint64)[0])


def test_sums_notice_every_change(device: CudaDevice, bench: GpuTimer) -> None:
    memory = device.allocate(1_000_003)
    data = np.random.default_rng(0).integers(0, 256, 1_000_003, np.uint8)
    device.write(memory, 0, data)

    def checksum(salt: int) -> int:
        return word(device, bench, lambda slot: bench.checksum(memory, 0, 1_000_003, salt, slot))

    first = checksum(12345)
    assert checksum(12345) == first
    assert checksum(54321) != first
    for place in (0, 7, 500_000, 1_000_002):
        device.write(memory, place, data[place : place + 1] ^ 1)
        assert checksum(12345) != first
        device.write(memory, place, data[place : place + 1])
    assert checksum(12345) == first
    device.write(memory, 0, data[:16][::-1].copy())
    assert checksum(12345) != first
    device.free(memory)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float64"])
def test_fingerprints_see_the_logical_array_alone(device: CudaDevice, bench: GpuTimer, dtype: str) -> None:
    """Padding around a transposed array does not count; elements, their places and the count do."""
    from kcurate.backends.cuda.arrays import Region
    from kcurate.backends.cuda.helpers import MAX_RANK

    rows, cols, itemsize = 37, 53, np.dtype(dtype).itemsize
    logical = np.random.default_rng(1).permutation(rows * cols).astype(dtype).reshape(rows, cols)
    padded = np.pad(logical.T, ((1, 2), (3, 4)), constant_values=77)
    memory, count = device.allocate(padded.nbytes), device.allocate(4)
    rest = (0,) * (MAX_RANK - 2)
    strides = (itemsize, padded.shape[1] * itemsize)
    base = padded.shape[1] * itemsize + 3 * itemsize
    layout = (2, base, rows, cols, *rest, *strides, *rest)

    def look(values: np.ndarray, valid: int | None = None, *, ordered: bool = True) -> int:
        device.write(memory, 0, np.ascontiguousarray(values).reshape(-1).view(np.uint8))
        counted = None
        if valid is not None:
            device.write(count, 0, np.array([valid], np.int32).view(np.uint8))
            counted = (count.address, 4, True)
        region = Region(memory, 0, rows * cols, dtype, itemsize, layout, counted, ordered)
        return word(device, bench, lambda slot: bench.fingerprint(region, 99, slot))

    first = look(padded)
    other = padded.copy()
    other[0, 0] = 5
    assert look(other) == first
    changed, swapped = padded.copy(), padded.copy()
    changed[1, 3] = 78
    swapped[1, 3], swapped[2, 3] = padded[2, 3], padded[1, 3]
    assert look(changed) != first
    assert look(swapped) != first
    assert look(swapped, ordered=False) == look(padded, ordered=False)
    assert look(changed, ordered=False) != look(padded, ordered=False)
    assert look(changed, 0) == look(padded, 0) == look(padded, -3)
    late = padded.copy()
    late[cols, 2 + rows] = 78  # the last element
    assert look(late, rows * cols - 1) == look(padded, rows * cols - 1)
    assert look(late, rows * cols) != look(padded, rows * cols)
    assert look(padded, 1 << 30) == first
    device.free(memory)
    device.free(count)


@pytest.mark.parametrize("row", [0, 8, 100, 4096])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2"])
def test_close_outputs_are_compared_as_on_the_host(
    device: CudaDevice, bench: GpuTimer, dtype: str, row: int
) -> None:
    from kcurate.backends.cuda.arrays import Region
    from kcurate.problem.compare import Magnitudes, bound_of, deviation
    from kcurate.problem.dtypes import UNIT_ROUNDOFF, numpy_dtype
    from kcurate.problem.groups import CLASSES

    count = 100_003
    kind, rng = numpy_dtype(dtype), np.random.default_rng(2)
    scale = np.exp2(rng.integers(-6, 1, -(-count // (row or 50)))).repeat(row or 50)[:count]
    wanted = (rng.normal(size=count) * scale).astype(kind)
    whole = Magnitudes.of(wanted)
    bound = bound_of(dtype, Tolerance(), 16, whole, row=row)
    found, memory = device.allocate(24), device.allocate(wanted.nbytes)
    expected = device.allocate(wanted.nbytes)
    seen = set()
    for factor in (0.0, 1.0, 30.0, 1e5):
        off = rng.normal(1, factor * UNIT_ROUNDOFF[dtype], count)
        got = (wanted.astype(np.float64) * off).astype(kind)
        wanted[:4], got[:4] = [np.nan, np.nan, 1, 0], [np.nan, 1 if factor else np.nan, 1, 0]
        device.write(expected, 0, wanted.view(np.uint8) ^ noise_bytes(0, wanted.nbytes, 31, 77))
        device.write(memory, 0, got.view(np.uint8))
        device.fill(found, 0, 24, b"\0")
        bench.close(Region(memory, 0, count, dtype, kind.itemsize), expected, bound, (31, 77), found.address)
        data = device.read(found, 0, 24)
        ratio, partitions = deviation(wanted, got, bound, whole.largest)
        assert int(data[:8].view(np.uint64)[0]) == int((ratio > 1).sum())
        squares = float((partitions["block"].norm("errors") ** 2).sum())
        assert float(data[8:16].view(np.float64)[0]) == pytest.approx(squares, rel=1e-9)
        far = {what: one.norm("errors") > bound.of_groups(one) for what, one in partitions.items()}
        around = "row" if row else "block"
        far[around] |= bound.narrow(partitions[around])
        groups, fixed = int(data[16:].view(np.uint64)[0]), int(far["row"].sum() + far["block"].sum())
        assert fixed <= groups <= fixed + CLASSES
        seen.add(groups > 0)
    assert seen == {False, True}


def test_shared_and_local_memory_do_not_survive(device: CudaDevice, bench: GpuTimer) -> None:
    code = """
    extern "C" __global__ void keep(unsigned* p, int write) {
        extern __shared__ unsigned s[];
        for (int i = threadIdx.x; i < 50000; i += blockDim.x)
            if (write) s[i] = 0xC0FFEEu; else if (s[i] == 0xC0FFEEu) atomicAdd(p, 1u);
    }
    extern "C" __global__ void frame(unsigned* p, int write, int at) {
        volatile unsigned f[512];
        if (write) for (int i = 0; i < 512; ++i) f[i] = 0xC0FFEEu;
        else for (int i = 0; i < 512; ++i) if (f[(i + at) & 511] == 0xC0FFEEu) atomicAdd(p, 1u);
    }"""
    entries = (EntryPoint("keep"), EntryPoint("frame"))
    module = device.load(build(device, code, *entries))
    memory = device.allocate(4)
    grid = Grid((132, 1, 1), (1024, 1, 1), 200_000)

    def found(entry: EntryPoint, where: Grid, *rest: ScalarValue, scrub: bool) -> int:
        device.fill(memory, 0, 4, b"\0")
        device.launch(module, entry, where, [Pointer(memory), scalar("<i", 1), *rest])
        if scrub:
            bench.scrub(2048)
        device.launch(module, entry, where, [Pointer(memory), scalar("<i", 0), *rest])
        return int(device.read(memory, 0, 4).view(np.uint32)[0])

    small_grid = Grid((1056, 1, 1), (256, 1, 1))
    survived = (
        found(entries[0], grid, scrub=False),
        found(entries[1], small_grid, scalar("<i", 0), scrub=False),
    )
    print("words that survive without scrubbing", survived)
    assert found(entries[0], grid, scrub=True) == 0
    assert found(entries[1], small_grid, scalar("<i", 0), scrub=True) == 0


def test_a_cluster_of_blocks_shares_memory_and_a_tensor_map_loads_a_tile(device: CudaDevice) -> None:
    from kcurate.problem.tensor_maps import BoundTensorMap

    code = """
    struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
    extern "C" __global__ void ranks(int* p) {
        unsigned rank; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        p[blockIdx.x] = (int)rank;
    }
    extern "C" __global__ void tile(const __grid_constant__ CUtensorMap map, float* out) {
        __shared__ alignas(128) float box[8 * 8];
        __shared__ alignas(8) unsigned long long bar;
        unsigned b = (unsigned)__cvta_generic_to_shared(&bar), s = (unsigned)__cvta_generic_to_shared(box);
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b));
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(b) : "memory");
            asm volatile(
                "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                " [%0], [%1, {%2, %3}], [%4];" ::"r"(s), "l"(&map), "r"(4), "r"(6), "r"(b) : "memory");
        }
        __syncthreads();
        unsigned done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;"
                         " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(b) : "memory");
        out[threadIdx.x] = box[threadIdx.x];
    }"""
    entries = (EntryPoint("ranks"), EntryPoint("tile"))
    module = device.load(build(device, code, *entries))
    memory = device.allocate(4096)
    for cluster in (4, 16):
        device.launch(
            module, entries[0], Grid((16, 1, 1), (32, 1, 1), cluster=(cluster, 1, 1)), [Pointer(memory)]
        )
        assert device.read(memory, 0, 64).view(np.int32).tolist() == [i % cluster for i in range(16)]
    source = np.arange(16 * 12, dtype=np.float32)
    device.write(memory, 0, source.view(np.uint8))
    shape = BoundTensorMap("a", 0, "float32", (12, 16), (48,), (8, 8), (1, 1), "none", "none", "zeros")
    out = device.allocate(256)
    args = [ScalarValue(device.tensor_map(shape, memory.address)), Pointer(out)]
    device.launch(module, entries[1], Grid((1, 1, 1), (64, 1, 1)), args)
    tile = np.zeros((8, 8), np.float32)
    tile[:, :8] = source.reshape(16, 12)[6:14, 4:12]
    assert np.array_equal(device.read(out, 0, 256).view(np.float32).reshape(8, 8), tile)


def test_work_that_waits_for_the_device_is_no_graph(device: CudaDevice, bench: GpuTimer) -> None:
    memory = device.allocate(64)
    assert bench.capture(lambda: device.read(memory, 0, 4) and None) is None
    graph = bench.capture(lambda: [device.fill(memory, i, 1, b"\x09") for i in range(3)] and None)
    assert graph is not None
    assert graph.nodes == 3
    graph.launch()
    assert device.read(memory, 0, 3).tolist() == [9, 9, 9]
    nothing = bench.capture(lambda: None)
    assert nothing is not None
    assert nothing.nodes == 0


def test_the_clock_reads_what_hardware_can_be(bench: GpuTimer) -> None:
    from kcurate.backends.cuda import clock

    found = clock.read(bench)
    print(found)
    assert 2e11 < found["copy_bytes_per_s"] < 2e13
    assert 0 < found["event_overhead_us"] < 20
    assert 0 < found["graph_overhead_us"] < 20


@pytest.mark.parametrize("name", sorted(small.honest()))
def test_every_form_of_plan_is_judged(judge: Judge, name: str) -> None:
    verdict = judge.judge(small.honest()[name])
    assert verdict.outcome.correct, (verdict.outcome, verdict.detail, verdict.log)
    assert verdict.outcome is not Outcome.CORRECT
    print(name, verdict.outcome, verdict.detail, verdict.stages_s)


@pytest.mark.parametrize("name", ["constant", "loops", "struct", "texture", "while"])
def test_every_form_of_plan_can_be_timed_against_itself(judge: Judge, name: str) -> None:
    with judge.pair_timer(small.honest()[name], 1) as timer:
        samples = timer.measure(2)
    print(name, samples.median_us("slow"), samples.median_us("fast"), samples.wall_s)
    assert samples.estimate is not None
    assert samples.estimate.ratio == pytest.approx(1.0, rel=0.2 if name == "while" else 0.05)


@pytest.mark.parametrize("name", sorted(small.wrong()))
def test_wrong_sides_are_refused(judge: Judge, name: str) -> None:
    one, outcomes = small.wrong()[name]
    verdict = judge.judge(one)
    assert verdict.outcome in outcomes, (verdict.outcome, verdict.detail, verdict.log)
    assert verdict.side == "fast"


def test_a_faster_side_is_confirmed_and_a_slower_one_is_not(judge: Judge) -> None:
    verdict = judge.judge(small.scaled(bench=1 << 24))
    assert verdict.outcome is Outcome.CONFIRMED, verdict.detail
    assert verdict.speedup is not None
    assert verdict.speedup.low > 1.5
    assert {"controls", "timed_outputs", "physics_floor", "redzones"} <= set(verdict.checks)
    backward = small.candidate("backward", small.problem(1 << 24), small.scaled().fast, small.scaled().slow)
    assert judge.judge(backward).outcome is Outcome.NOT_FASTER


def test_long_sums_are_verified_at_the_bench_size_beside_a_wider_reference(judge: Judge) -> None:
    cheats = Path(__file__).parents[1] / "cheats"
    for name, outcome in (
        ("honest_tree_sum", Outcome.CONFIRMED),
        ("honest_float_atomics", Outcome.CONFIRMED),
        ("bf16_at_bench", Outcome.MISMATCH),
        ("quarter_times_four", Outcome.MISMATCH),
    ):
        verdict = judge.judge(store.read_candidate(cheats / name))
        assert verdict.outcome is outcome, (name, verdict.detail)
        if outcome is Outcome.CONFIRMED:
            assert {"bench_structured", "spoiled_inputs", "wide_reference"} <= set(verdict.checks)
            print(name, verdict.stages_s)
        else:
            assert "structured inputs" in verdict.detail
    assert judge.judge(small.scaled(bench=1 << 24)).outcome is Outcome.CONFIRMED


def test_plans_too_short_to_time_are_undecided(judge: Judge) -> None:
    verdict = judge.judge(small.scaled(bench=1 << 15))
    assert verdict.outcome is Outcome.AMBIGUOUS_TIMING, verdict.detail
    assert "too short to time" in verdict.detail


def test_the_same_machine_code_is_no_pair(judge: Judge) -> None:
    renamed = small.SCALE.replace("int i", "int k").replace("[i]", "[k]").replace("i < n", "k < n")
    one = small.candidate(
        "same", small.problem(), small.Side(small.SCALE, (small.EACH,)), small.Side(renamed, (small.EACH,))
    )
    verdict = judge.judge(one)
    assert verdict.outcome is Outcome.NOT_FASTER
    assert "same machine code" in verdict.detail


def test_an_illegal_address_ends_its_process_and_no_other(judge: Judge) -> None:
    wild = small.SCALE.replace("y[i] =", "y[(long long)i * 100000000000LL + 4000000000000LL] =")
    verdict = judge.judge(small.scaled("wild", wild))
    assert verdict.outcome is Outcome.LAUNCH_ERROR, (verdict.outcome, verdict.detail)
    assert judge.judge(small.scaled()).outcome.correct


def test_a_kernel_that_never_ends_is_given_up_soon() -> None:
    spin = small.SCALE.replace("if (i < n)", "while (*(volatile const float*)x != 1e30f) ; if (i < n)")
    with contextlib.closing(Judge(JudgeConfig("cuda", calibrate=False, timed=False))) as judge:
        verdict = judge.judge(small.scaled("spin", spin))
        assert verdict.outcome in (Outcome.TIMEOUT, Outcome.STATIC_REJECT), verdict.detail
        assert verdict.wall_s < time_limits.RUN_S["cuda"]
        assert judge.judge(small.scaled()).outcome is Outcome.CORRECT


def test_a_reference_stays_for_the_next_candidate_against_it(judge: Judge) -> None:
    first = by_a_model(small.scaled("first", bench=1 << 20))
    judge.judge(first)
    kept = {proxy.worker.pid for proxy in judge.pool._references.values()}
    second = by_a_model(small.scaled("second", small.SCALE.replace("a * x[i]", "x[i] * a"), bench=1 << 20))
    assert judge.judge(second).outcome.correct
    wrong = by_a_model(small.scaled("third", small.SCALE.replace("a * x[i]", "x[i] + a"), bench=1 << 20))
    assert judge.judge(wrong).outcome is Outcome.MISMATCH
    assert kept & {proxy.worker.pid for proxy in judge.pool._references.values()}


def test_a_side_sees_nothing_of_the_one_before_it_in_its_process() -> None:
    """The first leaves a mark in shared and in local memory; the second is wrong if it finds it."""
    mark, kernel = "0x5eed1234u", small.SCALE.partition("{")
    declared = f"{kernel[1]} __shared__ volatile unsigned kept[8192]; volatile unsigned frame[512];"
    leave = f"for (int k = threadIdx.x; k < 8192; k += blockDim.x) kept[k] = {mark};"
    leave += f" for (int k = 0; k < 512; ++k) frame[k] = {mark};"
    seek = (
        f"bool seen = false; for (int k = threadIdx.x; k < 8192; k += blockDim.x) seen |= kept[k] == {mark};"
    )
    seek += f" for (int k = 0; k < 512; ++k) seen |= frame[k] == {mark}; if (seen) n = 0;"
    first = small.scaled("first", f"{kernel[0]}{declared}{leave}{kernel[2]}")
    second = small.scaled("second", f"{kernel[0]}{declared}{seek}{kernel[2]}")
    vouched = frozenset(map(verdict_key, (first, second)))
    with contextlib.closing(Judge(JudgeConfig("cuda", spares=1, calibrate=False, vouched=vouched))) as judge:
        assert judge.judge(first).outcome in (Outcome.CONFIRMED, Outcome.NOT_FASTER)
        take, used = judge.pool.take, []

        def noting(candidate: Candidate, reference: SideName) -> dict[SideName, SideProxy]:
            sides = take(candidate, reference)
            used.append(sides["fast"].worker.used)
            return sides

        judge.pool.take = noting  # type: ignore[method-assign]
        for candidate in 3 * [first, second]:
            verdict = judge.judge(candidate)
            assert verdict.outcome in (Outcome.CONFIRMED, Outcome.NOT_FASTER), verdict.detail
        assert any(used), "no worker was used again"
        used.clear()
        foreign = small.scaled("foreign", small.SCALE.replace("a * x[i]", "x[i] * a"))
        assert judge.judge(foreign).outcome in (Outcome.CONFIRMED, Outcome.NOT_FASTER)
        assert used == [False]


def test_two_runs_of_the_judge_agree_on_the_ratio() -> None:
    ratios = []
    for _ in range(2):
        with contextlib.closing(Judge(JudgeConfig("cuda", calibrate=False))) as judge:
            verdict = judge.judge(small.scaled(bench=1 << 24))
            assert verdict.speedup is not None, verdict.detail
            ratios.append(verdict.speedup.ratio)
    assert ratios[0] == pytest.approx(ratios[1], rel=0.03)


def test_sanitizers_see_what_a_comparison_cannot() -> None:
    from kcurate.judge import sanitizer

    if sanitizer.installed() is None:
        pytest.skip("compute-sanitizer is not installed")
    past = "y[i] = x[i + n] == 0.37f ? 2.0f * a * x[i] : a * x[i];"
    reading = small.SCALE.replace("y[i] = a * x[i];", past)
    config = JudgeConfig("cuda", calibrate=False, timed=False, sanitize=True)
    with contextlib.closing(Judge(config)) as judge:
        verdict = judge.judge(small.scaled())
        assert verdict.outcome is Outcome.CORRECT, (verdict.detail, verdict.log)
        assert {"memcheck", "racecheck", "initcheck", "synccheck"} <= set(verdict.checks)
        refused = judge.judge(small.scaled("reading", reading))
        print(refused.outcome, refused.detail, refused.log)
        assert not refused.outcome.correct
