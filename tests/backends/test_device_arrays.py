"""Our kernels that make, compare and hide arrays, run on the emulator beside NumPy; no GPU is needed."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kcurate.backends.base import Compiled, EntryPoint, Grid, Memory
from kcurate.backends.cuda import helpers
from kcurate.backends.cuda.arrays import FLOAT_KINDS, DeviceArrays, Region
from kcurate.backends.emulator.device import EmulatorDevice
from kcurate.backends.noise import Held, noise_bytes
from kcurate.problem.compare import Bound, Magnitudes, bound_of, deviation
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.groups import CLASSES
from kcurate.problem.inputs.contents import generate, recipes
from kcurate.problem.inputs.counter_based import SHAPES, Recipe
from kcurate.problem.inputs.spoiled import NARROWER, Spoiled
from kcurate.records import Buffer, Init, Problem, Sizes, Tolerance
from tests.emulation import compile_side

Array = np.ndarray[Any, np.dtype[Any]]
COUNT = 3003
FLOATS = sorted(FLOAT_KINDS)


class Small(EmulatorDevice):
    """Few threads a block: the emulator starts each of them."""

    def launch(self, module: Any, entry: EntryPoint, grid: Grid, args: Any) -> None:
        super().launch(module, entry, replace(grid, block=(64, 1, 1)), args)


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return compile_side(helpers.SOURCE, helpers.ENTRIES)


@pytest.fixture
def arrays(compiled: Compiled) -> Iterator[DeviceArrays]:
    device = Small()
    yield DeviceArrays(device, device.load(compiled), 1)
    device.close()


def region(arrays: DeviceArrays, dtype: str, values: Array | int, **parts: Any) -> Region:
    count = values if isinstance(values, int) else values.size
    size = numpy_dtype(dtype).itemsize
    memory = arrays.device.allocate(max(1, count) * size)
    if not isinstance(values, int):
        arrays.device.write(memory, 0, np.ascontiguousarray(values).view(np.uint8))
    return Region(memory, 0, count, dtype, size, **parts)


def held(arrays: DeviceArrays, where: Region) -> Array:
    data = arrays.device.read(where.memory, 0, where.size_bytes)
    return np.ascontiguousarray(data).view(numpy_dtype(where.dtype))


def same_bits(one: Array, other: Array) -> bool:
    return one.tobytes() == other.tobytes()


def made(arrays: DeviceArrays, buffer: Buffer, variation: str, terms: int = 1) -> tuple[Array, Array]:
    """A buffer's values as the host makes them, and as the device does."""
    total = Buffer("float32", (1,), role="out", tolerance=Tolerance(terms=terms))
    problem = Problem(Sizes(({"n": COUNT},), {"n": COUNT}), {"x": buffer, "total": total})
    recipe = recipes(problem, None, {"n": COUNT}, 11, variation)[0]["x"]
    assert isinstance(recipe, Recipe)
    where = region(arrays, buffer.dtype, COUNT)
    arrays.make(where, recipe)
    return generate(problem, None, {"n": COUNT}, 11, variation)["x"], held(arrays, where)


