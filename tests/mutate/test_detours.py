"""Values through an array of a thread's own, and variables that hold the same: what takes their place."""

from __future__ import annotations

import pytest

from kcurate.mutate.ablations import Ablation, ablations, code_with_probes, probe_numbers
from kcurate.records import Side


def side(body: str) -> Side:
    return Side(f"__global__ void f(const float* x, float* y, int n) {{ int i = threadIdx.x; {body} }}", ())


def forwarded(body: str) -> list[Ablation]:
    return [part for part in ablations(side(body)) if part.label.startswith("the array w, where")]


STORE = "float w[8]; for (int k = 0; k < 8; k++) w[(k + i) % 8] = x[i] * k;"


def test_what_a_round_stores_takes_the_place_of_what_a_round_loads() -> None:
    load = "float s = 0; for (int j = 0; j < 8; j++) s += w[(3 * j + i) % 8]; y[i] = s;"
    (part,) = forwarded(f"{STORE} {load}")
    assert "s += (true ? (float)(x[i] * j) : (w[(3 * j + i) % 8]))" in part.side.code
    assert "{ if (!true) for (int k = 0; k < 8; k++) w[" in part.side.code
    assert part.may_round and not part.visible_in_counts


@pytest.mark.parametrize(
    "body",
    [
        f"{STORE} w[0] = 1; y[i] = w[i];",  # two stores
        f"{STORE} y[i] = w[i];",  # no round that is known
        f"{STORE} w[3] += 1; for (int j = 0; j < 8; j++) y[i] += w[j];",
        f"{STORE} float* p = w; for (int j = 0; j < 8; j++) y[i] += w[j];",
        "float w[8]; for (int k = 0; k < 8; k++) w[k] = w[k] + x[k];",
        "__shared__ float w[8]; w[i] = x[i]; y[i] = w[i];",
        "float w[8]; for (int k = 0; k < 8; k++) w[k] = x[k]; for (int k = 0; k < 8; k++) y[k] = w[7 - k];",
    ],
)
def test_arrays_stay_whose_elements_one_expression_does_not_give(body: str) -> None:
    assert not forwarded(body)


SUMS = "float a = 0, b = 0; for (int k = 0; k < n; k++) { a += x[k]; b += x[n - 1 - k]; }"


def test_one_of_two_variables_of_a_loop_serves_for_the_other() -> None:
    two = side(f"{SUMS} y[i] = a + b;")
    (number,) = [one for one in probe_numbers(two) if "kcu_probe_real(" in code_with_probes(two, (one,))
                 and ", b, a);" in code_with_probes(two, (one,))]  # fmt: skip
    part = ablations(two, serving={number})[0]
    assert part.label.endswith("where a serves") and part.may_round
    assert "{ if (!true) b += x[n - 1 - k]; } } if (true) b = a; y[i]" in part.side.code


@pytest.mark.parametrize(
    "body",
    [
        f"{SUMS} y[i] = a;",  # nothing reads the other one
        "float a = 0, b = 0; for (int k = 0; k < n; k++, b += 1) a += x[k]; y[i] = a + b;",
        "float a = 0; int b = 0; for (int k = 0; k < n; k++) { a += x[k]; b += 1; } y[i] = a + b;",
    ],
)
def test_variables_stay_that_could_not_be_set_from_another(body: str) -> None:
    one = side(body)
    assert not any(", b, a);" in code_with_probes(one, (number,)) for number in probe_numbers(one))


def test_a_sum_of_what_was_lost_may_round_otherwise() -> None:
    loop = "for (int k = 0; k < n; k++) { float t = s + x[k]; c += t - s; s = t; at = k; }"
    found = {
        part.label: part for part in ablations(side(f"float s = 0, c = 0; int at = 0; {loop} y[at] = s + c;"))
    }
    assert found["c += t - s;"].may_round and not found["at = k;"].may_round
