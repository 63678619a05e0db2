"""Every operator: its PyTorch text and its plain kernel compute the same, by the judge's own comparison."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mint.one_operator import single

from kcurate.judge import Judge, JudgeConfig
from kcurate.mint import admission
from kcurate.mint.admission import CUDA, Admission, Minted, Minting, admit
from kcurate.mint.graph import OPERATORS, REST
from kcurate.mint.naive import numbered
from kcurate.mint.scalar_text import c_text
from kcurate.mint.schedules.triton_side import triton_side
from kcurate.records import Outcome
from kcurate.triton_source.allowed import refusals

# One in so many runs in every test run.
ONE_IN = 24
NAMES = [
    pytest.param(name, marks=() if at % ONE_IN == 0 else pytest.mark.slow)
    for at, name in enumerate(OPERATORS)
]


@pytest.mark.parametrize("name", NAMES)
def test_the_plain_kernel_computes_what_pytorch_does(name: str) -> None:
    minted = admit(Minting(single(name), 1, 1))
    # Where rows of its input hardly vary, its rounding is more than float32's tolerance leaves to it.
    refused = Admission.ROUNDING if name == "layer_norm_backward" else Admission.ADMITTED
    assert minted.outcome is refused, f"{minted.outcome}: {minted.why}"
    assert (minted.outcome is Admission.ADMITTED) == has_answer(minted)


def has_answer(minted: Minted) -> bool:
    """Whether an answer by schedules is there, which it is only if it computes what the module does."""
    return any(candidate.id.endswith(f"/{CUDA}") for candidate in minted.candidates)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sides_in_triton_stay_within_what_is_allowed(name: str, dtype: str) -> None:
    answer = triton_side(single(name, dtype))
    assert answer is None or not list(refusals(answer.side.code)), answer.side.code


TRITON = (
    "gelu_backward",
    "softmax",
    "layer_norm",
    "cumsum",
    "column_mean",
    "max_pool",
    "conv2d",
    "linear_bias",
)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "softmax" else pytest.mark.slow) for n in TRITON]
)
def test_sides_in_triton_compute_the_same(name: str) -> None:
    minted = admit(Minting(single(name), 1, 1))
    (answer,) = (candidate for candidate in minted.candidates if candidate.fast.language == "triton")
    with Judge(JudgeConfig("emulator")) as judge:
        verdict = judge.judge(answer)
    assert verdict.outcome is Outcome.CORRECT, verdict.detail


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_an_entry_names_only_what_it_has(operator) -> None:  # type: ignore[no-untyped-def]
    axes = {axis for parameter in operator.parameters for axis in parameter.axes} | set(operator.extents)
    assert {*operator.out, *operator.axes, *operator.folded} <= axes | {REST}
    fields = {parameter.name: "a" for parameter in operator.parameters}
    numbers = {name: choices[0] for name, choices in operator.attributes.items()}
    for text in (operator.torch, *operator.words):
        assert "{" not in text.format(**fields, **numbers)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("a - (b - c)", "a - (b - c)"),
        ("(a - b) - c", "a - b - c"),
        ("a / (b * c)", "a / (b * c)"),
        ("(a + b) * c", "(a + b) * c"),
        ("-(a + b)", "-(a + b)"),
        ("a if (a > b) & (b > 0) else c + 1.0", "a > b && b > 0 ? a : c + 1.0f"),
        ("(a if b > c else c) + 1", "(b > c ? a : c) + 1"),
        ("max(a, exp(b))", "fmaxf(a, expf(b))"),
        ("x[..., a + 1] % 2", "x(..., a + 1) % 2"),
    ],
)
def test_expressions_in_cuda(expression: str, text: str) -> None:
    got = c_text(expression, lambda name: name, lambda name, at: f"{name}({', '.join(at)})")
    assert got == text


@pytest.mark.parametrize("expression", ["not a", "+a", "~a"])
def test_an_operator_that_has_no_text_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="not an expression of operators"):
        c_text(expression, lambda name: name, lambda name, at: name)


def test_no_numbered_kernel_has_the_name_of_another() -> None:
    names = [numbered(operator, number) for operator in OPERATORS for number in range(1, 10)]
    assert len({*names, *OPERATORS}) == len(names) + len(OPERATORS)


def test_a_side_that_does_not_compile_costs_its_graph_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = admission.naive_side
    broken = lambda graph, seed: replace(side := plain(graph, seed), code=f"{side.code}\nint")  # noqa: E731
    monkeypatch.setattr(admission, "naive_side", broken)
    minted = admit(Minting(single("relu"), 1, 1))
    assert minted.outcome is Admission.PLAIN_WRONG and "does not compile" in minted.why