@pytest.mark.parametrize("variation", ["nominal", *SHAPES, "structured"])
@pytest.mark.parametrize("kind", ["uniform", "normal"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_device_makes_the_hosts_floats(arrays: DeviceArrays, dtype: str, kind: str, variation: str) -> None:
    how = Init(kind, {"low": -1.5, "high": 2.5} if kind == "uniform" else {"mean": 0.3, "std": 2.5})
    host, device = made(arrays, Buffer(dtype, ("n",), how), variation)
    assert same_bits(host, device)
    if variation in ("nominal", "structured"):
        assert len(np.unique(host.astype(np.float64))) >= (5 if variation == "structured" else 20)


@pytest.mark.parametrize("variation", ["nominal", *SHAPES])
@pytest.mark.parametrize("shape", [("n",), (3, "ceil_div(n, 3)"), ("n", 1)])
def test_a_device_makes_the_hosts_patches_in_rows(
    arrays: DeviceArrays, shape: tuple[int | str, ...], variation: str
) -> None:
    for dtype, how in (("int32", Init("integers", {"low": -3, "high": 900})), ("float32", Init("uniform"))):
        host, device = made(arrays, Buffer(dtype, shape, how), variation)
        assert same_bits(host.ravel(), device)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("width", [1, 50, 100, 5000])
def test_sorted_rows_of_any_length_ascend(arrays: DeviceArrays, dtype: str, width: int) -> None:
    recipe = Recipe("sorted", dtype, 10_000, 3 << 60, low=-5, span=300, width=width)
    where = region(arrays, dtype, recipe.count)
    arrays.make(where, recipe)
    values = held(arrays, where)
    assert same_bits(recipe.values(), values)
    assert (np.diff(values.reshape(-1, width), axis=1) >= 0).all()
    assert values.min() >= -5
    assert values.max() < 295 or (values.max() == 295 and dtype == "float32")


def test_columns_of_long_full_and_empty_rows_ascend(arrays: DeviceArrays) -> None:
    starts = np.cumsum([0, 0, 1, 70, 6000, 4500, 0, 5, 6001])
    recipe = Recipe("columns", "int32", int(starts[-1]), 12, extent=6001, table=starts)
    where = region(arrays, "int32", recipe.count)
    arrays.make(where, recipe)
    values = held(arrays, where)
    assert same_bits(recipe.values(), values)
    for start, end in itertools.pairwise(starts):
        assert (np.diff(values[start:end]) > 0).all()
    assert (values[starts[-2] :] == np.arange(6001)).all()
    assert values.min() >= 0


@pytest.mark.parametrize(("low", "terms"), [(-1.0, 1 << 20), (-1.0, 1 << 26), (0.5, 1 << 20)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_device_makes_the_hosts_thinned_and_uneven_inputs(
    arrays: DeviceArrays, dtype: str, low: float, terms: int
) -> None:
    from kcurate.problem.inputs import contents

    buffer = Buffer(dtype, ("n",), Init("uniform", {"low": low, "high": 2}))
    density = contents.KEPT_TERMS / terms
    recipe = contents._generated("x", buffer, {"n": COUNT}, 5, "structured", density)
    assert isinstance(recipe, Recipe)
    assert recipe.form == ("uneven" if low > 0 else "table")
    where = region(arrays, dtype, COUNT)
    arrays.make(where, recipe)
    assert same_bits(recipe.values(), held(arrays, where))


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int32", -7, 1000), ("uint8", 0, 256), ("int64", -(1 << 40), -(1 << 40) + 5), ("bool", 0, 2),
     ("uint32", 0, 1 << 32), ("int16", -5, 5), ("uint64", 3, 4)],
)  # fmt: skip
def test_a_device_makes_the_hosts_integers(arrays: DeviceArrays, dtype: str, low: int, high: int) -> None:
    how = Init("integers", {"low": low, "high": high})
    host, device = made(arrays, Buffer(dtype, ("n",), how), "nominal")
    assert same_bits(host, device)
    assert host.astype(object).min() >= low
    assert host.astype(object).max() < high


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "uint8", "int64"])
def test_a_device_makes_the_hosts_sorted_rows(arrays: DeviceArrays, dtype: str) -> None:
    how = Init("sorted", {"low": -3.5, "high": 2.5} if dtype in FLOATS else {"low": 5, "high": 200})
    host, device = made(arrays, Buffer(dtype, (3, "ceil_div(n, 3)"), how), "nominal")
    assert same_bits(host, device)
    assert (np.diff(host.astype(np.float64), axis=1) >= 0).all()


@pytest.mark.parametrize(("rows", "cols", "skew"), [(300, 5000, 0.0), (900, 100, 1.2), (3003, 7, 0.0)])
def test_a_device_makes_the_hosts_columns(arrays: DeviceArrays, rows: int, cols: int, skew: float) -> None:
    how = Init("csr_columns", {"rows": rows, "cols": cols, "nnz": COUNT, "skew": skew})
    host, device = made(arrays, Buffer("int32", ("n",), how), "nominal")
    assert same_bits(host, device)
    assert 0 <= host.min() <= host.max() < cols


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_device_rounds_floats_like_numpy(arrays: DeviceArrays, dtype: str) -> None:
    """Over the whole range: overflow, subnormals, ties."""
    rng = np.random.default_rng(3)
    span = 700 if dtype == "float64" else 60000
    for low, scale in ((0.0, span), (-1.0, 2.0), (0.0, 2.0**-8), (0.0, 2.0**-20), (0.0, 2.0**-130)):
        recipe = Recipe("uniform", dtype, COUNT, int(rng.integers(1 << 60)), low, scale)
        where = region(arrays, dtype, COUNT)
        arrays.make(where, recipe)
        assert same_bits(recipe.values(), held(arrays, where))


def test_a_recipe_goes_to_padded_and_permuted_places(arrays: DeviceArrays) -> None:
    recipe = Recipe("normal", "float32", 6, 9)
    memory = arrays.device.allocate(64)
    arrays.device.fill(memory, 0, 64, b"\0")
    rest = (0,) * 4
    where = Region(memory, 0, 6, "float32", 4, (2, 8, 2, 3, *rest, 4, 16, *rest))
    arrays.make(where, recipe)
    grid = arrays.device.read(memory, 0, 64).view(np.float32)
    assert same_bits(recipe.values().reshape(2, 3), np.ascontiguousarray(grid[2:14].reshape(3, 4)[:, :2].T))
    assert np.count_nonzero(grid) == 6


