"""The CUDA backend and the judge on a real GPU."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import small

from kcurate import store, time_limits
from kcurate.backends.base import (
    Compiled,
    CompileFailure,
    EntryPoint,
    Grid,
    KernelFault,
    Pointer,
    ScalarValue,
)
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.records import Outcome

if TYPE_CHECKING:
    from kcurate.backends.cuda.bench import Bench
    from kcurate.backends.cuda.device import CudaDevice

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def device() -> Iterator[CudaDevice]:
    from kcurate.backends.cuda.device import CudaDevice

    one = CudaDevice(0)
    yield one
    one.close()


@pytest.fixture(scope="module")
def bench(device: CudaDevice) -> Bench:
    from kcurate.backends.cuda import bench as timing

    return timing.Bench(device, build(device, timing.HELPERS, *timing.HELPER_ENTRIES))


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with contextlib.closing(Judge(JudgeConfig("cuda", calibrate=False))) as one:
        yield one


def build(device: CudaDevice, code: str, *entries: EntryPoint, symbols: tuple[str, ...] = ()) -> Compiled:
    from kcurate.backends.cuda.compiler import CudaCompiler

    made = CudaCompiler(device.arch).compile(code, entries, symbols)
    assert not isinstance(made, CompileFailure), made.log
    return made


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


def test_sums_notice_every_change(device: CudaDevice, bench: Bench) -> None:
    from kcurate.judge.workers.inside.input_sets import Region, sum_regions

    memory = device.allocate(1_000_003)
    data = np.random.default_rng(0).integers(0, 256, 1_000_003, np.uint8)
    device.write(memory, 0, data)
    whole = Region(memory, 0, 1_000_003)
    first = sum_regions(bench, [whole], 12345)
    assert sum_regions(bench, [whole], 12345) == first
    assert sum_regions(bench, [whole], 54321) != first
    for place in (0, 7, 500_000, 1_000_002):
        device.write(memory, place, data[place : place + 1] ^ 1)
        assert sum_regions(bench, [whole], 12345) != first
        device.write(memory, place, data[place : place + 1])
    assert sum_regions(bench, [whole], 12345) == first
    device.write(memory, 0, data[:16][::-1].copy())
    assert sum_regions(bench, [whole], 12345) != first
    device.free(memory)


def test_work_that_waits_for_the_device_is_no_graph(device: CudaDevice, bench: Bench) -> None:
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


def test_the_clock_reads_what_hardware_can_be(bench: Bench) -> None:
    from kcurate.backends.cuda import clock

    found = clock.read(bench)
    print(found)
    assert 2e11 < found["copy_bytes_per_s"] < 2e13
    assert 0 < found["event_overhead_us"] < 20
    assert 0 < found["chain_overhead_us"] < 30
    assert -2 < found["chain_step_us"] < 5


@pytest.mark.parametrize("name", sorted(small.honest()))
def test_every_form_of_plan_is_judged(judge: Judge, name: str) -> None:
    verdict = judge.judge(small.honest()[name])
    assert verdict.outcome.correct, (verdict.outcome, verdict.detail, verdict.log)
    assert verdict.outcome is not Outcome.CORRECT
    print(name, verdict.outcome, verdict.detail, verdict.timing_method, verdict.stages_s)


@pytest.mark.parametrize("name", ["constant", "loops", "struct", "texture", "while"])
def test_every_form_of_plan_can_be_timed_against_itself(judge: Judge, name: str) -> None:
    with judge.pair_timer(small.honest()[name], 1) as timer:
        samples = timer.measure(2)
    print(name, samples.method, samples.median_us("slow"), samples.median_us("fast"), samples.wall_s)
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


def test_short_plans_are_timed_as_chains(judge: Judge) -> None:
    verdict = judge.judge(small.scaled(bench=1 << 15))
    assert verdict.timing_method == "chain", verdict.detail
    assert verdict.fast is not None
    assert verdict.fast.median_us is not None
    assert 0.3 < verdict.fast.median_us < 10


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
        assert verdict.wall_s < 0.6 * time_limits.RUN_S["cuda"]
        assert judge.judge(small.scaled()).outcome is Outcome.CORRECT


def test_a_reference_stays_for_the_next_candidate_against_it(judge: Judge) -> None:
    first = small.scaled("first", bench=1 << 20)
    judge.judge(first)
    kept = {proxy.worker.pid for proxy in judge.pool._references.values()}
    second = small.scaled("second", small.SCALE.replace("a * x[i]", "x[i] * a"), bench=1 << 20)
    assert judge.judge(second).outcome.correct
    wrong = small.scaled("third", small.SCALE.replace("a * x[i]", "x[i] + a"), bench=1 << 20)
    assert judge.judge(wrong).outcome is Outcome.MISMATCH
    assert kept & {proxy.worker.pid for proxy in judge.pool._references.values()}


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
    reading = small.SCALE.replace("y[i] = a * x[i];", "y[i] = a * x[i] + 0.0f * (x[i + n] != x[i + n]);")
    config = JudgeConfig("cuda", calibrate=False, timed=False, sanitize=True)
    with contextlib.closing(Judge(config)) as judge:
        verdict = judge.judge(small.scaled())
        assert verdict.outcome is Outcome.CORRECT, (verdict.detail, verdict.log)
        assert {"memcheck", "racecheck", "initcheck", "synccheck"} <= set(verdict.checks)
        refused = judge.judge(small.scaled("reading", reading))
        print(refused.outcome, refused.detail, refused.log)
        assert not refused.outcome.correct
