"""Kernels that copy one box of a tensor map, on any device, and what they are to do, by the definition."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kcurate.backends.base import EntryPoint, Grid, Memory, Pointer, ScalarValue
from kcurate.problem.tensor_maps import BoundTensorMap

Array = np.ndarray[Any, np.dtype[Any]]

HEAD = """#include <cuda.h>
__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long *bar, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(bar)), "r"(arrivals) : "memory");
}
__device__ void expect(unsigned long long *bar, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
        :: "r"(at(bar)), "r"(bytes) : "memory");
}
__device__ void wait(unsigned long long *bar, unsigned parity)
{
    asm volatile("{.reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra L;}"
        :: "r"(at(bar)), "r"(parity) : "memory");
}
"""
BULK = "cp.async.bulk.tensor"
TO_SHARED = "shared::cluster.global.tile.mbarrier::complete_tx::bytes"
DONE = """asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");"""


def coordinates(first: int, rank: int) -> str:
    return "{" + ", ".join(f"%{first + axis}" for axis in range(rank)) + "}"


def places(rank: int) -> str:
    return ", ".join(f'"r"(c[{axis}])' for axis in range(rank))


def loading(rank: int, waits: bool = True) -> str:
    """Loads a box, and writes the bytes of shared memory from `room + base` on."""
    return f"""{HEAD}
struct Coordinates {{ int c[5], expected; }};
__global__ void f(const __grid_constant__ CUtensorMap map, unsigned char *out, Coordinates where,
                  int base, int bytes)
{{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long bar;
    const int *c = where.c;
    if (threadIdx.x == 0) {{
        init(&bar, 1);
        expect(&bar, where.expected);
        asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
        asm volatile("{BULK}.{rank}d.{TO_SHARED} [%0], [%1, {coordinates(3, rank)}], [%2];"
            :: "r"(at(room) + base), "l"(&map), "r"(at(&bar)), {places(rank)} : "memory");
    }}
    __syncthreads();
    {"wait(&bar, 0);" if waits else ""}
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = room[base + i];
}}"""


def storing(rank: int, reduces: str = "", late: bool = False) -> str:
    """Stores a box, or adds it or the like, from shared memory that has the bytes of `from`."""
    how = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{reduces}" if reduces else ""
    how = how or f"{BULK}.{rank}d.global.shared::cta"
    spoil = "for (int i = 0; i < bytes; i++) room[base + i] = 0x55;"
    return f"""{HEAD}
struct Coordinates {{ int c[5], expected; }};
__global__ void f(const __grid_constant__ CUtensorMap map, const unsigned char *from, Coordinates where,
                  int base, int bytes)
{{
    extern __shared__ __align__(1024) unsigned char room[];
    const int *c = where.c;
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) room[base + i] = from[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {{
        asm volatile("{how}.tile.bulk_group [%0, {coordinates(2, rank)}], [%1];"
            :: "l"(&map), "r"(at(room) + base), {places(rank)} : "memory");
        {spoil if late else ""}
        {DONE}
        {spoil}
    }}
}}"""


class Loaded(Protocol):
    """A side on a device, such as `emulation.Program`."""

    device: Any
    module: Any

    def put(self, array: Array) -> Memory: ...

    def get(self, memory: Memory, like: Array) -> Array: ...


class Tensor:
    """An array in a device's memory, and a map over it; what `map` is given are a map's fields."""

    def __init__(self, program: Loaded, array: Array, **given: Any) -> None:
        self.program, self.array = program, array
        self.memory = program.put(array)
        self.map = tensor_map(array, **given)

    def value(self) -> ScalarValue:
        return ScalarValue(self.program.device.tensor_map(self.map, self.memory.address))

    def get(self) -> Array:
        return self.program.get(self.memory, self.array)


def tensor_map(array: Array, box: tuple[int, ...], **given: Any) -> BoundTensorMap:
    """A map over all of an array whose last axis is the innermost; its rows may be cut short by `width`."""
    width = given.pop("width", array.shape[-1])
    return BoundTensorMap(
        "a", 0, array.dtype.name, (width, *array.shape[-2::-1]), array.strides[-2::-1], box,
        given.pop("element_strides", (1,) * len(box)), given.pop("swizzle", "none"),
        given.pop("interleave", "none"), given.pop("fill", "zeros"),
    )  # fmt: skip


def launch(
    program: Loaded, *args: Any, block: int = 64, shared_bytes: int = 0, grid: int = 1, **more: Any
) -> None:
    values = [Pointer(arg) if isinstance(arg, Memory) else arg for arg in args]
    shape = Grid((grid, 1, 1), (block, 1, 1), shared_bytes, **more)
    program.device.launch(program.module, EntryPoint("f"), shape, values)