@pytest.mark.parametrize("dtype", sorted(NARROWER))
@pytest.mark.parametrize("low", [-1.0, 2.0])
def test_a_device_spoils_as_the_host(arrays: DeviceArrays, dtype: str, low: float) -> None:
    values = Recipe("uniform", dtype, COUNT, 77, low, 1.5).values()
    if dtype == "float64":
        values *= 1 - 2.0**-40
    for how in (Spoiled(narrow=True), Spoiled(hole=("x", 1000, 300))):
        where = region(arrays, dtype, values)
        if how.narrow:
            arrays.narrow(where)
        else:
            arrays.hole(where, 1000, 300)
        wanted = how.apply("x", values.copy(), dtype)
        assert same_bits(wanted, held(arrays, where))
        assert not same_bits(wanted, values)


@pytest.mark.parametrize("dtype", FLOATS)
def test_magnitudes_are_numpys(arrays: DeviceArrays, dtype: str) -> None:
    values = Recipe("normal", dtype, COUNT, 5, 0.5, 3.0).values()
    if dtype != "float8_e4m3":
        values[7] = np.inf
    values[9] = np.nan
    found, count = arrays.magnitudes(region(arrays, dtype, values))
    wanted = Magnitudes.of(values)
    assert count == COUNT
    assert found.largest == wanted.largest
    assert found.rms == pytest.approx(wanted.rms, rel=1e-12)


def test_magnitudes_count_the_valid_part_and_survive_large_numbers(arrays: DeviceArrays) -> None:
    values = np.array([1e300, -3e300, 5e307], np.float64)
    count = region(arrays, "int32", np.array([2], np.int32))
    where = region(arrays, "float64", values, counted_by=(count.memory.address, 4, True))
    found, counted = arrays.magnitudes(where)
    assert (counted, found.largest) == (2, 3e300)
    assert found.rms == pytest.approx(np.sqrt(5.0) * 1e300)
    nothing, _ = arrays.magnitudes(region(arrays, "float64", np.zeros(4)))
    assert nothing == Magnitudes(0.0, 0.0)


def compared(
    arrays: DeviceArrays, where: Region, expected: Memory, hiding: tuple[int, int], bound: Bound
) -> Any:
    arrays.device.fill(arrays.word, 0, 24, b"\0")
    arrays.close(where, expected, bound, hiding, arrays.word.address)
    return struct.unpack("<QdQ", arrays.device.read(arrays.word, 0, 24).tobytes())


@pytest.mark.parametrize("dtype", FLOATS)
def test_hidden_values_are_compared_and_read_as_noise(arrays: DeviceArrays, dtype: str) -> None:
    values = Recipe("uniform", dtype, COUNT, 5, 1.0, 2.0).values()
    where = region(arrays, dtype, values)
    copy = arrays.device.allocate(where.size_bytes)
    salt, key = 12345678901234567, 987654321987654321
    arrays.hide(where, copy, salt, key)
    data = arrays.device.read(copy, 0, where.size_bytes)
    assert (data != values.view(np.uint8)).mean() > 0.9
    assert same_bits(data ^ noise_bytes(0, data.size, salt, key), values)
    tight = Bound(1e-6, 0.0, 0.0, 0.0, 0.0, 1e-6, 0.0)
    assert compared(arrays, where, copy, (salt, key), tight) == (0, 0.0, 0)
    other = values.copy()
    other[5] = other[5].astype(np.float64) * 2
    wrong, squares, groups = compared(arrays, region(arrays, dtype, other), copy, (salt, key), tight)
    off = float(other[5]) - float(values[5])
    assert (wrong, squares, groups) == (1, pytest.approx(off * off), 2)  # a block and a class


def answered(arrays: DeviceArrays, wanted: Array, got: Array, bound: Bound, **parts: Any) -> Any:
    """What a device says of `got` beside hidden expected values."""
    dtype = str(wanted.dtype)
    copy = arrays.device.allocate(wanted.nbytes)
    arrays.hide(region(arrays, dtype, wanted), copy, 4, 5)
    return compared(arrays, region(arrays, dtype, got, **parts), copy, (4, 5), bound)


