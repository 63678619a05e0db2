"""Wrong answers and spoiled inputs that a problem must refuse, and honest problems that must be admitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kcurate.judge.negative_controls import MORE_SEEDS, blindness, spoiling, weakness
from kcurate.judge.trials import Trial, largest, literal_trials, trials
from kcurate.problem.inputs import contents
from kcurate.records import Buffer, Init, Problem, Side, Sizes, Tolerance

Array = npt.NDArray[Any]
Compute = Callable[[Mapping[str, Array]], dict[str, Array]]


def problem(x: Buffer, y: Buffer, test: tuple[int, ...] = (300, 64), **more: Buffer) -> Problem:
    sizes = tuple({"n": n} for n in test)
    return Problem(Sizes(sizes, {"n": 1 << 20}), {"x": x, "y": y, **more})


def runs(what: Problem, compute: Compute) -> Callable[[Trial], dict[str, Array]]:
    """A reference: its outputs for a trial."""

    def run(trial: Trial) -> dict[str, Array]:
        made = compute(contents.generate(what, None, trial.sizes, trial.seed, trial.variation))
        return {name: array.astype(what.buffers[name].dtype) for name, array in made.items()}

    return run


def found_weakness(what: Problem, compute: Compute, seed: int, *, more: bool = True) -> str | None:
    run = runs(what, compute)
    tried = list(trials(what, seed))
    return weakness(what, tried, {trial.slot: run(trial) for trial in tried}, run if more else None)


def found_blindness(what: Problem, compute: Compute, seed: int = 1) -> str | None:
    run = runs(what, compute)
    tried = list(trials(what, seed))
    expected = {trial.slot: run(trial) for trial in tried}
    return blindness(what, largest(what, tried), spoiling(what, expected, run, lambda _: True))


BITS = Buffer("int32", ("n",), Init("integers", {"low": 0, "high": 2}))
ALWAYS_THE_SAME = "a constant; no input changes the outputs: give these wider ranges, or larger sizes"
ANSWER = Buffer("int32", (1,), role="out")


def parity(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {"y": arrays["x"].sum(keepdims=True) % 2}


def test_one_bit_is_answer_enough() -> None:
    what = problem(BITS, ANSWER)
    run = runs(what, parity)
    pairs = [
        [trial for trial in trials(what, seed) if trial.variation == "nominal"][:2] for seed in range(40)
    ]
    by_chance = [weakness(what, pair, {trial.slot: run(trial) for trial in pair}, None) for pair in pairs]
    assert any(by_chance), "two trials alone may have the same answer"
    assert not any(found_weakness(what, parity, seed) for seed in range(300))


def test_an_answer_that_is_always_the_same_is_refused_after_all_seeds() -> None:
    what, seen = problem(BITS, ANSWER), []

    def one(arrays: Mapping[str, Array]) -> dict[str, Array]:
        seen.append(1)
        return {"y": np.ones(1)}

    assert found_weakness(what, one, 1) == ALWAYS_THE_SAME
    assert len(seen) == len(list(trials(what, 1))) + MORE_SEEDS


def test_a_reference_that_fails_on_another_seed_leaves_the_control_undecided() -> None:
    what = problem(BITS, ANSWER)
    tried = list(trials(what, 1))
    ones = {"y": np.ones(1, np.int32)}
    assert weakness(what, tried, {trial.slot: ones for trial in tried}, lambda _: None) == ALWAYS_THE_SAME


def floats(**init: float) -> Buffer:
    return Buffer("float32", ("n",), Init("uniform", dict(init)))


def total(terms: int | str = "n", **rule: Any) -> Buffer:
    return Buffer("float32", (1,), role="out", tolerance=Tolerance(terms=terms, **rule))


def summed(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {"y": arrays["x"].sum(keepdims=True, dtype=np.float64)}


@pytest.mark.parametrize("length", [300, 1 << 14, 1 << 18, 1 << 21])
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 2), (0.5, 1.5)])
def test_a_long_sum_notices_spoiled_inputs(length: int, low: float, high: float) -> None:
    what = problem(floats(low=low, high=high), total(), (64, length))
    assert found_blindness(what, summed) is None


def test_a_tolerance_for_more_terms_than_there_are_is_refused() -> None:
    what = problem(floats(), total(1 << 40))
    run = runs(what, summed)
    tried = list(trials(what, 1))
    expected = {trial.slot: run(trial) for trial in tried}
    loose = blindness(what, largest(what, tried), spoiling(what, expected, run, lambda _: False))
    assert loose == "inputs rounded to the next narrower type"


def test_an_input_that_hardly_matters_is_refused() -> None:
    def faint(arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": arrays["x"][:1] + 1e-5 * arrays["big"].mean(keepdims=True)}

    big = Buffer("float32", ("2 * n",), Init("uniform"))
    what = problem(floats(low=1, high=2), total(), big=big)
    assert found_blindness(what, faint) == "a tenth of big set to zero"


@pytest.mark.parametrize(
    ("x", "y", "compute"),
    [
        (floats(), ANSWER, lambda arrays: {"y": arrays["x"].argmax(keepdims=True)}),
        (Buffer("float32", ("n",), Init("permutation")), total(), lambda arrays: {"y": np.full(1, 3.0)}),
        (Buffer("float32", ("n",), Init("one_hot")), total(), summed),
        (floats(), Buffer("float32", ("n",), role="out"), lambda arrays: {"y": 1.0 + 0 * arrays["x"]}),
        (BITS, ANSWER, parity),
        (floats(), total(relative=0.02), summed),
    ],
)
def test_changes_that_make_no_difference_are_no_weakness(x: Buffer, y: Buffer, compute: Compute) -> None:
    assert found_blindness(problem(x, y), compute) is None


def test_an_undecided_change_is_tried_on_other_seeds() -> None:
    """The largest of many values is in the zeroed tenth for some seed; rounding shows it at once."""
    what = problem(floats(), Buffer("float32", (1,), role="out"), (300,))

    def largest_value(arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": arrays["x"].max(keepdims=True)}

    assert not any(found_blindness(what, largest_value, seed) for seed in range(50))


def test_a_reference_that_fails_on_spoiled_inputs_refuses_them() -> None:
    what = problem(floats(), total(1 << 40))
    run = runs(what, summed)

    def failing(trial: Trial) -> dict[str, Array] | None:
        return None if "/" in trial.variation else run(trial)

    base = largest(what, list(trials(what, 1)))
    assert blindness(what, base, spoiling(what, {}, failing, lambda _: False)) is None


def elementwise(**rule: Any) -> Buffer:
    return Buffer("float32", ("n",), role="out", tolerance=Tolerance(**rule))


def test_an_input_whose_effect_the_tolerance_hides_is_named() -> None:
    faint = Buffer("float32", ("n",), Init("uniform", {"low": 0.0, "high": 2e-5}))

    def biased(arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": arrays["x"] + arrays["b"]}

    x = Buffer("float32", ("n",), Init("uniform", {"low": 1.0, "high": 2.0}))
    z = Buffer("float32", ("2 * n",), Init("uniform", {"low": 1.0, "high": 2.0}))
    loose = problem(x, elementwise(terms=256), b=faint)
    assert "a copy of x in y" in str(found_weakness(loose, biased, 1))
    assert found_weakness(problem(x, elementwise(), b=faint), biased, 1) is None

    def scaled(arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": arrays["z"][: arrays["b"].size] * arrays["z"][-1] + arrays["b"]}

    longer = {"y": elementwise(terms=256), "z": z, "b": faint}
    hidden = Problem(loose.sizes, longer)
    assert str(found_weakness(hidden, scaled, 1)).startswith("answers that ignore b; b hardly changes")
    assert found_weakness(replace(hidden, buffers={**longer, "y": elementwise()}), scaled, 1) is None


def test_half_the_terms_must_show() -> None:
    """Without x, whose mean is 1.5, the answer is off by 4.5e-5, without half of it by 2.3e-5."""

    def added(arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": arrays["g"] + 9e-5 * arrays["x"].mean(keepdims=True)}

    def found(terms: int) -> str | None:
        g = Buffer("float32", (1,), Init("uniform", {"low": 1.0, "high": 1.01}))
        what = problem(floats(low=1, high=2), total(terms), (4000,), g=g)
        tried = [Trial(f"test{seed}", {"n": 4000}, seed, "nominal") for seed in range(6)]
        run = runs(what, added)
        return weakness(what, tried, {trial.slot: run(trial) for trial in tried}, run)

    assert str(found(256)).startswith("half the terms (x); x hardly changes the outputs")
    assert found(16) is None


def test_a_size_of_one_everywhere_is_named() -> None:
    def rows(arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": arrays["x"].sum(axis=1, dtype=np.float64)}

    x = Buffer("float32", ("n", "m"), Init("uniform"))
    y = Buffer("float32", ("n",), role="out", tolerance=Tolerance(terms="m"))
    single = Problem(
        Sizes(({"n": 1, "m": 300}, {"n": 1, "m": 64}), {"n": 1 << 10, "m": 64}), {"x": x, "y": y}
    )
    text = "mistakes along axis 0 of x: it has one element (n) at every test size"
    assert found_weakness(single, rows, 1) == text
    more = replace(single, sizes=replace(single.sizes, test=({"n": 1, "m": 300}, {"n": 5, "m": 64})))
    assert found_weakness(more, rows, 1) is None
    always = replace(single, sizes=replace(single.sizes, bench={"n": 1, "m": 1 << 20}))
    assert found_weakness(always, rows, 1) is None


@pytest.mark.parametrize(
    ("y", "compute"),
    [
        (elementwise(), lambda arrays: {"y": arrays["x"]}),
        (elementwise(), lambda arrays: {"y": arrays["x"] ** 2}),
        (elementwise(), lambda arrays: {"y": np.repeat(arrays["x"], 2)[: arrays["x"].size]}),
        (elementwise(order="any"), lambda arrays: {"y": np.sort(arrays["x"])}),
        (total(), lambda arrays: {"y": arrays["x"].max(keepdims=True)}),
        (elementwise(terms="n"), lambda arrays: {"y": np.cumsum(arrays["x"] - np.flip(arrays["x"]))}),
        (Buffer("int32", ("n",), role="out"), lambda arrays: {"y": np.argsort(arrays["x"])}),
        (Buffer("bool", ("n",), role="out"), lambda arrays: {"y": arrays["x"] > 0}),
        (Buffer("float16", ("n",), role="out"), lambda arrays: {"y": arrays["x"]}),
        (Buffer("bfloat16", ("n",), role="out"), lambda arrays: {"y": arrays["x"]}),
    ],
)
@pytest.mark.parametrize("seed", range(12))
def test_an_honest_problem_is_admitted(y: Buffer, compute: Compute, seed: int) -> None:
    what = problem(floats(low=-1, high=1), y, (300, 64), idle=Buffer("float32", (4,), Init("uniform")))
    assert found_weakness(what, compute, seed) is None


def test_counted_outputs_are_wrong_only_where_they_are_compared() -> None:
    x = floats(low=-1, high=1)
    kept = Buffer("float32", ("n",), role="out", tolerance=Tolerance(order="any", valid="count"))
    what = problem(x, kept, count=ANSWER)

    def positive(arrays: Mapping[str, Array]) -> dict[str, Array]:
        values = arrays["x"][arrays["x"] > 0]
        return {"y": np.pad(values, (0, arrays["x"].size - values.size)), "count": np.full(1, values.size)}

    assert found_weakness(what, positive, 1) is None

    def nothing(arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": arrays["x"], "count": np.zeros(1)}

    assert found_weakness(what, nothing, 1) is not None


@pytest.mark.parametrize("seed", range(3))
def test_keys_and_values_in_any_order_belong_together(seed: int) -> None:
    loose = Tolerance(order="any")
    keys, values = (Buffer(dtype, ("n",), role="out", tolerance=loose) for dtype in ("int32", "float32"))
    what = Problem(Sizes(({"n": 50},), {"n": 1 << 20}), {"x": floats(), "keys": keys, "values": values})

    def shuffled(arrays: Mapping[str, Array]) -> dict[str, Array]:
        order = np.argsort(arrays["x"])
        return {"keys": order, "values": arrays["x"][order]}

    assert found_weakness(what, shuffled, seed) == (
        "pairs of keys and values torn apart; declare them in `records`"
    )
    ordered = {**what.buffers, "values": replace(values, tolerance=None)}
    assert found_weakness(replace(what, buffers=ordered), shuffled, seed) is None


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_members_of_rows_in_any_order_belong_together(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    y = Buffer(dtype, ("n", 2), role="out", tolerance=Tolerance(order="any"))
    what = Problem(Sizes(({"n": 50},), {"n": 1 << 20}), {"x": floats(), "y": y})

    def rows(arrays: Mapping[str, Array]) -> dict[str, Array]:
        order = np.argsort(arrays["x"])
        return {"y": np.stack([1000 * arrays["x"][order], order], axis=1)}

    assert found_weakness(what, rows, 1) is None

    def elementwise_order(*values: Any) -> dict[str, Array]:
        return {name: np.sort(array.reshape(-1)) for name, array in values[2].items() if name == "y"}

    for module in ("agreement", "negative_controls"):
        monkeypatch.setattr(f"kcurate.judge.{module}.in_order", elementwise_order)
    monkeypatch.setattr("kcurate.judge.negative_controls._is_right_up_to_rounding", lambda *_: False)
    found = found_weakness(what, rows, 1)
    assert found is not None and found.startswith("members of y exchanged between rows")


def test_structured_inputs_run_at_the_largest_test_size() -> None:
    what = problem(floats(), total(), (300, 5000, 64))
    slots = [trial.slot for trial in trials(what, 1)]
    assert [slot for slot in slots if "structured" in slot] == ["test0-structured", "test1-structured"]
    assert largest(what, list(trials(what, 1))).slot == "test1-structured"
    unvaried = replace(what, buffers={**what.buffers, "x": BITS})
    assert largest(unvaried, list(trials(unvaried, 1))).slot == "test1-nominal"


def test_numbers_of_one_side_alone_are_planted_at_the_first_and_the_largest_size() -> None:
    what = problem(floats(), total(), (300, 5000, 64))
    sides = [Side(code, ()) for code in ("x == 12 || y == 7", "x == 12 || z < 0.5f")]
    series = list(literal_trials(what, sides, 1))
    assert [trial.slot for trial in series] == ["test0-literals", "test1-literals"]
    for trial in series:
        kind, _, planted = trial.variation.partition(":")
        assert (kind, set(planted.split(";"))) == ("literals", {"7", "0.5"})
        assert trial.text.endswith("literals inputs") and trial.runs == 1
    assert not list(literal_trials(what, sides[:1] * 2, 1))
    assert not list(literal_trials(replace(what, buffers={"y": total()}), sides, 1))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("share", [0.5, 1.0, float("inf"), float("nan")])
def test_outputs_at_the_end_of_their_type_leak_no_warning(dtype: str, share: float) -> None:
    """Warnings are errors here: a newcomer read those of planted answers as a fault of the kernel."""
    largest = float(np.finfo(dtype).max) * share
    x = Buffer("float32", ("n",), Init("uniform", {"low": -1.0, "high": 1.0}))
    what = problem(x, Buffer(dtype, ("n",), role="out"))

    def compute(arrays: Mapping[str, Array]) -> dict[str, Array]:
        with np.errstate(all="ignore"):
            return {"y": (arrays["x"].astype("float64") * largest).astype(dtype)}

    found_weakness(what, compute, 1)