def numbers(*values: int) -> ScalarValue:
    return ScalarValue(np.array(values, np.int32).tobytes())


def moved(
    tensor: Tensor, at: tuple[int, ...], data: Array, base: int = 0, room: int | None = None, more: int = 0
) -> Array:
    """Run a kernel of `loading` or `storing`: `data` is bytes of shared memory, from `base` on.

    A load waits for `more` bytes than its box has.
    """
    memory = tensor.program.put(data)
    count = int(np.prod(box_shape(tensor.map.box, (1, *tensor.map.element_strides[1:]))))
    expected = count * tensor.array.itemsize + more
    where = (numbers(*at, *[0] * (5 - len(at)), expected), numbers(base), numbers(data.nbytes))
    shared_bytes = base + data.nbytes if room is None else room
    launch(tensor.program, tensor.value(), memory, *where, shared_bytes=shared_bytes)
    return tensor.program.get(memory, data)


def box_shape(box: tuple[int, ...], steps: tuple[int, ...]) -> tuple[int, ...]:
    """Elements of a box along each axis, outermost first; `box` and `steps` begin with the innermost."""
    return tuple(-(-extent // step) for extent, step in zip(box[::-1], steps[::-1], strict=True))


def box_of(
    array: Array, at: tuple[int, ...], box: tuple[int, ...], steps: tuple[int, ...], fill: Any
) -> Array:
    """The box at `at` (innermost first, as `box`), by the definition."""
    found = np.full(box_shape(box, steps), fill, array.dtype)
    for index in np.ndindex(*found.shape):
        place = tuple(a + i * s for a, i, s in zip(at[::-1], index, steps[::-1], strict=True))
        if all(0 <= p < n for p, n in zip(place, array.shape, strict=True)):
            found[index] = array[place]
    return found


SWIZZLES = {"none": 0, "32B": 1, "64B": 3, "128B": 7}


def padded(data: Array, swizzle: str) -> Array:
    """Rows as a swizzled box has them: as far apart as the swizzle is wide, zeros between."""
    rows = data.view(np.uint8)
    found = np.zeros((len(rows), 16 * (SWIZZLES[swizzle] + 1)), np.uint8)
    found[:, : rows.shape[1]] = rows
    return found


def swizzled(data: Array, swizzle: str, base: int = 0) -> Array:
    """Where the bytes of a dense box at address `base` lie: piece p of 16 bytes at p xor p / 8's low bits."""
    pieces = data.reshape(-1).view(np.uint8).reshape(-1, 16)
    first = base // 16
    found = np.zeros_like(pieces)
    for number in range(len(pieces)):
        place = first + number
        found[(place ^ (place >> 3 & SWIZZLES[swizzle])) - first] = pieces[number]
    return found.reshape(-1)


def stored(array: Array, tile: Array, at: tuple[int, int], how: Any) -> Array:
    """The array after a box at `at` was combined with it."""
    wanted = array.copy()
    for y, x in np.ndindex(*tile.shape):
        if 0 <= y + at[1] < array.shape[0] and 0 <= x + at[0] < array.shape[1]:
            wanted[y + at[1], x + at[0]] = how(array[y + at[1], x + at[0]], tile[y, x])
    return wanted


def loaded(program: Loaded, array: Array, at: tuple[int, ...], base: int = 0, **given: Any) -> Array:
    """The bytes of shared memory after a box was loaded."""
    tensor = Tensor(program, array, **given)
    shape = box_shape(tensor.map.box, (1, *tensor.map.element_strides[1:]))
    row = (
        shape[-1] * array.itemsize
        if tensor.map.swizzle == "none"
        else 16 * (SWIZZLES[tensor.map.swizzle] + 1)
    )
    return moved(tensor, at, np.zeros(int(np.prod(shape[:-1])) * row, np.uint8), base)


# Every reduction, with types that have it and what it does.
REDUCTIONS = (
    ("add", "float32", np.add), ("add", "float16", np.add), ("add", "bfloat16", np.add),
    ("add", "float64", np.add), ("add", "int32", np.add), ("add", "uint64", np.add),
    ("min", "int32", np.minimum), ("max", "float16", np.maximum), ("max", "uint32", np.maximum),
    ("and", "uint32", np.bitwise_and), ("or", "uint64", np.bitwise_or), ("xor", "int32", np.bitwise_xor),
    ("inc", "uint32", lambda old, new: 0 if old >= new else old + 1),
    ("dec", "uint32", lambda old, new: new if old == 0 or old > new else old - 1),
)  # fmt: skip
