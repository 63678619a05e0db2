"""TMA with tensor maps on the emulator: which bytes of a tensor are where in shared memory, and when."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulation import Array, Program
from tensor_boxes import (
    BULK,
    HEAD,
    REDUCTIONS,
    SWIZZLES,
    TO_SHARED,
    Tensor,
    box_of,
    launch,
    loaded,
    loading,
    moved,
    numbers,
    padded,
    stored,
    storing,
    swizzled,
    tensor_map,
)  # fmt: skip

from kcurate.backends.base import KernelFault, ScalarValue
from kcurate.backends.emulator.device import EmulatorDevice
from kcurate.judge.workers.inside.execute import DeviceProgram
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.program import bind
from kcurate.problem.tensor_maps import BoundTensorMap
from kcurate.records import Buffer, Init, Launch, Problem, Scalar, Side, Sizes, TensorMapArg

# Each block of a cluster of two loads one half of a tile into both.
MULTICAST = f"""{HEAD}
__global__ void __cluster_dims__(2) f(const __grid_constant__ CUtensorMap map, float *out)
{{
    __shared__ __align__(1024) float tile[2 * 8 * 32];
    __shared__ __align__(8) unsigned long long bar;
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {{ init(&bar, 1); expect(&bar, sizeof tile); }}
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x == 0)
        asm volatile("{BULK}.2d.{TO_SHARED}.multicast::cluster [%0], [%1, {{%2, %3}}], [%4], %5;"
            :: "r"(at(tile + rank * 256)), "l"(&map), "r"(0), "r"(int(8 * rank)), "r"(at(&bar)), "h"((short)3)
            : "memory");
    wait(&bar, 0);
    for (int i = threadIdx.x; i < 512; i += blockDim.x) out[512 * blockIdx.x + i] = tile[i];
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}}"""

# Two boxes, one after the other, into the same place.
AGAIN = f"""{HEAD}
__global__ void f(const __grid_constant__ CUtensorMap map, float *out, int early)
{{
    __shared__ __align__(128) float tile[8 * 32];
    __shared__ __align__(8) unsigned long long bar[2];
    const int t = threadIdx.x;
    if (t == 0)
        for (int i = 0; i < 2; i++) init(&bar[i], 1);
    __syncthreads();
    for (int i = 0; i < 2; i++) {{
        if (!early) __syncthreads();
        if (t == 0) {{
            expect(&bar[i], sizeof tile);
            asm volatile("{BULK}.2d.{TO_SHARED} [%0], [%1, {{%2, %3}}], [%4];"
                :: "r"(at(tile)), "l"(&map), "r"(0), "r"(8 * i), "r"(at(&bar[i])) : "memory");
        }}
        wait(&bar[i], 0);
        for (int k = t; k < 256; k += 64) out[256 * i + k] = tile[k];
    }}
}}"""

# A row of boxes of 32 x 8 through a ring of two, loaded by a thread that then ends.
RING = f"""{HEAD}
extern "C" __global__ void scale(const __grid_constant__ CUtensorMap from,
                                 const __grid_constant__ CUtensorMap to, int boxes)
{{
    __shared__ __align__(128) float in[2][8 * 32], out[8 * 32];
    __shared__ __align__(8) unsigned long long full[2], empty[2];
    const int t = threadIdx.x, y = 8 * blockIdx.x;
    if (t == 0)
        for (int s = 0; s < 2; s++) {{ init(&full[s], 1); init(&empty[s], 64); }}
    __syncthreads();
    if (t == 64)
        for (int i = 0; i < boxes; i++) {{
            if (i >= 2) wait(&empty[i % 2], (i / 2 - 1) % 2);
            expect(&full[i % 2], sizeof in[0]);
            asm volatile("{BULK}.2d.{TO_SHARED} [%0], [%1, {{%2, %3}}], [%4];"
                :: "r"(at(in[i % 2])), "l"(&from), "r"(32 * i), "r"(y), "r"(at(&full[i % 2])) : "memory");
        }}
    if (t >= 64) return;
    for (int i = 0; i < boxes; i++) {{
        wait(&full[i % 2], i / 2 % 2);
        for (int k = t; k < 256; k += 64) out[k] = 2 * in[i % 2][k] + 1;
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(&empty[i % 2])) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("bar.sync 1, 64;" ::: "memory");
        if (t == 0) {{
            asm volatile("{BULK}.2d.global.shared::cta.tile.bulk_group [%0, {{%1, %2}}], [%3];"
                :: "l"(&to), "r"(32 * i), "r"(y), "r"(at(out)) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        }}
        asm volatile("bar.sync 1, 64;" ::: "memory");
    }}
}}"""

CODES = {
    **{f"load {rank}": loading(rank) for rank in range(1, 6)},
    **{f"store {rank}": storing(rank) for rank in range(1, 6)},
    **{name: storing(2, name) for name, _, _ in REDUCTIONS},
    "no wait": loading(2, waits=False), "late": storing(2, late=True), "multicast": MULTICAST, "ring": RING,
    "again": AGAIN,
}  # fmt: skip


@pytest.mark.parametrize("name", CODES)
def test_these_kernels_are_ptx_of_hopper(name: str) -> None:
    nvrtc = pytest.importorskip("kcurate.backends.cuda.nvrtc")
    made = nvrtc.compile_cubin(CODES[name])
    assert made.cubin, made.log


RANDOM = np.random.default_rng(11)


def array_of(dtype: Any, *shape: int) -> Array:
    return RANDOM.integers(-90, 90, shape).astype(dtype)


def load(array: Array, at: tuple[int, ...], base: int = 0, **given: Any) -> Array:
    return loaded(Program(loading(len(at))), array, at, base, **given)


@pytest.mark.parametrize(
    "at", [(0, 0), (8, 5), (32, 17), (-8, -3), (40, 0), (0, 19), (-64, 2), (2000000000, -5)]
)
@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_a_box_of_a_ragged_matrix(swizzle: str, at: tuple[int, int]) -> None:
    array = array_of(np.float16, 19, 40)
    inner = 64 if swizzle == "none" else SWIZZLES[swizzle] * 8 + 8
    found = load(array, at, box=(inner, 16), swizzle=swizzle)
    wanted = box_of(array, at, (inner, 16), (1, 1), 0)
    assert np.array_equal(found, swizzled(wanted, swizzle))


@pytest.mark.parametrize(
    ("dtype", "x"), [(np.uint8, 8), (np.float16, 4), (np.float32, 1), (np.float32, -1), (np.float64, 1)]
)
@pytest.mark.parametrize("code", [loading(2), storing(2)])
def test_a_box_begins_at_a_multiple_of_16_bytes(code: str, dtype: Any, x: int) -> None:
    """As on an H100, where each of these ended as an illegal instruction."""
    tensor = Tensor(Program(code), array_of(dtype, 16, 64), box=(64 // np.dtype(dtype).itemsize, 8))
    with pytest.raises(KernelFault, match="not a multiple of 16 bytes") as caught:
        moved(tensor, (x, 0), np.zeros(512, np.uint8))
    assert caught.value.reason == "launch_error"


def test_swizzled_places_by_hand() -> None:
    array = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    rows = load(array, (0, 8), box=(32, 16), swizzle="128B").view(np.float32).reshape(16, 8, 4)
    assert rows[0, 0].tolist() == array[8, :4].tolist()
    assert rows[1, 1].tolist() == array[9, :4].tolist() and rows[1, 0].tolist() == array[9, 4:8].tolist()
    assert rows[7, 0].tolist() == array[15, 28:].tolist() and rows[8, 3].tolist() == array[16, 12:16].tolist()
    rows = load(array, (0, 0), box=(16, 16), swizzle="64B").view(np.float32).reshape(16, 4, 4)
    # Two rows of 64 bytes share bits 7 and 8 of their address.
    assert rows[1, 0].tolist() == array[1, :4].tolist() and rows[2, 1].tolist() == array[2, :4].tolist()
    assert rows[7, 3].tolist() == array[7, :4].tolist() and rows[8, 0].tolist() == array[8, :4].tolist()
    rows = load(array, (0, 0), box=(8, 16), swizzle="32B").view(np.float32).reshape(16, 2, 4)
    assert rows[3, 0].tolist() == array[3, :4].tolist() and rows[4, 1].tolist() == array[4, :4].tolist()
    assert rows[7, 1].tolist() == array[7, :4].tolist() and rows[8, 0].tolist() == array[8, :4].tolist()


@pytest.mark.parametrize("base", [128, 384, 1024])
def test_a_swizzle_goes_by_the_address_not_by_the_row(base: int) -> None:
    array = array_of(np.int8, 32, 128)
    found = load(array, (0, 3), base, box=(128, 8), swizzle="128B")
    # Places stay within lines of 128 bytes.
    assert np.array_equal(found, swizzled(array[3:11], "128B", base))


@pytest.mark.parametrize("swizzle", ["64B", "128B"])
def test_rows_shorter_than_the_swizzle_lie_as_far_apart(swizzle: str) -> None:
    array = array_of(np.uint16, 16, 16)
    wanted = swizzled(padded(array, swizzle), swizzle)
    written = swizzled(padded(np.full_like(array, 0xFFFF), swizzle), swizzle) > 0
    found = load(array, (0, 0), box=(16, 16), swizzle=swizzle)
    assert np.array_equal(found[written], wanted[written])
    tensor = Tensor(Program(storing(2)), np.zeros_like(array), box=(16, 16), swizzle=swizzle)
    moved(tensor, (0, 0), wanted)
    assert np.array_equal(tensor.get(), array)


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_boxes_of_every_rank(rank: int) -> None:
    array = array_of(np.float32, *(3, 4, 5, 6, 12)[5 - rank :])
    box, at = (8, 3, 2, 2, 2)[:rank], (8, -1, 4, 2, -1)[:rank]
    wanted = box_of(array, at, box, (1,) * rank, 0)
    assert np.array_equal(load(array, at, box=box).view(np.float32), wanted.reshape(-1))


def test_element_strides_skip_rows_and_boxes() -> None:
    array = array_of(np.int32, 9, 11, 8)
    steps = (2, 3, 2)  # that of the innermost axis is ignored
    found = load(array, (4, 1, -2), box=(8, 7, 5), element_strides=steps)
    assert np.array_equal(
        found.view(np.int32), box_of(array, (4, 1, -2), (8, 7, 5), (1, 3, 2), 0).reshape(-1)
    )


def test_rows_may_be_wider_than_the_tensor() -> None:
    array = array_of(np.float32, 6, 16)
    found = load(array, (8, 0), box=(8, 6), width=13).view(np.float32).reshape(6, 8)
    assert np.array_equal(found[:, :5], array[:, 8:13]) and not found[:, 5:].any()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_what_lies_outside_is_nan_where_the_map_says_so(dtype: Any) -> None:
    array = array_of(dtype, 5, 16)
    found = load(array, (-8, 2), box=(16, 4), fill="nan").view(array.dtype).reshape(4, 16)
    assert np.isnan(found[:, :8].astype(float)).all() and np.isnan(found[3].astype(float)).all()
    assert np.array_equal(found[:3, 8:], array[2:, :8])


@pytest.mark.parametrize("at", [(-8, -3), (-8, 0), (0, -3)])
@pytest.mark.parametrize("code", [storing(2), storing(2, "add")])
def test_a_store_does_not_begin_before_the_tensor(code: str, at: tuple[int, int]) -> None:
    """As on an H200, where each of these stores ended as an illegal instruction."""
    tensor = Tensor(Program(code), array_of(np.float16, 19, 40), box=(64, 16))
    with pytest.raises(KernelFault, match="negative coordinate") as caught:
        moved(tensor, at, np.zeros(2048, np.uint8))
    assert caught.value.reason == "launch_error"


@pytest.mark.parametrize("at", [(0, 0), (8, 5), (32, 17), (40, 0), (0, 19)])
@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_a_store_drops_what_lies_outside(swizzle: str, at: tuple[int, int]) -> None:
    inner = 64 if swizzle == "none" else SWIZZLES[swizzle] * 8 + 8
    array, tile = array_of(np.float16, 19, 40), array_of(np.float16, 16, inner)
    tensor = Tensor(Program(storing(2)), array, box=(inner, 16), swizzle=swizzle)
    moved(tensor, at, swizzled(tile, swizzle))
    assert np.array_equal(tensor.get(), stored(array, tile, at, lambda _, new: new))


@pytest.mark.parametrize("rank", [1, 3, 4, 5])
def test_stores_of_every_rank(rank: int) -> None:
    array = array_of(np.float32, *(3, 4, 5, 6, 12)[5 - rank :])
    box = (8, 3, 2, 2, 2)[:rank]
    tensor = Tensor(Program(storing(rank)), array, box=box)
    tile = array_of(np.float32, *box[::-1])
    moved(tensor, (4, 1, 2, 1, 1)[:rank], tile.reshape(-1).view(np.uint8))
    inside = tuple(slice(a, a + n) for a, n in zip((4, 1, 2, 1, 1)[:rank], box, strict=True))[::-1]
    wanted = array.copy()
    wanted[inside] = tile[tuple(slice(0, n) for n in wanted[inside].shape)]
    assert np.array_equal(tensor.get(), wanted)


@pytest.mark.parametrize(("name", "dtype", "how"), REDUCTIONS)
def test_reductions(name: str, dtype: str, how: Any) -> None:
    array, tile = array_of(numpy_dtype(dtype), 10, 16), array_of(numpy_dtype(dtype), 8, 8)
    tensor = Tensor(
        Program(storing(2, name)), array, box=(8, 8), swizzle="32B" if array.itemsize == 4 else "none"
    )
    moved(tensor, (8, 4), swizzled(tile, tensor.map.swizzle))
    with np.errstate(over="ignore"):
        assert np.array_equal(tensor.get(), stored(array, tile, (8, 4), how))


@pytest.mark.parametrize(("name", "dtype"), [("min", np.float32), ("and", np.float16), ("add", np.uint8)])
def test_a_type_without_that_reduction(name: str, dtype: Any) -> None:
    tensor = Tensor(Program(storing(2, name)), array_of(dtype, 16, 16), box=(16, 8))
    with pytest.raises(KernelFault, match="a reduction that the type") as caught:
        moved(tensor, (0, 0), np.zeros(16 * 8 * tensor.array.itemsize, np.uint8))
    assert caught.value.reason == "launch_error"


def test_blocks_of_a_cluster_load_for_each_other() -> None:
    array = array_of(np.float32, 13, 32)
    tensor = Tensor(Program(MULTICAST), array, box=(32, 8), swizzle="128B")
    out = tensor.program.put(np.zeros((4, 512), np.float32))
    launch(tensor.program, tensor.value(), out, grid=4, cluster=(2, 1, 1))
    wanted = swizzled(box_of(array, (0, 0), (32, 16), (1, 1), 0), "128B").view(np.float32)
    assert np.array_equal(tensor.program.get(out, np.zeros((4, 512), np.float32)), np.tile(wanted, (4, 1)))


def test_a_load_that_nobody_waits_for_has_brought_nothing() -> None:
    array = array_of(np.float32, 16, 32)
    tensor = Tensor(Program(loading(2, waits=False)), array, box=(32, 8))
    found = moved(tensor, (0, 0), np.zeros(1024, np.uint8)).view(np.float32)
    assert not np.isin(found, array).any()


def test_a_load_into_what_others_still_read_is_found() -> None:
    array = array_of(np.float32, 16, 32)
    right: dict[int, list[bool]] = {0: [], 1: []}
    for early, found in right.items():
        tensor = Tensor(Program(AGAIN), array, box=(32, 8))
        for _ in range(4):
            out = tensor.program.put(np.zeros_like(array))
            launch(tensor.program, tensor.value(), out, numbers(early))
            found.append(np.array_equal(tensor.program.get(out, array), array))
    assert all(right[0]) and not all(right[1])


def test_a_store_reads_shared_memory_until_it_is_waited_for() -> None:
    array, tile = array_of(np.float32, 16, 32), array_of(np.float32, 8, 32)
    tensor = Tensor(Program(storing(2, late=True)), array, box=(32, 8))
    moved(tensor, (0, 4), tile.reshape(-1).view(np.uint8))
    assert (tensor.get()[4:12].view(np.uint8) == 0x55).all()


def test_bytes_outside_the_tensor_count_as_arrived() -> None:
    tensor = Tensor(Program(loading(2), limit_s=0.5), array_of(np.float32, 3, 8), box=(8, 8))
    moved(tensor, (4, 2), np.zeros(8 * 8 * 4, np.uint8))
    with pytest.raises(KernelFault) as caught:  # waits for ever, for 16 bytes more than come
        moved(tensor, (4, 2), np.zeros(8 * 8 * 4, np.uint8), more=16)
    assert caught.value.reason == "timeout"


@pytest.mark.parametrize(
    ("base", "room", "reason", "why"),
    [
        (64, 4096, "launch_error", "not a multiple of 128 bytes"),
        (1024, 1536, "out_of_bounds", "a copy of 1024 bytes, 512 past the end of shared memory"),
    ],
)
@pytest.mark.parametrize("code", [loading(2), storing(2)])
def test_a_box_that_does_not_fit_shared_memory(
    code: str, base: int, room: int, reason: str, why: str
) -> None:
    tensor = Tensor(Program(code), array_of(np.float32, 16, 32), box=(32, 8))
    with pytest.raises(KernelFault, match=why) as caught:
        moved(tensor, (0, 0), np.zeros(512, np.uint8), base, room)
    assert caught.value.reason == reason


def test_a_tensor_that_reaches_past_its_memory_is_out_of_bounds() -> None:
    tensor = Tensor(Program(loading(2)), array_of(np.float32, 16, 32), box=(32, 8))
    longer = BoundTensorMap("a", 0, "float32", (32, 4096), (128,), (32, 8), (1, 1), "none", "none", "zeros")
    tensor.map = longer
    with pytest.raises(KernelFault) as caught:
        moved(tensor, (0, 4000), np.zeros(1024, np.uint8))
    assert caught.value.reason == "out_of_bounds"


def test_a_map_of_another_rank_and_no_map_at_all() -> None:
    tensor = Tensor(Program(loading(1)), array_of(np.float32, 16, 32), box=(32, 8))
    with pytest.raises(KernelFault, match="coordinates"):
        moved(tensor, (0,), np.zeros(1024, np.uint8))
    program = Program(loading(1))
    with pytest.raises(KernelFault, match="a tensor map that the plan has not made"):
        out = program.put(np.zeros(64, np.uint8))
        rest = (numbers(0, 0, 0, 0, 0, 64), numbers(0), numbers(64))
        launch(program, ScalarValue(bytes(128)), out, *rest, shared_bytes=1024)


@pytest.mark.parametrize(
    ("changed", "address", "reason", "why"),
    [
        ({"box": (32, 257)}, 0, "launch_error", r"box\[1\] is 257, outside 1..256"),
        ({"box": (64, 8), "swizzle": "128B"}, 0, "launch_error", "256 bytes, more than the swizzle's 128"),
        ({"box": (3, 8)}, 0, "launch_error", "12 bytes, not a multiple of 16"),
        ({}, 8, "launch_error", "not a multiple of 16"),
        ({"dtype": np.int32, "fill": "nan"}, 0, "launch_error", "fill nan"),
        ({"dtype": ml_dtypes.float8_e5m2, "fill": "nan", "box": (32, 8)}, 0, "launch_error", "fill nan"),
        ({"shape": (4, 5, 32), "box": (8, 1, 8), "interleave": "16B"}, 0, "unsupported", "interleave 16B"),
    ],
)
def test_maps_that_cannot_be(changed: dict[str, Any], address: int, reason: str, why: str) -> None:
    given = {"box": (32, 8), **changed}
    array = np.zeros(given.pop("shape", (16, 32)), given.pop("dtype", np.float32))
    with pytest.raises(KernelFault, match=why) as caught:
        EmulatorDevice().tensor_map(tensor_map(array, **given), address)
    assert caught.value.reason == reason


def test_copies_of_boxes_count_as_reading() -> None:
    array = array_of(np.float32, 16, 32)
    tensor = Tensor(Program(loading(2), examine=True), array, box=(8, 4))
    device, module = tensor.program.device, tensor.program.module
    device.counts(module)
    device.follow(module, [(tensor.memory.address, array.nbytes)])
    moved(tensor, (16, 3), np.zeros(128, np.uint8))
    assert device.reached(module) == (4 * (6 * 32 + 24),)
    assert device.counts(module).shared_read_bytes == 128
    tensor = Tensor(Program(storing(2), examine=True), array, box=(8, 4))
    device, module = tensor.program.device, tensor.program.module
    device.counts(module)
    moved(tensor, (16, 3), np.zeros(128, np.uint8))
    assert device.counts(module).shared_read_bytes == 128


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [
        ("__align__(1024) unsigned char", 1024),
        ("alignas(256) float", 256),
        ("__align__(WIDE) char", 1024),
        ("int", 4),
    ],
)
def test_dynamic_shared_memory_is_as_aligned_as_declared(written: str, bytes_: int) -> None:
    code = f"""#define WIDE 512
    __global__ void f(unsigned *x)
    {{
        extern __shared__ {written} room[];
        x[0] = (unsigned)__cvta_generic_to_shared(room) % {bytes_};
    }}"""
    for room in (4, 1000, 1028, 2048, 70000):
        assert Program(code).run(np.ones(1, np.uint32), shared_bytes=room)[0][0] == 0


@pytest.mark.parametrize(("m", "n"), [(8, 32), (19, 100), (3, 4), (40, 260)])
def test_a_plan_with_tensor_maps_runs(m: int, n: int) -> None:
    sizes = {"m": m, "n": n}
    maps = [TensorMapArg(name, ("n", "m"), (32, 8)) for name in "ab"]
    plan = (Launch("scale", ("ceil_div(m, 8)",), (65,), (*maps, "boxes")),)
    problem = Problem(
        Sizes((sizes,), sizes),
        {"a": Buffer("float32", ("m", "n"), Init("uniform")), "b": Buffer("float32", ("m", "n"), role="out")},
        {"boxes": Scalar("int32", "ceil_div(n, 32)")},
    )
    program = bind(problem, Side(RING, plan), sizes)
    host = Program(RING, ["scale"])
    array = RANDOM.random((m, n), np.float32)
    prepared = DeviceProgram(host.device, host.module, program, {"a": array, "b": np.zeros_like(array)})
    prepared.reset(0x7FC0DEAD)
    prepared.run()
    assert prepared.integrity() == ()
    assert np.array_equal(prepared.outputs()["b"], 2 * array + 1)
    prepared.close()
