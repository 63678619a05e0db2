"""Every generator: its shape, its dtype, its range, the same values for the same seed, and its errors."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcurate.core import resources
from kcurate.errors import ProblemError
from kcurate.problem.check import keeps
from kcurate.problem.dtypes import UNIT_ROUNDOFF, numpy_dtype
from kcurate.problem.inputs import csr
from kcurate.problem.inputs.contents import (
    GENERATORS,
    KEPT_TERMS,
    VARIATIONS,
    check_init,
    generate,
    make,
    thinned,
    varies,
)
from kcurate.problem.inputs.counter_based import Recipe, mix, words
from kcurate.problem.inputs.draws import NEEDED, PARAMETERS, PATH, WORDS
from kcurate.problem.inputs.generators import variations
from kcurate.problem.inputs.planted import exchange_few
from kcurate.problem.inputs.spoiled import NARROWER
from kcurate.records import Buffer, Init, Problem, Side, Sizes, Tolerance

Array = npt.NDArray[Any]
SIZES = {"n": 60, "m": 12}
# For each generator: the dtype, shape and parameters of a buffer that it can fill.
EXAMPLES: dict[str, tuple[str, tuple[int | str, ...], dict[str, int | float | str]]] = {
    "uniform": ("float32", ("n", "m"), {"low": -1, "high": 3}),
    "normal": ("float16", ("n",), {"mean": 2, "std": 0.5}),
    "lognormal": ("float64", ("n",), {"mean": 0, "sigma": 0.5}),
    "mixed": ("bfloat16", ("n",), {"low_exp": -4, "high_exp": 4}),
    "integers": ("int64", ("n", 2), {"low": -5, "high": "n"}),
    "few_unique": ("int32", ("n",), {"count": 3}),
    "permutation": ("uint32", ("n",), {}),
    "arange": ("float32", ("n",), {"start": 5, "step": 0.5}),
    "constant": ("float64", ("n",), {"value": 2.25}),
    "zeros": ("bool", ("n",), {}),
    "ones": ("uint16", ("n",), {}),
    "sorted": ("float32", ("n", "m"), {"low": 1, "high": 2}),
    "one_hot": ("int8", ("n", "m"), {}),
    "sparse": ("float32", ("n", "m"), {"density": 0.25, "low": 1, "high": 2}),
    "text": ("uint8", ("n",), {"alphabet": 5}),
    "points": ("float32", ("n", 3), {"low": -2, "high": 2}),
    "image": ("uint8", (2, 9, 7), {}),
    "formula": ("int32", ("n", "m"), {"value": "max(i0 - 1, 0) * m + i1"}),
    "records": ("uint8", ("n", 16), {"fields": "uint8 ones; float32 uniform; int32*2 integers high=n"}),
    "sine": ("float32", (3, "m"), {"amplitude": 2, "growth": 0.5, "phase": 0.25}),
    "around": ("float64", ("n", 3), {"values": "1 -85.7 2.5e-3", "spread": 0.01}),
    "dominant": ("float32", ("m", "m"), {}),
    "symmetric": ("float32", (2, "m", "m"), {"low": 1, "high": 2}),
    "triangle": ("float64", ("m", "m"), {"part": "lower"}),
    "signs": ("int32", ("n",), {}),
    "rescaled": ("float32", ("n",), {"high": 4}),
    "shares": ("float32", ("n", "m"), {}),
    "csr_offsets": ("int32", ("n+1",), {"rows": "n", "cols": "m", "nnz": "4*n", "skew": 0.5}),
    "csr_columns": ("int32", ("4*n",), {"rows": "n", "cols": "m", "nnz": "4*n", "skew": 0.5}),
    "csr_rows": ("int32", ("n", 2), {"rows": "n", "cols": "m", "nnz": "4*n", "skew": 0.5}),
    "frontier": ("bool", ("n",), {"level": 2, "part": "visited"}),
    "search_tree": ("int32", (21, 15), {"fanout": 4, "levels": 2}),
    "prefix_code": ("uint32", ("n",), {"part": "words"}),
    "bit_strings": ("uint32", ("n", 4), {"strings": "n", "words": 4}),
    "bucket_places": ("int32", ("n",), {"items": "n", "buckets": 8, "blocks": 3, "threads": 4}),
    "padded_lists": ("int32", ("m+1",), {"lists": "m", "items": "n", "longest": 9, "skew": 0.5}),
    "suffix_tree": ("uint8", (3, 42), {"length": 300, "part": "queries"}),
    "addresses": ("uint64", ("n", 3), {"fields": "x i * m; y; = i"}),
    "mesh_neighbours": ("int32", (4, "n"), {}),
    "euler_state": ("float64", (5, "n"), {"mach": 0.8}),
}


def example(kind: str, variation: str = "nominal", seed: int = 1, name: str = "x") -> npt.NDArray[np.generic]:
    dtype, shape, params = EXAMPLES[kind]
    return make(name, Buffer(dtype, shape, Init(kind, params)), SIZES, seed, variation)


def test_every_generator_has_an_example() -> None:
    assert set(EXAMPLES) | {"file"} == set(GENERATORS)


@pytest.mark.parametrize("variation", VARIATIONS)
@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_shape_dtype_and_determinism(kind: str, variation: str) -> None:
    dtype, shape, _ = EXAMPLES[kind]
    values = example(kind, variation)
    assert values.dtype.name == dtype
    assert values.shape == tuple(eval(str(e), {}, SIZES) for e in shape)
    assert values.flags.c_contiguous
    assert values.tobytes() == example(kind, variation).tobytes()
    assert np.isfinite(values.astype(np.float64)).all()


FIXED = {"arange", "constant", "zeros", "ones", "formula", "sine", "prefix_code", "addresses"}


@pytest.mark.parametrize("kind", sorted(set(EXAMPLES) - FIXED))
def test_another_seed_or_buffer_gives_other_values(kind: str) -> None:
    assert example(kind, seed=1).tobytes() != example(kind, seed=2).tobytes()
    if "group" not in PARAMETERS[kind]:
        assert example(kind, name="x").tobytes() != example(kind, name="y").tobytes()


@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_a_generator_has_the_variations_that_it_declares(kind: str) -> None:
    made = {variation: example(kind, variation).tobytes() for variation in VARIATIONS}
    declared = {*variations(kind, EXAMPLES[kind][0], ()), "nominal"}
    assert len({made[variation] for variation in declared}) == len(declared)
    assert {made[variation] for variation in set(VARIATIONS) - declared} <= {made["nominal"]}


def shaped(variation: str, *promises: Any, rows: int = 8, dtype: str = "float32") -> Array:
    """Uniform values from -1 to 1, `(rows, 4096)`."""
    how = Init("uniform", {"low": -1, "high": 1})
    buffer = Buffer(dtype, (rows, 4096), how, promises=promises)
    return make("x", buffer, {}, 3, variation).astype(np.float64)


def test_shapes_are_what_they_are_called() -> None:
    assert shaped("low").max() < -0.99 and shaped("high").min() > 0.99
    assert shaped("low", "varied").max() + 0.01 > -0.75 and shaped("low", "varied").std() > 0.05
    assert len(np.unique(shaped("alike"))) == 1
    assert 1 < len(np.unique(shaped("few"))) <= 4
    assert (np.frexp(shaped("few"))[0] * 16 % 1 == 0).all()  # sums of such values are exact
    assert (np.diff(shaped("ascending")) >= 0).all() and (np.diff(shaped("descending")) <= 0).all()
    largest = np.flatnonzero(shaped("strided", rows=1).ravel() > 0.751)
    steps = np.unique(np.diff(largest))
    assert steps.size == 1 and steps[0] in (32, 64, 128, 256)


def test_the_largest_and_the_smallest_neighbours_differ_by_one_unit_in_the_last_place() -> None:
    rows = shaped("neighbours").astype(np.float32)
    ordered = np.sort(rows, axis=1)
    for ends in (ordered[:, -4:], ordered[:, :4]):
        assert (np.abs(np.diff(ends.view(np.int32), axis=1)) == 1).any(axis=1).all()
    assert len(np.unique(np.argmax(rows, axis=1))) > 1


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int32", "uint64"])
@pytest.mark.parametrize(("low", "high"), [(0, 1000), (5000, 6000), (-300, 200)])
def test_neighbours_stay_in_the_range_and_are_as_close_as_the_type_allows(
    dtype: str, low: int, high: int
) -> None:
    if dtype == "uint64" and low < 0:
        return
    kind = "uniform" if dtype in UNIT_ROUNDOFF else "integers"
    how = Init(kind, {"low": low, "high": high})
    values = make("x", Buffer(dtype, (50, 300), how), {}, 8, "neighbours")
    reals = values.astype(np.float64)
    assert dtype == "bfloat16" or (low <= reals.min() and reals.max() < high)
    ordered = np.sort(reals, axis=1)
    if dtype != "bfloat16":
        spacing = np.spacing(ordered[:, -1].astype(dtype)) if kind == "uniform" else 1
        assert (ordered[:, -1] - ordered[:, -2] <= spacing).mean() > 0.7
    for name in ("distinct", "varied") if dtype == "float64" else ("varied",):
        kept = make("x", Buffer(dtype, (50, 300), how, promises=(name,)), {}, 8, "neighbours")
        assert keeps(name, kept)


@pytest.mark.parametrize(("shape", "width"), [((50, 12), 12), ((700,), 64)])
def test_texts_that_are_neighbours_differ_in_one_symbol(shape: tuple[int, ...], width: int) -> None:
    text = make("x", Buffer("uint8", shape, Init("text", {"alphabet": 5})), {}, 8, "neighbours").reshape(-1)
    pairs = text[: text.size // (2 * width) * 2 * width].reshape(-1, 2, width)
    assert ((pairs[:, 0] != pairs[:, 1]).sum(axis=1) == 1).all()
    assert set(text) == set(range(5))


def test_high_values_of_long_sums_are_not_nearly_equal() -> None:
    buffer = Buffer("float32", (40000,), Init("uniform", {"low": 0, "high": 1}))
    for rounded_down, least in ((True, 0.999), (False, 0.875)):
        high = make("x", buffer, {}, 8, "high", rounded_down=rounded_down)
        assert least <= high.min() < least + 0.001


def test_long_sums_and_8_bit_floats_have_no_neighbours() -> None:
    assert "neighbours" not in variations("uniform", "float8_e4m3", ())
    buffer = Buffer("float32", (50, 300), Init("uniform"))
    nominal, near = (make("x", buffer, {}, 8, name, rounded_down=False) for name in ("nominal", "neighbours"))
    assert np.array_equal(nominal, near)


def test_a_promise_excludes_what_breaks_it() -> None:
    assert not {"alike", "few"} & {*variations("uniform", "float32", ("distinct",))}
    assert "alike" not in variations("uniform", "float32", ("varied",))
    for row in shaped("alike", "varied"):
        assert len(np.unique(row)) > 100


@pytest.mark.parametrize(
    ("promise", "kept", "broken"),
    [
        ("finite", [1.0, 2.0], [1.0, np.inf]),
        ("positive", [1.0, 2.0], [0.0, 1.0]),
        ("nonnegative", [0.0, 2.0], [-1.0, 1.0]),
        ("nonzero", [-1.0, 2.0], [0.0, 1.0]),
        ("sorted", [1.0, 1.0], [2.0, 1.0]),
        ("distinct", [2.0, 1.0], [1.0, 1.0]),
        ("varied", [1.0, *[1.1] * 8], [1.0, *[1.0001] * 8]),
    ],
)
def test_promises_are_what_they_are_called(promise: Any, kept: list[float], broken: list[float]) -> None:
    assert keeps(promise, np.array([kept, kept]))
    assert not keeps(promise, np.array([kept, broken]))


def test_nominal_values_have_patches_at_secret_places() -> None:
    """A sixteenth of the rows, and of the pieces of 128 elements, lie in a part of their range."""
    values = shaped("nominal", rows=512)
    low = (values < -0.99).reshape(-1, 128).all(axis=1)
    assert 0.002 < low.mean() < 0.04
    other = make("x", Buffer("float32", (512, 4096), Init("uniform", {"low": -1, "high": 1})), {}, 4)
    assert not np.array_equal(low, (other < -0.99).reshape(-1, 128).all(axis=1))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_narrower_types_round_a_share_of_nominal_values_down(dtype: str) -> None:
    """So a sum of products of narrowed values is off by a share of itself whatever its length."""
    buffer = Buffer(dtype, (1 << 16,), Init("normal"))
    shares, losses = {}, {}
    for seed in (*range(1, 41, 2), 2, 4):
        values = make("x", buffer, {}, seed)
        rounded = values.astype(numpy_dtype(NARROWER[dtype])).astype(np.float64)
        exact = values.astype(np.float64)
        normal = np.abs(exact) > 2.0**-5  # below it e4m3 has fewer bits
        shares[seed] = np.mean((np.abs(rounded) <= np.abs(exact))[normal])
        losses[seed] = 1 - np.abs(rounded[normal]).sum() / np.abs(exact[normal]).sum()
        plain = make("x", buffer, {}, seed, rounded_down=False)
        assert seed % 2 or np.mean(plain != values) < 0.08, "an even seed's are as drawn, but for patches"
    least = UNIT_ROUNDOFF[NARROWER[dtype]]
    assert max(losses.values()) > 0.12 * least and abs(losses[2]) < 0.03 * least
    odd = sorted(share for seed, share in shares.items() if seed % 2)
    assert max(np.diff(odd)) < 0.15 and odd[0] < shares[2] + 0.1 and odd[-1] > 0.9, "any share of them"


def test_integers_reach_the_top_of_64_bits() -> None:
    init = Init("integers", {"low": 1 << 62, "high": 1 << 64})
    made = make("x", Buffer("uint64", ("n",), init), SIZES, 1, "nominal")
    assert made.dtype == np.uint64
    assert (made >= 1 << 62).all() and (made >= 1 << 63).any() and (made < 1 << 63).any()


@pytest.mark.parametrize("variation", VARIATIONS)
def test_uniform_stays_in_its_range_in_every_variation(variation: str) -> None:
    for low, high in ((0, 1), (-1, 3), (5, 6)):
        buffer = Buffer("float32", (5000,), Init("uniform", {"low": low, "high": high}))
        values = make("x", buffer, {}, 3, variation)
        assert values.min() >= low
        assert values.max() < high


def test_structured_inputs_hold_ties() -> None:
    values = make("x", Buffer("float32", (1000,), Init("uniform")), {}, 3, "structured")
    assert len(np.unique(values)) <= 6


def values_of(dtype: str, variation: str, count: int = 1 << 16, density: float = 1.0, **init: float) -> Array:
    buffer = Buffer(dtype, (count,), Init("uniform", dict(init)))
    return make("x", buffer, {}, 3, variation, density)


@pytest.mark.parametrize("dtype", sorted(NARROWER))
def test_structured_inputs_round_in_one_direction(dtype: str) -> None:
    values = values_of(dtype, "structured", low=1, high=3)
    wide = values.astype(np.float64)
    rounded = values.astype(numpy_dtype(NARROWER[dtype])).astype(np.float64)
    assert ((rounded < wide) | (wide == 2.0)).all()  # 2: the common value of a range without zero
    if dtype == "float32":
        tf32 = ((values.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)
        assert ((tf32 < values) | (values == 2.0)).all()


def test_thinned_inputs_have_the_same_places_in_every_buffer_of_a_size() -> None:
    how = Init("uniform", {"low": -1, "high": 2})
    one, other = (make(name, Buffer("float32", (1 << 18,), how), {}, 3, "structured", 0.01) for name in "xy")
    large = np.abs(one) > 0.05
    assert 0.004 < large.mean() < 0.01
    assert np.array_equal(
        large.reshape(-1, 64).any(axis=1), (np.abs(other) > 0.05).reshape(-1, 64).any(axis=1)
    )
    small = one[~large & (one != 0)]
    assert 0 < small.min() < small.max() < 0.001
    assert len(np.unique(small)) > 100_000
    none_small = make("x", Buffer("float32", (1 << 18,), how), {}, 3, "structured", 0.001)
    assert len(np.unique(none_small)) <= 6


def test_thinned_inputs_are_never_all_small() -> None:
    for count in (4096, 4100, 5000):
        assert np.abs(values_of("float32", "structured", count, 1e-9, low=-1, high=2)).max() >= 0.05


def test_a_part_of_uneven_inputs_does_not_stand_for_the_whole() -> None:
    values = values_of("float32", "structured", 1 << 18, 0.01, low=0.5, high=1.5).astype(np.float64)
    assert values.min() >= 0.5
    assert values.max() < 1.5
    for part in (values[: 1 << 16], values[::4], values[1::4]):
        assert abs(part.mean() / values.mean() - 1) > 3e-4


def test_the_density_follows_the_longest_sum() -> None:
    total = Buffer("float32", (1,), role="out", tolerance=Tolerance(terms="n"))
    x = Buffer("float32", ("n",), Init("uniform", {"low": -1, "high": 2}))
    problem = Problem(Sizes(({"n": 1000},), {"n": 1 << 20}), {"x": x, "total": total})
    assert not thinned(problem, {"n": KEPT_TERMS})
    assert thinned(problem, {"n": 1 << 20})
    large = np.abs(generate(problem, None, {"n": 1 << 20}, 1, "structured")["x"]) > 0.05
    assert 0.5 * KEPT_TERMS < large.sum() < KEPT_TERMS
    few = Buffer("float32", ("n - 1",), Init("normal"))
    weighted = replace(problem, buffers={"few": few, "total": total})
    assert not thinned(weighted, {"n": 1 << 20})
    assert (generate(weighted, None, {"n": 1 << 20}, 1, "structured")["few"] != 0).mean() > 0.5
    positive = replace(x, init=Init("uniform", {"low": "n / n", "high": 2}))
    assert not thinned(replace(problem, buffers={"x": positive, "total": total}), {"n": 1 << 20})
    normal = replace(x, init=Init("normal", {"mean": 4}))
    assert not thinned(replace(problem, buffers={"x": normal, "total": total}), {"n": 1 << 20})
    integers = replace(x, dtype="int32")
    assert not varies(replace(problem, buffers={"x": integers, "total": total}))


def test_sorted_values_do_not_follow_a_line() -> None:
    """A formula over the index, or over the value, must not find an element."""
    values = make("x", Buffer("float64", (1 << 16,), Init("sorted")), {}, 5)
    off = np.abs(values * values.size - np.arange(values.size))
    assert np.median(off) > 100
    assert (np.diff(values) >= 0).all()
    spread = np.histogram(values, 16, (0, 1))[0] / values.size
    assert 0.003 < spread.min() < spread.max() < 0.3


def test_a_change_spoils_the_values_of_the_same_seed() -> None:
    buffers = {
        "x": Buffer("float32", ("n",), Init("normal")),
        "h": Buffer("float16", ("n",), Init("uniform")),
        "i": Buffer("int32", ("n",), Init("integers", {"high": 9})),
        "p": Buffer("float32", ("n",), Init("uniform", {"low": 2, "high": 3})),
    }
    problem = Problem(Sizes(({"n": 1000},), {"n": 1000}), buffers)
    plain, narrow = (generate(problem, None, {"n": 1000}, 4, f"nominal{end}") for end in ("", "/narrow"))
    assert np.array_equal(narrow["i"], plain["i"])
    for name, kind in (("x", "bfloat16"), ("h", "float8_e4m3")):
        rounded = plain[name].astype(numpy_dtype(kind)).astype(plain[name].dtype)
        assert (narrow[name] == rounded).mean() > 0.95
        assert narrow[name].min() >= plain[name].min()
        assert narrow[name].max() <= plain[name].max()
    for name, least in (("x", 0), ("p", plain["p"].min())):
        hole = generate(problem, None, {"n": 1000}, 4, f"nominal/hole:{name}")
        changed = np.flatnonzero(hole[name] != plain[name])
        assert 99 <= changed.size <= 100
        assert np.ptp(changed) < 100
        assert (hole[name][changed] == least).all()
        assert all(np.array_equal(hole[other], plain[other]) for other in buffers if other != name)
    for unknown in ("nominal/shuffled", "nominal/hole:z"):
        with pytest.raises(ProblemError, match="no change"):
            generate(problem, None, {"n": 1000}, 4, unknown)


def test_what_each_kind_promises() -> None:
    assert set(np.unique(example("integers"))) <= set(range(-5, 60))
    assert len(np.unique(example("few_unique"))) == 3
    assert sorted(example("permutation").tolist()) == list(range(60))
    assert example("arange").tolist() == [5 + 0.5 * i for i in range(60)]
    assert set(example("constant").tolist()) == {2.25}
    assert not example("zeros").any()
    assert (example("ones") == 1).all()
    assert (np.diff(example("sorted").astype(np.float64), axis=-1) >= 0).all()
    assert (example("one_hot").sum(axis=-1) == 1).all()
    assert 0.1 < np.count_nonzero(example("sparse")) / 720 < 0.4
    assert example("text").max() < 5
    assert np.abs(example("points").astype(np.float64)).max() <= 2
    assert example("image").max() > 100
    assert (example("lognormal") > 0).all()
    magnitudes = np.abs(example("mixed").astype(np.float64))
    assert magnitudes.min() >= 2.0**-4 * 0.99
    assert magnitudes.max() <= 16.1
    assert (example("mixed").astype(np.float64) < 0).any()


def test_sorted_integers() -> None:
    values = make("x", Buffer("int32", (500,), Init("sorted", {"low": 10, "high": 40})), {}, 1)
    assert (np.diff(values) >= 0).all()
    assert values.min() >= 10
    assert values.max() < 40


@pytest.mark.parametrize("count", [1000, 100_000])
def test_sorted_values_do_not_lie_near_a_line(count: int) -> None:
    values = make("x", Buffer("float64", (count,), Init("sorted")), {}, 1)
    line = (np.arange(count) + 0.5) / count
    assert np.abs(values - line).max() > 0.05
    steps = np.diff(values[:: 1 << 6]) * count / (1 << 6)
    assert steps.max() > 1.4 * steps.min()


def test_sorted_keys_occur_unequally_often() -> None:
    values = make("x", Buffer("int32", (64 * 500,), Init("sorted", {"high": 500})), {}, 1)
    counts = np.bincount(values, minlength=500)
    assert np.std(counts) > 16


def test_columns_of_a_row_do_not_lie_near_a_line() -> None:
    starts = np.arange(0, 6401, 64)
    columns = Recipe("columns", "int32", 6400, 4, extent=256, table=starts).values().reshape(100, 64)
    off = np.abs(columns - 4 * np.arange(64)).max(axis=1)
    assert np.median(off) > 12


def test_the_first_words_do_not_show_the_key() -> None:
    # With the key in one place alone, the words of one counter would be a permutation of it.
    key = 0x1234567890ABCDEF
    step = np.uint64(0xD1B54A32D192ED03)
    known = mix(np.array([key], np.uint64))
    first = words(key, 0, 2).view(np.uint64)
    assert first[0] != mix(known ^ step)[0]


@pytest.mark.parametrize("form", ["uniform", "normal"])
def test_doubles_have_more_bits_than_floats(form: str) -> None:
    values = Recipe(form, "float64", 4096, 9).values()
    assert np.mean(values == values.astype(np.float32)) < 0.01


def test_small_uniform_values_are_no_multiples_of_one_step() -> None:
    values = Recipe("uniform", "float32", 4096, 9).values()
    scaled = values[values < 0.1].astype(np.float64) * 2.0**24
    assert np.mean(scaled == np.floor(scaled)) < 0.5
    assert values.max() < 1


def test_real_images_are_in_zero_to_one() -> None:
    values = make("x", Buffer("float32", (64, 48), Init("image")), {}, 1)
    assert values.min() >= 0
    assert values.max() <= 1
    assert np.std(values) > 0.05


def test_csr_parts_of_one_group_fit_together() -> None:
    offsets, columns = example("csr_offsets", name="rows"), example("csr_columns", name="cols")
    assert offsets[0] == 0
    assert offsets[-1] == len(columns) == 240
    assert (np.diff(offsets) >= 0).all()
    for start, end in itertools.pairwise(offsets):
        row = columns[start:end]
        assert (np.diff(row) > 0).all()
        assert len(row) == 0 or (row[0] >= 0 and row[-1] < 12)


def test_csr_groups_are_independent() -> None:
    params = {"rows": 50, "nnz": 300}
    made = {
        group: make("x", Buffer("int32", (51,), Init("csr_offsets", {**params, "group": group})), {}, 1)
        for group in ("g", "h")
    }
    assert made["g"].tobytes() != made["h"].tobytes()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.floats(0, 1), st.floats(0, 2), st.integers(0, 99))
def test_row_lengths_have_exactly_the_entries_asked_for(
    rows: int, cols: int, share: float, skew: float, seed: int
) -> None:
    entries = int(share * rows * cols)
    rng = np.random.default_rng(seed)
    lengths = csr.row_lengths(rng, rows, cols, entries, skew)
    assert lengths.sum() == entries
    assert lengths.min() >= 0
    assert lengths.max() <= cols
    starts = csr.offsets(lengths)
    columns = Recipe("columns", "int32", entries, seed, extent=cols, table=starts).values()
    for start, end in itertools.pairwise(starts):
        assert len(set(columns[start:end].tolist())) == end - start
    assert entries == 0 or 0 <= columns.min() <= columns.max() < cols


def test_csr_refuses_more_entries_than_places() -> None:
    with pytest.raises(ProblemError, match="101 entries"):
        csr.row_lengths(np.random.default_rng(1), 10, 10, 101, 0.0)


def test_skew_makes_rows_unequal() -> None:
    flat = csr.row_lengths(np.random.default_rng(1), 200, 200, 2000, 0.0)
    steep = csr.row_lengths(np.random.default_rng(1), 200, 200, 2000, 1.5)
    assert steep.max() > 3 * flat.max()


def test_files_give_captured_values(tmp_path: Path) -> None:
    captured = np.arange(12, dtype=np.float32)
    np.savez(tmp_path / "x.npz", first=captured, second=captured + 1)
    params = {"path": str(tmp_path / "x.npz"), "key": "second"}
    values = make("x", Buffer("float32", (3, 4), Init("file", params)), {}, 1)
    assert values.tolist() == (captured + 1).reshape(3, 4).tolist()
    with pytest.raises(ProblemError, match="12 elements"):
        make("x", Buffer("float32", (5,), Init("file", params)), {}, 1)
    with pytest.raises(ProblemError, match="cannot read"):
        make("x", Buffer("float32", (12,), Init("file", {**params, "key": "third"})), {}, 1)
    with pytest.raises(ProblemError, match="cannot read"):
        make("x", Buffer("float32", (12,), Init("file", {"path": str(tmp_path / "none.npz")})), {}, 1)


def test_pickled_arrays_are_not_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([{}], dtype=object))
    with pytest.raises(ProblemError, match="cannot read"):
        make("x", Buffer("float32", (1,), Init("file", {"path": str(tmp_path / "x.npz")})), {}, 1)


@pytest.mark.parametrize(
    ("how", "what"),
    [
        (Init("gauss"), "unknown init 'gauss'"),
        (Init("uniform", {"min": 0}), "no parameter 'min'"),
        (Init("integers", {"low": 0}), "needs the parameter 'high'"),
        (Init("integers", {"high": "q"}), "unknown name 'q'"),
        (Init("integers", {"high": 2.5}), "must be an integer"),
        (Init("csr_offsets", {"rows": 4}), "needs the parameter 'nnz'"),
        (Init("csr_offsets", {"rows": 4, "nnz": 4, "group": 3}), "must be text"),
        (Init("file"), "needs the parameter 'path'"),
        (Init("uniform", {"high": True}), "must be a number"),
        (Init("uniform", {"high": float("inf")}), "must be a finite number"),
        (Init("integers", {"high": float("nan")}), "must be a finite number"),
    ],
)
def test_wrong_parameters_are_named_without_making_anything(how: Init, what: str) -> None:
    with pytest.raises(ProblemError, match=what):
        check_init(how, SIZES)
    with pytest.raises(ProblemError, match=what) as error:
        make("x", Buffer("int32", (4,), how), SIZES, 1)
    assert error.value.where == "x"


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ProblemError, match="low < high"):
        make("x", Buffer("int32", (4,), Init("integers", {"low": 3, "high": 3})), {}, 1)


def test_an_unknown_variation_is_an_error() -> None:
    with pytest.raises(ProblemError, match="unknown variation 'ties'"):
        example("uniform", "ties")


def test_generate_makes_what_is_read_and_nothing_else() -> None:
    problem = Problem(
        Sizes(({"n": 4},), {"n": 4}),
        {
            "a": Buffer("float32", ("n",), Init("uniform")),
            "b": Buffer("float32", ("n",), role="inout"),
            "c": Buffer("float32", ("n",), role="out"),
            "d": Buffer("float32", ("n",), role="scratch"),
        },
    )
    side = Side("", (), buffers={"e": Buffer("int32", (2,), Init("arange"))})
    shared = generate(problem, None, {"n": 4}, 9)
    mine = generate(problem, side, {"n": 4}, 9)
    assert set(shared) == {"a", "b"}
    assert set(mine) == {"a", "b", "e"}
    assert all(shared[name].tobytes() == mine[name].tobytes() for name in shared)
    assert not shared["b"].any()


def test_every_generator_and_parameter_is_documented() -> None:
    text = (resources.pairs_dir().parent / "docs" / "problems.md").read_text()
    for kind, parameters in PARAMETERS.items():
        row = next((line for line in text.splitlines() if line.startswith(f"| `{kind}` |")), "")
        assert row, f"docs/problems.md has no row for {kind}"
        for name, takes in parameters.items():
            assert f"`{name}`" in row, f"docs/problems.md does not name {kind}'s {name}"
            assert takes not in (NEEDED, PATH, WORDS) or f"`{name}` (needed)" in row
        assert inspect.getdoc(GENERATORS[kind])


def test_a_formula_knows_indices_and_sizes() -> None:
    how = Init(
        "formula", {"value": "max(i1 - 1, 0) + 10 * (i0 % 2) - log2(i + 1) * pow2(n / 60)", "scale": 0.5}
    )
    i0, i1 = np.divmod(np.arange(12), 4)
    wanted = 0.5 * (np.maximum(i1 - 1, 0) + 10 * (i0 % 2) - 2 * np.floor(np.log2(np.arange(12) + 1)))
    assert (make("x", Buffer("float32", (3, 4), how), SIZES, 1).ravel() == wanted).all()


@pytest.mark.parametrize("value", ["i /", "k + 1", "i / 0", "i % i0", "log2(i)", "pow2(62)", "f(i)"])
def test_a_formula_that_cannot_be_evaluated_is_an_error(value: str) -> None:
    with pytest.raises(ProblemError):
        make("x", Buffer("int32", (3,), Init("formula", {"value": value})), SIZES, 1)


def test_records_have_c_layout() -> None:
    how = Init("records", {"fields": "uint8 constant value=7; float64 ones; int16*3 formula value=i1+n"})
    rows = make("x", Buffer("uint8", (5, 24), how), SIZES, 1)
    kind = np.dtype([("a", "u1"), ("b", "f8"), ("c", "i2", 3)], align=True)
    table = rows.reshape(-1).view(kind)
    assert (table["a"] == 7).all()
    assert (table["b"] == 1).all()
    assert (table["c"] == [60, 61, 62]).all()


@pytest.mark.parametrize(
    "fields", ["int32", "int32 nonsense", "int32 file path=x", "int64 ones", "int32 ones n=1"]
)
def test_records_that_do_not_fit_are_an_error(fields: str) -> None:
    with pytest.raises(ProblemError):
        make("x", Buffer("uint8", (5, 4), Init("records", {"fields": fields})), SIZES, 1)


def test_an_image_lies_between_its_limits() -> None:
    values = make("x", Buffer("float32", (64, 64), Init("image", {"low": 1, "high": 2.5})), SIZES, 1)
    assert values.min() >= 1
    assert values.max() <= 2.5
    assert values.std() > 0.1


def test_elimination_without_pivoting_is_stable_on_dominant_matrices() -> None:
    matrix = make("x", Buffer("float64", (50, 50), Init("dominant", {})), SIZES, 1)
    others = np.abs(matrix).sum(axis=1) - np.abs(np.diag(matrix))
    assert (np.diag(matrix) > others).all()


def test_values_lie_around_those_given() -> None:
    values = example("around").astype(np.float64)
    assert np.abs(values / np.array([1, -85.7, 2.5e-3]) - 1).max() < 0.1
    assert len(np.unique(values)) == values.size


@pytest.mark.parametrize("values", ["", "1 two"])
def test_values_that_are_not_numbers_are_an_error(values: str) -> None:
    with pytest.raises(ProblemError):
        make("x", Buffer("float32", (3,), Init("around", {"values": values})), SIZES, 1)


def planted(dtype: str, init: Init, literals: str, *promises: Any) -> tuple[Array, Array]:
    """An input of 5000 elements with literals at secret places, and without."""
    x = Buffer(dtype, ("n",), init, promises=promises)
    what = Problem(Sizes(({"n": 5000},), {"n": 5000}), {"x": x})
    variations = (f"literals:{literals}", "nominal")
    with_them, without = (generate(what, None, {"n": 5000}, 6, variation)["x"] for variation in variations)
    assert 0 < (with_them != without).sum() <= 1250 or np.array_equal(with_them, without)
    assert with_them.min() >= without.min() and with_them.max() <= without.max()
    return with_them, without


def test_literals_in_range_are_planted_with_their_neighbours() -> None:
    integers = Init("integers", {"low": -500_000_000, "high": 1_000_000_000})
    values, _ = planted("int32", integers, "305419896;7.0;0.3;5000000000;123456")
    assert {305419895, 305419896, 305419897, -305419896, 7, -6, 123456} <= set(values.tolist())
    reals, _ = planted("float32", Init("normal"), "1067282596;0.75;9.0;1e-20")
    wanted = np.array([1067282596], np.int32).view(np.float32)[0]
    assert {wanted, np.float32(0.75), np.nextafter(np.float32(0.75), np.float32(1))} <= set(reals.tolist())
    assert np.abs(reals[reals != 0]).min() > 1e-9


@pytest.mark.parametrize("promise", ["distinct", "sorted"])
def test_literals_break_no_promise(promise: Any) -> None:
    values, plain = planted("float32", Init("uniform"), "0.5", promise)
    assert np.array_equal(values, plain)
    values, plain = planted("int32", Init("permutation"), "5")
    assert np.array_equal(values, plain)


def test_extremes_hold_the_ends_both_zeros_a_tiny_row_an_empty_and_a_copied_one() -> None:
    values = shaped("extremes", rows=64)
    zeros = values[values == 0]
    assert np.signbit(zeros).any() and not np.signbit(zeros).all()
    assert (values == -1).sum() > 100
    sizes = np.abs(values).max(axis=1)
    assert (sizes < 1e-5).sum() == 2 and (sizes == 0).sum() == 1 and (sizes > 0.9).sum() == 62
    assert any((values[row, :-1] == values[row - 1, :-1]).all() for row in range(64))
    apart = shaped("extremes", "varied", "nonzero", rows=64)
    assert (apart != 0).all() and (np.abs(apart).max(axis=1) > 0.9).all()


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint8"])
def test_extremes_hold_integers_that_differ_in_one_bit_each(dtype: str) -> None:
    low, high = (-100, 1 << 30) if dtype.startswith("int") else (3, 200)
    buffer = Buffer(dtype, (16000,), Init("integers", {"low": low, "high": high}))
    values = make("x", buffer, {}, 7, "extremes")
    assert values.min() >= low and values.max() < high
    changes = (values[1:] ^ values[:-1]).astype(np.uint64)
    single = changes[(changes & (changes - np.uint64(1)) == 0) & (changes > 0)]
    assert {1 << bit for bit in range((high - 1).bit_length() - 1)} <= set(map(int, single))


def test_inputs_of_one_type_share_values_in_extremes() -> None:
    how = Init("normal")
    one, other = (Buffer("float32", (5000,), how) for _ in range(2))
    answer, edges = Buffer("float32", (5000,), role="out"), Buffer("float32", (99,), Init("sorted"))
    problem = Problem(Sizes(({},), {}), {"a": one, "b": other, "edges": edges, "y": answer}, {})
    made = generate(problem, None, {}, 5, "extremes")
    assert np.isin(made["b"], made["a"]).sum() > 200 and np.isin(made["b"], made["edges"]).sum() > 2
    assert (np.diff(made["edges"]) >= 0).all()
    plain = generate(problem, None, {}, 5, "nominal")
    assert np.isin(plain["b"], plain["a"]).sum() < 50
    table = replace(one, init=Init("constant", {"value": 0.5}))
    beside = generate(problem, Side("", (), buffers={"table": table}), {}, 5, "extremes")
    assert all(np.array_equal(beside[name], made[name]) for name in made), "both sides get the same"
    assert (made["a"] == made["b"]).sum() > 200, "at one place"


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("uint32", 0, 1 << 32), ("int32", -9, 1000), ("uint64", 3, 99)]
)
def test_extremes_hold_integers_that_add_up_to_the_ends_of_the_range(dtype: str, low: int, high: int) -> None:
    buffer = Buffer(dtype, (500, 8), Init("integers", {"low": low, "high": high}))
    problem = Problem(Sizes(({},), {}), {"a": buffer, "b": buffer, "y": replace(buffer, role="out")}, {})
    a, b = (generate(problem, None, {}, 5, "extremes")[name].astype(object) for name in "ab")
    assert low == a.min() == b.min() and high - 1 == a.max() == b.max()
    assert ((a + b) == low + high - 1).sum() > 100 and (a == b).sum() > 100


@pytest.mark.parametrize("entries", [7, 900, 5000])
def test_extremes_of_a_sparse_matrix_have_a_long_row_and_empty_ones(entries: int) -> None:
    how = {"rows": 60, "cols": 100, "nnz": entries, "group": "m"}
    offsets, columns, rows = (
        make("x", Buffer("int32", shape, Init(kind, how)), {}, 9, "extremes")
        for kind, shape in (("csr_offsets", (61,)), ("csr_columns", (entries,)), ("csr_rows", (60, 2)))
    )
    lengths = np.diff(offsets)
    assert lengths.sum() == entries and lengths.min() >= 0 and lengths.max() <= 100
    assert (rows[:, 1] == lengths).all() and (rows[:, 0] == offsets[:-1]).all()
    assert all((np.diff(part) > 0).all() for part in np.split(columns, offsets[1:-1]))
    assert lengths.max() == min(100, entries)
    if entries == 900:
        assert (lengths == 0).sum() >= 15


def test_paths_lead_through_all_rows_of_a_sparse_matrix() -> None:
    how = {"rows": 60, "nnz": 200, "skew": 1.0}
    offsets, columns = (
        make("x", Buffer("int32", shape, Init(kind, how)), {}, 9, "path")
        for kind, shape in (("csr_offsets", (61,)), ("csr_columns", (200,)))
    )
    rows = np.split(columns, offsets[1:-1])
    assert all((np.diff(part) > 0).all() for part in rows)
    reached, rounds = {0}, 0
    while len(reached) < 60:
        reached |= {int(column) for row in reached for column in rows[row]}
        rounds += 1
    assert rounds > 50


@pytest.mark.parametrize("kind", ["mixed", "lognormal", "image", "sorted"])
def test_values_made_on_the_host_are_alike_in_a_variation(kind: str) -> None:
    values = make("x", Buffer("float32", (20, 50), Init(kind)), {}, 4, "alike")
    assert np.unique(values).size == 1 and not np.frombuffer(values[0, :1].tobytes(), np.uint32) % (1 << 20)
    if kind != "image":
        assert np.unique(make("x", Buffer("float32", (20, 50), Init(kind)), {}, 4, "few")).size == 4


def test_few_elements_are_exchanged_for_others() -> None:
    values = np.arange(1000).reshape(10, 100)
    counts = {int((exchange_few(values, np.random.default_rng(seed)) != values).sum()) for seed in range(60)}
    assert min(counts) == 1 and 30 < max(counts) <= 62 and len(counts) > 5
