"""Formulas of one operation in place of what a side computes in a longer way: which ones are probed."""

from __future__ import annotations

import re

import pytest

from kcurate.mutate.ablations import ablations, code_with_probes, probe_numbers
from kcurate.mutate.guards import MOST_PARTS
from kcurate.records import Side

PRODUCT = """__global__ void f(const int* a, const int* b, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned first = a[i], second = b[i], product = 0;
    for (int bit = 0; bit < 32; bit++) {
        if (second & 1u) product += first;
        first <<= 1;
        second >>= 1;
    }
    out[i] = product;
}
"""


def inside(body: str) -> Side:
    head = "__global__ void f(const float* a, const float* b, float* out, int n)"
    return Side(f"{head} {{ int i = threadIdx.x; {body} }}", ())


def probes(side: Side) -> list[str]:
    """What each probe compares, a value and a formula."""
    text = code_with_probes(side, probe_numbers(side))
    return re.findall(r"kcu_probe_\w+\(\d+, (.*?)\);(?=[ \w\n])", text)


def test_what_a_loop_leaves_is_compared_with_what_was_known_before_it() -> None:
    found = probes(Side(PRODUCT, ()))
    assert "product, ((unsigned)(a[i]) * (unsigned)(b[i]))" in found
    # The loop has changed these, so that formulas of them would be of other rounds.
    assert not any(re.search(r", \(.*\b(first|second)\b", one) for one in found)


def test_a_formula_takes_the_place_of_the_loop() -> None:
    side = Side(PRODUCT, ())
    served = next(
        number for number in probe_numbers(side)
        if "a[i]) * (unsigned)(b[i]" in ablations(side, serving={number})[0].label
    )  # fmt: skip
    part = ablations(side, serving={served})[0]
    assert "if (!true) for (int bit = 0" in part.side.code
    assert "} } if (true) product = (unsigned)(((unsigned)(a[i]) * (unsigned)(b[i])));\n" in part.side.code


def test_nothing_comes_between_a_pragma_and_its_loop() -> None:
    text = "\n#pragma unroll\nfor (int k = 0; k < 4; k++) out[k] = w;"
    side = inside("float w = 0; while (w < a[i]) w += 1;" + text)
    assert probe_numbers(side) and text in code_with_probes(side, probe_numbers(side))


def test_parts_with_probes_are_tried_only_where_these_agreed() -> None:
    side = Side(PRODUCT, ())
    assert not {number for part in ablations(side) for number in part.numbers} & {*probe_numbers(side)}


@pytest.mark.parametrize(
    ("body", "pair"),
    [
        ("out[i] = exp(log(a[i]) + log(b[i]));", "exp(log(a[i]) + log(b[i])), (a[i] * b[i])"),
        ("int p = i * n; int k = p / n; out[k] = a[k];", "p / n, ((int)(i))"),
        ("float v = a[i], w = 0; while (w < v) w += 1; out[i] = w;", "w, (sqrtf(v))"),
        (
            "float s = b[i]; for (int k = 0; k < 8; k++) s += a[i] * 0.5f; out[i] = s;",
            "s, ((b[i]) + a[i] * 0.5f)",
        ),
        ("float v = a[i]; int k = 0; while (k * 0.5f < v) k++; out[i] = k;", "k, ((int)(v / 0.5f))"),
    ],
)
def test_values_are_compared_with_formulas_of_their_kind(body: str, pair: str) -> None:
    assert pair in probes(inside(body))


@pytest.mark.parametrize(
    "body",
    [
        "out[i] = a[i] * b[i];",  # costs no more than a formula
        "out[i] = helper(a[i]) / 2;",  # may change something
        "float w = 0; while (w < 5) w += a[i];",  # nobody reads it
        "int p = a[i], k = p / n; out[k] = b[k];",  # `p` is not known before the statement
        "int p = a[i]; int k = p / 8; out[k] = b[k];",  # a compiler makes it a shift
    ],
)
def test_nothing_is_probed_where_a_formula_is_no_gain_or_cannot_stand(body: str) -> None:
    assert not probes(inside(body))


def test_a_call_of_a_function_of_numbers_is_compared_with_all_formulas() -> None:
    helper = "__device__ int times(int a, int b) { return b ? a + times(a, b - 1) : 0; }\n"
    kernel = (
        "__global__ void f(const int* a, int* out, int n) { int i = threadIdx.x; out[i] = times(a[i], i); }"
    )
    found = probes(Side(helper + kernel, ()))
    assert "times(a[i], i), ((int)(i) * (int)(a[i]))" in found
    taking_a_pointer = helper.replace("int a,", "int* a,").replace("a +", "*a +")
    assert not probes(Side(taking_a_pointer + kernel.replace("a[i], i", "a, i"), ()))


def test_an_expression_is_compared_with_cheaper_formulas_alone() -> None:
    found = probes(inside("out[i] = a[i] / b[i];"))
    assert found and not any("sqrtf" in one or one.endswith("(a[i] / b[i])") for one in found)


@pytest.mark.parametrize(
    ("statement", "plain"),
    [
        ("atomicAdd(&out[i], a[i]);", "((*(&out[i])) = (*(&out[i])) + (a[i]))"),
        ("atomicMax(&out[i], 3);", "((*(&out[i])) = (3) > (*(&out[i])) ? (3) : (*(&out[i])))"),
    ],
)
def test_an_atomic_may_be_a_plain_store_where_its_place_is_one_threads(statement: str, plain: str) -> None:
    side = inside(statement)
    (number,) = probe_numbers(side)
    assert f"kcu_probe_alone({number}, " in code_with_probes(side, (number,))
    assert any(plain in part.side.code for part in ablations(side, serving={number}))


@pytest.mark.parametrize(
    ("loop", "count"),
    [
        ("int old = 0; while (old != 7) old = atomicCAS(p, old, 7);", 1),
        ("while (atomicCAS(p + k, -1, i) != -1) k++;", 0),  # the place changes
        ("while (true) { int was = *p; if (atomicCAS(p, was, was + 1) == was) break; }", 0),
    ],
)
def test_a_loop_that_swaps_may_be_a_store(loop: str, count: int) -> None:
    text = f"__global__ void f(int* p, int n) {{ int i = threadIdx.x, k = 0; {loop} }}"
    assert (
        sum(
            "kcu_probe_alone" in code_with_probes(Side(text, ()), (n,)) for n in probe_numbers(Side(text, ()))
        )
        == count
    )


def test_numbers_stay_below_what_the_emulator_has_room_for() -> None:
    many = "".join(
        f"float v{k} = 0; while (v{k} < a[i + {k}]) v{k} += 1; out[{k}] = v{k}; " for k in range(40)
    )
    assert max(probe_numbers(inside(many))) <= MOST_PARTS
