"""What is said of a buffer's values, and which generator is named for them."""

from __future__ import annotations

import numpy as np
import pytest

from kcurate.capture.describing import Array, described
from kcurate.problem.dtypes import DTYPES, numpy_dtype
from kcurate.problem.inputs.contents import make
from kcurate.records import Buffer, Init

RNG = np.random.default_rng(7)
ROWS = np.concatenate([[0], np.cumsum(RNG.integers(0, 9, 3000))])
EXAMPLES: dict[str, tuple[Array, str, Init | None]] = {
    "zeros": (np.zeros(1000), "float32", Init("zeros")),
    "constant": (np.full(1000, 2.5), "float16", Init("constant", {"value": 2.5})),
    "uniform": (RNG.uniform(-3, 5, 20_000), "float32", Init("uniform", {"low": -3.0, "high": 5.0})),
    "rand() / RAND_MAX": (
        RNG.integers(0, 2**31, 5000) / 2**31,
        "float64",
        Init("uniform", {"low": 0.0, "high": 1.0}),
    ),
    "digits as floats": (RNG.integers(0, 10, 5000), "float32", Init("integers", {"high": 10})),
    "integers": (RNG.integers(-20, 80, 9000), "int64", Init("integers", {"low": -20, "high": 80})),
    "indices below 2**20": (RNG.integers(0, 1 << 20, 90_000), "int32", Init("integers", {"high": 1 << 20})),
    "all bytes": (RNG.integers(0, 256, 9000), "uint8", Init("integers", {"high": 256})),
    "coins": (RNG.integers(0, 2, 9000), "bool", Init("integers", {"high": 2})),
    "few flags": (
        np.arange(1000) % 10 == 3,
        "bool",
        Init("sparse", {"density": 0.1, "low": 1, "high": 1}),
    ),
    "signs": (RNG.choice([-1, 1], 3000), "int8", Init("signs")),
    "counting": (np.arange(5000), "uint32", Init("arange")),
    "every fourth": (3 + 4 * np.arange(500), "int32", Init("arange", {"start": 3, "step": 4})),
    "grid points": (np.linspace(0, 1, 4097), "float32", Init("arange", {"step": 1 / 4096})),
    "counting down": (np.arange(100, 0, -1), "int32", Init("arange", {"start": 100, "step": -1})),
    "permutation": (RNG.permutation(70_000), "int32", Init("permutation")),
    "row starts": (ROWS, "int32", Init("csr_offsets", {"rows": 3000, "nnz": int(ROWS[-1]), "cols": 3000})),
    "sorted": (
        np.sort(RNG.integers(5, 10_000, 800)),
        "int32",
        None,
    ),
    "one outlier": (np.concatenate([RNG.random(5000), [1e9]]), "float32", None),
    "two clusters": (np.concatenate([RNG.random(3000), 50 + RNG.random(3000)]), "float32", None),
    "not a number": (np.array([0.5, np.nan, 0.25] * 100), "float32", None),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_generator_that_made_the_values_is_named(name: str) -> None:
    values, dtype, wanted = EXAMPLES[name]
    found = described(values.astype(numpy_dtype(dtype)), dtype)
    assert (found.dtype, found.count) == (dtype, values.size)
    if name == "sorted":
        assert found.init is not None
        assert found.init.kind == "sorted"
    else:
        assert found.init == wanted


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "float8_e5m2"])
def test_normal_values_are_recognised_in_every_precision(dtype: str) -> None:
    found = described((2 + 0.5 * RNG.standard_normal(30_000)).astype(numpy_dtype(dtype)), dtype).init
    assert found is not None
    assert found.kind == "normal"
    assert float(found.params["mean"]) == pytest.approx(2, abs=0.03)
    assert float(found.params["std"]) == pytest.approx(0.5, rel=0.05)


def test_logarithms_of_skewed_values_are_fitted() -> None:
    found = described(np.exp(RNG.standard_normal(30_000)).astype(np.float32), "float32").init
    assert found is not None
    assert found.kind == "lognormal"


def test_sparse_reals_have_a_density_and_a_range() -> None:
    values = np.where(RNG.random(20_000) < 0.2, RNG.uniform(-1, 1, 20_000), 0).astype(np.float32)
    found = described(values, "float32").init
    assert found is not None
    assert (found.kind, found.params["low"], found.params["high"]) == ("sparse", -1.0, 1.0)
    assert float(found.params["density"]) == pytest.approx(0.2, abs=0.02)


def test_facts_count_every_element() -> None:
    values = np.tile(np.array([0.5, 1.5], np.float32), 1 << 20)
    values[7], values[-3], values[-2] = np.nan, np.inf, -4
    assert described(values, "float32").facts == {
        "lowest": -4.0, "highest": 1.5, "first": 0.5, "last": 1.5, "zeros": 0.0, "nan": 1 / values.size,
        "infinite": 1 / values.size, "sorted": False, "strictly_sorted": False, "integral": False,
    }  # fmt: skip


def test_few_different_values_are_counted_wherever_they_lie() -> None:
    high = np.uint64(2**64 - 1) - RNG.integers(0, 60_000, 70_000).astype(np.uint64)
    assert described(high, "uint64").facts["distinct"] == np.unique(high).size
    far = np.float32(2.0**70) + np.zeros(1000, np.float32)
    assert described(far, "float32").facts["distinct"] == 1
    every = RNG.integers(-128, 128, 70_000).astype(np.int8)
    assert described(every, "int8").facts["distinct"] == 256


def test_one_wrong_place_in_millions_is_no_order_and_no_permutation() -> None:
    values = np.arange(3 << 20, dtype=np.int32)
    values[2 << 20] = 5
    found = described(values, "int32")
    assert found.init is None or found.init.kind not in ("arange", "permutation", "sorted")
    assert found.facts["sorted"] is False
    shuffled = RNG.permutation(1 << 17).astype(np.uint64)
    shuffled[0] = shuffled[1]
    doubled = described(shuffled, "uint64").init
    assert doubled is None or doubled.kind != "permutation"


def test_first_elements_of_a_longer_buffer_say_nothing_about_its_end() -> None:
    found = described(np.arange(10)[::-1].astype(np.int32), "int32", 5000)
    assert (found.count, found.facts["partial"], found.facts["seen"]) == (5000, True, 10)
    assert found.init == Init("arange", {"start": 9, "step": -1})
    assert described(ROWS[:500].astype(np.int32), "int32", ROWS.size).init != EXAMPLES["row starts"][2]


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("count", [0, 1, 2, 33, 5000])
def test_any_bytes_of_any_dtype_are_described_and_can_be_made_again(dtype: str, count: int) -> None:
    kind = numpy_dtype(dtype)
    raw = np.random.default_rng(count).integers(0, 256, count * kind.itemsize, np.uint8)
    values = (raw & 1 if dtype == "bool" else raw).view(kind)
    found = described(values, dtype)
    assert found == described(values.copy(), dtype)
    assert all(value == value for value in found.facts.values())
    if found.init is not None:
        made = make("x", Buffer(dtype, (count,), found.init), {}, seed=1)
        assert made.shape == (count,)