@pytest.mark.parametrize("valid", [None, 2000])
@pytest.mark.parametrize("row", [0, 8, 31, 100, 256, 300, 1001])
def test_a_device_compares_groups_as_the_host_does(arrays: DeviceArrays, row: int, valid: int | None) -> None:
    """Rows and blocks of very different scale, of which some are left out or off by little."""
    rng = np.random.default_rng(row)
    width = row or 50
    scale = np.exp2(rng.integers(-30, 1, -(-COUNT // width))).repeat(width)[:COUNT]
    wanted = (rng.standard_normal(COUNT) * scale).astype(np.float32)
    wanted[17], count = np.nan, valid or COUNT
    parts = {}
    if valid is not None:
        counter = region(arrays, "int32", np.array([valid], np.int32))
        parts["counted_by"] = (counter.memory.address, 4, True)
    verdicts = set()
    for factor in (1e-9, 1e-6, 3e-5, 1e-4, 1e-2, 1.0):
        got = (wanted.astype(np.float64) * (1 + factor * rng.standard_normal(COUNT))).astype(np.float32)
        if factor == 1e-9:
            got[scale < 2**-20] = 0
        whole = Magnitudes.of(wanted[:count])
        bound = bound_of("float32", Tolerance(), 64, whole, row=row)
        wrong, squares, groups = answered(arrays, wanted, got, bound, **parts)
        ratio, partitions = deviation(wanted[:count], got[:count], bound, whole.largest)
        assert wrong == int((ratio > 1).sum())
        assert squares == pytest.approx(float(np.sum(partitions["block"].norm("errors") ** 2)))
        far = {what: one.norm("errors") > bound.of_groups(one) for what, one in partitions.items()}
        around = "row" if row else "block"
        fixed = (
            far["row"].sum(),
            far["block"].sum(),
            (bound.narrow(partitions[around]) & ~far[around]).sum(),
        )
        assert sum(fixed) <= groups <= sum(fixed) + CLASSES
        verdicts.add((wrong > 0, groups > 0))
    assert {(False, False), (True, True)} <= verdicts


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_fingerprints_follow_contents_and_order(arrays: DeviceArrays, dtype: str) -> None:
    values = Recipe("integers", "int32", COUNT, 3, extent=200).values().astype(numpy_dtype(dtype))

    def printed(array: Array, salt: int = 5, **parts: Any) -> int:
        arrays.device.fill(arrays.word, 0, 8, b"\0")
        arrays.fingerprint(region(arrays, dtype, array, **parts), salt, arrays.word.address)
        return int(arrays.device.read(arrays.word, 0, 8).view(np.uint64)[0])

    turned = values[::-1].copy()
    changed = values.copy()
    changed[-1] += 1
    assert printed(values) == printed(values) != printed(turned)
    assert printed(values, 6) != printed(values) != printed(changed)
    assert printed(values, ordered=False) == printed(turned, ordered=False)
    assert printed(values, ordered=False) != printed(changed, ordered=False)


def test_noise_is_the_hosts_and_changes_show(arrays: DeviceArrays) -> None:
    memory = arrays.device.allocate(1000)
    arrays.noise(memory, 3, 900, 42)
    wanted = noise_bytes(memory.address + 3, 900, 42, arrays.key)
    assert same_bits(arrays.device.read(memory, 3, 900), wanted)
    where = Held(memory, 3, 900, 42)
    assert arrays.changed([where, Held(memory, 3, 0, 41), Held(memory, 3, 900, 41)]) == [False, False, True]
    arrays.device.fill(memory, 500, 1, b"\0" if wanted[497] else b"\1")
    assert arrays.changed([where]) == [True]
    copy = arrays.device.allocate(900)
    arrays.device.copy(copy, 0, memory, 8, 900)
    same = Held(memory, 8, 900, copy)
    assert arrays.changed([same]) == [False]
    arrays.device.fill(copy, 899, 1, bytes([~int(arrays.device.read(copy, 899, 1)[0]) & 255]))
    assert arrays.changed([where, same]) == [True, True]


@pytest.mark.parametrize("valid", [None, 700])
def test_fingerprints_of_records_ignore_their_order_but_see_torn_ones(
    arrays: DeviceArrays, valid: int | None
) -> None:
    rng, count = np.random.default_rng(1), 1001
    keys, rows = rng.integers(0, 9, count).astype(np.int32), rng.standard_normal((count, 3)).astype("f2")
    parts: dict[str, Any] = {"ordered": False}
    if valid is not None:
        counter = region(arrays, "int32", np.array([valid], np.int32))
        parts["counted_by"] = (counter.memory.address, 4, True)

    def printed(first: Array, second: Array, salt: int = 5) -> int:
        members = [region(arrays, "int32", first, **parts), region(arrays, "float16", second, **parts)]
        return arrays.sum_of(lambda word: arrays.record_fingerprint(members, count, salt, word))

    whole = printed(keys, rows)
    order = np.r_[rng.permutation(valid or count), valid or count : count]
    assert printed(keys[order], rows[order]) == whole
    assert printed(keys, rows, 6) != whole
    assert printed(keys[order], rows) != whole
    assert printed(keys, rows[order]) != whole
    turned = rows.copy()
    turned[3] = rows[3, ::-1]
    assert printed(keys, turned) != whole
    behind = rows.copy()
    behind[900] = 0
    assert (printed(keys, behind) == whole) is (valid is not None)
