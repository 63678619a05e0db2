"""The size settings that a draft is tried on: hardest first, always of two scales, always small enough."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kcurate.draft import size_settings
from kcurate.draft.algebra import number, of_text
from kcurate.problem.expressions import evaluate


def ladder(
    counts: tuple[str, ...], known: Mapping[str, int | None], block: tuple[int, ...] = (64,)
) -> dict[str, list[Mapping[str, int]]]:
    """The settings by what they have in common; each fits the buffers and differs from the others."""
    polys = [poly for text in counts if (poly := of_text(text)) is not None]
    assert len(polys) == len(counts)
    found = size_settings.ladder(known, polys, block)
    for step in found:
        assert len(step.test) > 1
        for n, setting in enumerate(step.test):
            assert setting not in step.test[:n]
            assert all(1 <= evaluate(text, setting) <= size_settings.MAX_TEST_ELEMENTS for text in counts)
    return {step.what: list(step.test) for step in found}


@pytest.mark.parametrize(
    ("counts", "names"),
    [(("n",), "n"), (("a*b", "c*d"), "abcd"), (("a*b*c",), "abc"), (("a", "b", "c", "d"), "abcd")],
)
def test_the_first_settings_are_odd_and_different(counts: tuple[str, ...], names: str) -> None:
    odd, _, smaller = ladder(counts, dict.fromkeys(names))["odd and different"]
    for setting in (odd, smaller):
        assert all(value % 2 for value in setting.values())
        assert len({*setting.values()}) == len(names)
    assert all(evaluate(text, smaller) < evaluate(text, odd) for text in counts)


def test_a_kernel_without_guards_gets_multiples_of_its_block() -> None:
    assert ladder(("n",), {"n": None}, (96,))["multiples of 96"] == [{"n": 192}, {"n": 96}]
    assert ladder(("a*b",), {"a": None, "b": None}, (16, 8))["multiples of 32"] == [
        {"a": 64, "b": 96},
        {"a": 32, "b": 64},
    ]


def test_equal_sizes_are_powers_of_two() -> None:
    assert ladder(("a*b",), {"a": None, "b": None})["equal powers of two"] == [
        {"a": 128, "b": 128},
        {"a": 64, "b": 64},
    ]
    found = size_settings.ladder({"n": None}, [], (96,))
    powers = [step.test for step in found if step.what == "equal powers of two"]
    assert [[setting["n"] for setting in test] for test in powers] == [[128, 64], [512, 256], [2048, 1024]]


def test_small_sizes_of_the_host_stay() -> None:
    """A filter of 5 taps is a constant of the computation, not its extent."""
    for settings in ladder(("n + taps",), {"n": 1 << 20, "taps": 5}).values():
        assert {setting["taps"] for setting in settings} == {5}
    assert size_settings.degree([of_text("n*taps") or pytest.fail()], {"n": 100, "taps": 5}) == 1
    assert size_settings.degree([of_text("n*(m/2)") or pytest.fail()], {"n": 100, "m": None}) == 2


def test_the_hosts_own_sizes_and_half_of_them_are_tried_last() -> None:
    known = {"n": 200, "m": 40, "taps": 5}
    found = ladder(("n*m",), known)
    assert list(found)[-1] == "the host's own and half of them"
    assert found["the host's own and half of them"] == [known, {"n": 100, "m": 20, "taps": 5}]
    assert "the host's own and half of them" not in ladder(("n*m",), {**known, "m": None})


def test_sizes_grow_until_no_buffer_is_empty_and_shrink_until_all_fit() -> None:
    grown = ladder(("n/100000",), {"n": None})["odd and different"]
    assert all(setting["n"] >= 100_000 for setting in grown)
    shrunk = ladder(("n*n*n",), {"n": None})["odd and different"]
    assert all(setting["n"] ** 3 <= size_settings.COMMON_TEST_ELEMENTS for setting in shrunk)
    assert ladder(("n - n",), {"n": None}) == {}
    own = size_settings.Settings("those of the code", ({},))
    assert size_settings.ladder({}, [number(5)], (64,)) == (own,)
    assert size_settings.ladder({}, [number(size_settings.MAX_OWN_ELEMENTS + 1)], (64,)) == ()


def test_the_size_to_time_is_the_hosts_within_the_limit() -> None:
    n, nn = of_text("n"), of_text("n*n")
    assert n is not None and nn is not None
    assert size_settings.bench({"n": 12345}, [n]) == {"n": 12345}
    assert size_settings.bench({"n": None}, [n]) == {"n": 1 << 22}
    assert size_settings.bench({"n": None}, [nn]) == {"n": 4096}
    assert size_settings.bench({"n": 1 << 20}, [nn]) == {"n": 1 << 14}


def test_rows_are_no_nearer_than_they_are_long() -> None:
    found = ladder(("step*m - step + n", "m*n"), {"m": None, "n": None, "step": None})
    assert all(setting["step"] >= setting["n"] for some in found.values() for setting in some)


@pytest.mark.parametrize("known", [None, 100, 3000])
def test_rows_are_no_nearer_than_they_are_long_at_the_size_to_time(known: int | None) -> None:
    polys = [poly for text in ("(rows - 1)*pitch + width",) if (poly := of_text(text)) is not None]
    bench = size_settings.bench({"rows": 700, "pitch": known, "width": 1000}, polys)
    assert bench["pitch"] >= bench["width"] == 1000


@pytest.mark.parametrize(
    ("known", "apart"),
    [
        ({"n": None, "window": 4, "step": 4}, {"window": 4, "step": 5}),
        ({"n": None, "a": 3, "b": 3, "c": 3}, {"a": 3, "b": 4, "c": 5}),
        (
            {"n": 5000, "one": 1, "other": 1, "window": 8, "step": 8},
            {"one": 1, "other": 1, "window": 8, "step": 9},
        ),
    ],
)
def test_small_sizes_that_the_host_sets_alike_are_tried_apart_first(
    known: dict[str, int | None], apart: dict[str, int]
) -> None:
    steps = ladder(("n",), known)
    first, second = list(steps)[:2]
    assert (first, second) == ("odd and different, small ones too", "odd and different")
    assert all(setting.items() >= apart.items() for setting in steps[first])
    assert all(setting[name] == known[name] for setting in steps[second] for name in apart)


def test_small_sizes_that_differ_need_no_step_of_their_own() -> None:
    assert next(iter(ladder(("n",), {"n": None, "window": 4, "step": 2}))) == "odd and different"
