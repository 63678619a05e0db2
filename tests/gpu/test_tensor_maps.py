"""Where a GPU puts the boxes of tensor maps: the kernels of the emulator's tests, by the same definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tensor_boxes import (
    REDUCTIONS,
    SWIZZLES,
    Array,
    Tensor,
    box_of,
    loaded,
    loading,
    moved,
    padded,
    stored,
    storing,
    swizzled,
)  # fmt: skip

from kcurate.backends.base import Compiled, EntryPoint, Memory
from kcurate.problem.dtypes import numpy_dtype

pytestmark = pytest.mark.gpu


class OnGpu:
    """A kernel on a GPU: arrays in, arrays out."""

    def __init__(self, device: Any, compiler: Any, code: str) -> None:
        made = compiler.compile(code, [EntryPoint("f")], ())
        assert isinstance(made, Compiled), made.log
        self.device, self.module = device, device.load(made)

    def put(self, array: Array) -> Memory:
        memory: Memory = self.device.allocate(array.nbytes)
        self.device.write(memory, 0, array.reshape(-1).view(np.uint8))
        return memory

    def get(self, memory: Memory, like: Array) -> Array:
        return self.device.read(memory, 0, like.nbytes).view(like.dtype).reshape(like.shape)


class Gpu:
    def __init__(self) -> None:
        from kcurate.backends.cuda.compiler import CudaCompiler
        from kcurate.backends.cuda.device import CudaDevice

        self.device = CudaDevice(0)
        self.compiler = CudaCompiler(self.device.arch)

    def program(self, code: str) -> OnGpu:
        return OnGpu(self.device, self.compiler, code)


@pytest.fixture(scope="module")
def gpu() -> Iterator[Gpu]:
    one = Gpu()
    yield one
    one.device.close()


RANDOM = np.random.default_rng(12)


def array_of(dtype: str, *shape: int) -> Array:
    return RANDOM.integers(-90, 90, shape).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("base", [0, 128, 384])
@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_loads(gpu: Gpu, swizzle: str, base: int) -> None:
    program = gpu.program(loading(2))
    array = array_of("float16", 19, 40)
    inner = 64 if swizzle == "none" else SWIZZLES[swizzle] * 8 + 8
    for at in ((0, 0), (8, 5), (32, 17), (-8, -3), (40, 0), (0, 19), (-64, 2), (2000000000, -5)):
        found = loaded(program, array, at, base, box=(inner, 16), swizzle=swizzle)
        wanted = box_of(array, at, (inner, 16), (1, 1), 0)
        assert np.array_equal(found, swizzled(wanted, swizzle, base)), at


@pytest.mark.parametrize("swizzle", ["64B", "128B"])
@pytest.mark.parametrize("width", [8, 16, 24])
def test_rows_shorter_than_the_swizzle(gpu: Gpu, swizzle: str, width: int) -> None:
    array = array_of("uint16", 16, width)
    wanted = swizzled(padded(array, swizzle), swizzle)
    written = swizzled(padded(np.full_like(array, 0xFFFF), swizzle), swizzle) > 0
    found = loaded(gpu.program(loading(2)), array, (0, 0), box=(width, 16), swizzle=swizzle)
    assert np.array_equal(found[written], wanted[written])
    tensor = Tensor(gpu.program(storing(2)), np.zeros_like(array), box=(width, 16), swizzle=swizzle)
    moved(tensor, (0, 0), wanted)
    assert np.array_equal(tensor.get(), array)


def test_element_strides(gpu: Gpu) -> None:
    array = array_of("int32", 9, 11, 8)
    found = loaded(gpu.program(loading(3)), array, (4, 1, -2), box=(8, 7, 5), element_strides=(2, 3, 2))
    wanted = box_of(array, (4, 1, -2), (8, 7, 5), (1, 3, 2), 0)
    assert np.array_equal(found.view(np.int32), wanted.reshape(-1))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_outside(gpu: Gpu, dtype: str) -> None:
    array = array_of(dtype, 5, 16)
    found = loaded(gpu.program(loading(2)), array, (-8, 2), box=(16, 4), fill="nan")
    print(dtype, "is filled with", found[: array.itemsize][::-1].tobytes().hex())
    values = found.view(array.dtype).reshape(4, 16)
    assert np.isnan(values[:, :8].astype(float)).all() and np.isnan(values[3].astype(float)).all()
    assert np.array_equal(values[:3, 8:], array[2:, :8])


@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_stores(gpu: Gpu, swizzle: str) -> None:
    inner = 64 if swizzle == "none" else SWIZZLES[swizzle] * 8 + 8
    program = gpu.program(storing(2))
    for at in ((0, 0), (8, 5), (32, 17)):
        array, tile = array_of("float16", 19, 40), array_of("float16", 16, inner)
        tensor = Tensor(program, array, box=(inner, 16), swizzle=swizzle)
        moved(tensor, at, swizzled(tile, swizzle))
        assert np.array_equal(tensor.get(), stored(array, tile, at, lambda _, new: new)), at


@pytest.mark.parametrize(("name", "dtype", "how"), REDUCTIONS)
def test_reductions(gpu: Gpu, name: str, dtype: str, how: Any) -> None:
    array, tile = array_of(dtype, 10, 16), array_of(dtype, 8, 8)
    tensor = Tensor(gpu.program(storing(2, name)), array, box=(8, 8))
    moved(tensor, (8, 4), tile.reshape(-1).view(np.uint8))
    with np.errstate(over="ignore"):
        assert np.array_equal(tensor.get(), stored(array, tile, (8, 4), how))
